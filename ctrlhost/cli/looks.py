"""Looks at a running host again and again, on a thread of their own, so that a silent host does not hang the screen."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.cli.amounts import duration
from ctrlhost.cli.messages import describe
from ctrlhost.cli.running_host import RunningHost
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctrlhost.cli.rows import View
    from ctrlhost.cli.running_host import Answer

#: Seconds for an answer, after which the screen says that the host is silent.
_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """What the host said last: its status, and the answer for one view."""

    status: Answer
    view: View
    #: The answer for the view; None if the host refused, or did not answer at all.
    answer: Answer | None
    #: Why the host refused; empty if it did not.
    refused: str = ""
    #: Why the last look failed; empty if it did not.
    lost: str = ""
    #: When the status came, by the monotonic clock.
    at: float = field(default_factory=time.monotonic)

    def loss(self) -> str:
        """Return that the status is old, and why; empty for a current one."""
        if not self.lost:
            return ""
        return f"connection lost, data of {duration(time.monotonic() - self.at)} ago, trying again: {self.lost}"


class Looks:
    """The newest look at a host. `show` may be called from any thread."""

    def __init__(
        self, url: str | None, socket: Path | None, first: Look, interval: float, notify: Callable[[Look], object]
    ) -> None:
        """Begin with the look `first`; the thread looks each `interval` seconds, and calls `notify` with each look."""
        self._url = url
        self._socket = socket
        self._last = first
        self._view = first.view
        self._interval = interval
        self._notify = notify
        self._wake = threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="looks", daemon=True).start()

    def stop(self) -> None:
        """Call `notify` no longer; the thread ends with its request."""
        self._ended.set()
        self._wake.set()

    def show(self, view: View) -> None:
        """Look at once, for this view."""
        self._view = view
        self._wake.set()

    def host(self) -> RunningHost:
        """Return the host, anew: one that was started again has another socket."""
        return RunningHost(self._url, self._socket)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._last = look = self._look(self._view)
            if self._ended.is_set():
                return
            self._notify(look)
            self._wake.wait(self._interval)
            self._wake.clear()

    def _look(self, view: View) -> Look:
        try:
            host = self.host()
            status = host.status(_PATIENCE)
        except CtrlhostError as error:
            return Look(self._last.status, view, None, lost=describe(error), at=self._last.at)
        try:
            return Look(status, view, view.ask(host))
        except CtrlhostError as error:
            return Look(status, view, None, describe(error))
