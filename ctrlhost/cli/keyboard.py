"""Keys of a terminal, one by one, and its changes of size."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_ESCAPE = "\x1b"


class Keyboard:
    """The keys of the terminal at stdin; they are not echoed while this is entered. Only for the main thread.

    SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does, so that the terminal is restored.
    """

    def __enter__(self) -> Self:
        """Take over the terminal."""
        self._descriptor = sys.stdin.fileno()
        self._awake, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = termios.tcgetattr(self._descriptor)
        numbers = {signal.SIGWINCH: _ignore, signal.SIGTERM: signal.default_int_handler}
        numbers[signal.SIGHUP] = signal.default_int_handler
        self._handlers = {number: signal.signal(number, handler) for number, handler in numbers.items()}
        self._old_wakeup = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        tty.setcbreak(self._descriptor)
        # A stopped process would leave its screen to the shell.
        changed = termios.tcgetattr(self._descriptor)
        changed[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(self._descriptor, termios.TCSANOW, changed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the terminal."""
        termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, self._before)
        signal.set_wakeup_fd(self._old_wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._awake)
        os.close(self._wakeup)

    def wake(self) -> None:
        """End a `wait`; callable from any thread while this is entered."""
        os.write(self._wakeup, b"\0")

    def wait(self) -> str:
        """Wait for keys, for `wake` or for a change of size; return the keys. EOFError if the terminal has gone."""
        ready, _, _ = select.select([self._descriptor, self._awake], [], [])
        if self._awake in ready:
            os.read(self._awake, 4096)
        if self._descriptor not in ready:
            return ""
        read = os.read(self._descriptor, 1024)
        if not read:
            raise EOFError
        keys = read.decode(errors="ignore")
        # Arrows and other keys that send a sequence mean nothing here.
        return "" if keys.startswith(_ESCAPE) and len(keys) > 1 else keys


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Take the signal, so that it wakes the pipe."""
