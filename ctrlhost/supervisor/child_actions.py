"""What an operator asks of an isolated plugin: its host passes it on to the process, which answers."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.supervisor.channel import Act, Acted, LogLevel


class ChildActions:
    """The actions of one process that are not answered yet. Callable from any thread."""

    def __init__(self, send: Callable[[Act | LogLevel], None]) -> None:
        """Send by `send`, which must not wait."""
        self._send = send
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[Acted]] = {}
        self._ended = False

    def ask(self, message: Callable[[int], Act | LogLevel]) -> Future[Acted]:
        """Pass on the message of a number; the future raises ConnectionError when the process ends first."""
        answer: Future[Acted] = Future()
        with self._lock:
            if self._ended:
                answer.set_exception(ConnectionError("the process of the plugin has ended"))
                return answer
            number = next(self._numbers)
            self._open[number] = answer
        self._send(message(number))
        return answer

    def answered(self, message: Acted) -> None:
        """Take an answer of the process."""
        with self._lock:
            answer = self._open.pop(message.number, None)
        if answer is not None:
            answer.set_result(message)

    def end(self) -> None:
        """Fail what is not answered, since the process has ended."""
        with self._lock:
            self._ended = True
            left, self._open = list(self._open.values()), {}
        for answer in left:
            answer.set_exception(ConnectionError("the process of the plugin has ended"))
