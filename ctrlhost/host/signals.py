"""The signals that shut a host down, and the one that shows what its threads do."""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: Seconds within which a signal is a duplicate: Ctrl-C reaches a whole process group, and wrappers forward it.
_SAME_SIGNAL = 0.1
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Maximum delay until a signal is noticed, in seconds.
SIGNALS_SEEN = 0.5
_STDERR = 2


class StopRequested(BaseException):
    """A signal arrived while the host was starting."""


@contextmanager
def exiting() -> Iterator[None]:
    """End the process with code 0 on SIGTERM, SIGINT or SIGHUP, while no host handles them; in the main thread only.

    The first process of a container would otherwise ignore SIGTERM.
    """

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    with _handled_by(leave):
        yield


@contextmanager
def writing_stacks() -> Iterator[None]:
    """At each SIGUSR1, write the stacks of all Python threads to stderr, as soon as the main thread runs.

    Not `faulthandler.register`, whose C code writes while the threads run, and now and then reads a frame that is gone.
    """

    def write(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(_STDERR, all_threads=True)

    before = signal.signal(signal.SIGUSR1, write)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    # `nohup` ignores SIGHUP for its children.
    wanted = [number for number in _SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _has_terminal() -> bool:
    """Return whether the process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        # Without a free descriptor nothing is known: a reload does less harm than a stop.
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return True


class StopSignals:
    """Handles SIGTERM, SIGINT and SIGHUP: the first sets `stopping`, a second ends the process at once with code 1.

    SIGHUP asks for a reload, unless the terminal of the process was closed.
    """

    def __init__(
        self, stopping: threading.Event, wake: Callable[[], None], begun: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare; after a signal has set `stopping`, `begun` is called at once, and `wake` on its own thread."""
        self._stopping = stopping
        self._wake = wake
        self._begun = begun
        #: The name of the signal that arrived; empty before.
        self.received = ""
        #: Whether SIGHUP has asked for a reload that has not begun.
        self.reload = False
        self._received_at = 0.0
        self._raises = self._had_terminal = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handle signals while the block runs; in the main thread only."""
        self._had_terminal = _has_terminal()
        with _handled_by(self._on_signal):
            yield

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Raise StopRequested in the main thread for a signal that arrives while the block runs."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if number == signal.SIGHUP and not (self._had_terminal and not _has_terminal()):
            if not self.reload:
                self.reload = True
                threading.Thread(target=self._wake, daemon=True).start()
            return
        since, self._received_at = time.monotonic() - self._received_at, time.monotonic()
        if self._stopping.is_set():
            if since < _SAME_SIGNAL:
                return
            os.write(2, f"second {name}: forcing exit\n".encode())
            os._exit(1)
        self.received = name
        self._stopping.set()
        self._begun()
        if self._raises:
            raise StopRequested
        # The main thread waits on the condition, so another thread must wake it.
        threading.Thread(target=self._wake, daemon=True).start()
