"""The thread that writes log lines, so that a full pipe or disk blocks nobody else."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Bytes that may wait to be written.
LIMIT = 8 << 20
#: The part of them that is kept for lines of the host.
_RESERVE = 1 << 20
#: Seconds between two calls for more lines while there is nothing to write.
_PERIOD = 1.0
#: Bytes that are written at once.
_CHUNK = 64 << 10
#: Seconds that the end of the process waits for the last call of the thread.
_END = 1.0
#: Seconds until the next try to write to a full stream that does not block.
_PAUSE = 0.01


class LogWriter:
    """Writes lines to a stream on its own thread.

    Methods may be called from any thread, also from a destructor that runs during another call.
    """

    def __init__(
        self, stream: TextIO, more: Callable[[], Iterable[str]], lost: Callable[[int], object] = lambda _count: None
    ) -> None:
        """Write to `stream`; `more` returns further lines, and the thread calls it once a second.

        `lost` is called with the number of lines that could not be written, for example to a full disk. No further
        lines are asked for until the next one is written.
        """
        self._write, self._release = _write_to(stream)
        self._more = more
        self._lost = lost
        #: Whether the last write failed.
        self._failing = False
        self._changed = threading.Condition(threading.RLock())
        self._lines: deque[bytes] = deque()
        #: The bytes that wait, or are being written.
        self._size = 0
        self._closed = False
        #: Whether this is a forked child, which has no thread that writes.
        self._forked = False
        self._last: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str, *, reserved: bool = False) -> bool:
        """Write a line soon; return False if too many bytes wait. `reserved`: also use what is kept for the host."""
        data = f"{line}\n".encode(errors="backslashreplace")
        if self._forked:
            self._write(data)
            return True
        with self._changed:
            if self._closed or self._size + len(data) > LIMIT - (0 if reserved else _RESERVE):
                return False
            self._lines.append(data)
            self._size += len(data)
            self._changed.notify_all()
        return True

    def flush(self, timeout: float = 2.0) -> bool:
        """Wait until all lines are written, for at most `timeout` seconds; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, timeout)

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """Write what waits, for at most 2 seconds, and end the thread, for at most 1 second; later lines are dropped.

        The thread calls `last` before it ends.
        """
        if self._forked:
            last()
            return
        self.flush()
        with self._changed:
            self._closed, self._last = True, last
            self._changed.notify_all()
        self._thread.join(_END)

    def forked(self) -> None:
        """Write lines at once from now on, on the thread that logs: called in a forked child.

        What waited is the parent's to write; the thread that had the lock may not exist here.
        """
        self._changed = threading.Condition(threading.RLock())
        self._lines, self._size, self._forked = deque(), 0, True

    def _run(self) -> None:
        asked_at = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closed, _PERIOD)
                if self._closed:
                    break
                data = self._next()
            if data:
                missing = self._write(data)
                self._failing = bool(missing)
                if missing:
                    self._lost(missing)
                with self._changed:
                    self._size -= len(data)
                    self._changed.notify_all()
            if not self._failing and time.monotonic() - asked_at >= _PERIOD:
                asked_at = time.monotonic()
                for line in self._reports():
                    self.put(line, reserved=True)
        self._last()
        self._release()

    def _reports(self) -> list[str]:
        try:
            return list(self._more())
        except Exception as error:  # noqa: BLE001 - without this thread all later lines would be lost
            return [f"cannot report dropped log lines, trying again: {type(error).__name__}: {error}"]

    def _next(self) -> bytes:
        taken: list[bytes] = []
        size = 0
        while self._lines and size < _CHUNK:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        return b"".join(taken)


def _write_to(stream: TextIO) -> tuple[Callable[[bytes], int], Callable[[], None]]:
    """Return functions that write lines to a stream, and that end it.

    The former never raises, and returns the number of lines that it could not write.
    """
    try:
        # Not through the stream's buffer: its lock would be held while the pipe is full, also when the process ends.
        # A copy: a plugin that closes or replaces stderr would have the lines written to what has its number then.
        descriptor = os.dup(stream.fileno())
    except (AttributeError, OSError, ValueError):

        def write(data: bytes) -> int:
            try:
                stream.write(data.decode(errors="replace"))
                stream.flush()
            except Exception:  # noqa: BLE001 - there is nowhere to report it
                return data.count(b"\n")
            return 0

        return write, lambda: None

    def write_all(data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                time.sleep(_PAUSE)
            except OSError:
                return bytes(rest).count(b"\n")
        return 0

    return write_all, lambda: os.close(descriptor)
