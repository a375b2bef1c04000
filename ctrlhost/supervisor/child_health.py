"""The health of an isolated plugin, as its process says."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctrlhost.plugin.probe import CheckState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.health import Check
    from ctrlhost.supervisor.channel import Beat

#: Seconds after which a report of the process, which sends one each second, is shown with its age.
_OLD = 3.0


class ChildHealth:
    """Keeps the last report of a process, and asks for the plugin's health checks. Callable from any thread."""

    def __init__(self, deadline: Callable[[], float], ask: Callable[[int], None]) -> None:
        """Prepare; `deadline` returns that of each health check.

        `ask` asks the process to call the checks, and has the number of the request; it must not wait.
        """
        self._deadline = deadline
        self._ask = ask
        self._lock = threading.Lock()
        self._beat: Beat | None = None
        self._heard = 0.0
        #: The last request, and what ends with all of its checks.
        self._probe, self._probed_at = 0, 0.0
        self._answer: Future[None] = Future()

    def heard(self, beat: Beat) -> None:
        """Take a report of the process."""
        with self._lock:
            self._beat, self._heard = beat, time.monotonic()
            if (
                beat.probe == self._probe
                and all(check.since is None for check in beat.health)
                and not self._answer.done()
            ):
                self._answer.set_result(None)

    def end(self) -> None:
        """Forget what was reported: the process has ended."""
        with self._lock:
            self._beat = None

    def lines(self) -> list[Check]:
        """Return the lines of the controllers, with their age if the process does not answer."""
        return self._with_age(lambda beat: beat.checks)

    def leadership(self) -> list[Check]:
        """Return the line of the plugin's own lease, if it has one, with its age if the process does not answer."""
        return self._with_age(lambda beat: beat.leadership)

    def _with_age(self, part: Callable[[Beat], Iterable[Check]]) -> list[Check]:
        with self._lock:
            beat, age = self._beat, time.monotonic() - self._heard
        lines = list(part(beat)) if beat is not None else []
        if age > _OLD:
            lines = [replace(line, detail=f"{line.detail}, {age:.0f} s old") for line in lines]
        return lines

    @property
    def checks(self) -> list[ChildCheck]:
        """The health checks that the plugin has added."""
        with self._lock:
            return [ChildCheck(self, check.name) for check in self._beat.health] if self._beat is not None else []

    def start(self) -> Future[None]:
        """Ask the process to call the checks that do not run; return what ends with the calls."""
        with self._lock:
            if self._answer.done():
                self._answer = Future()
            if self._beat is not None and self._beat.probe == self._probe:
                self._probe, self._probed_at = self._probe + 1, time.monotonic()
                self._ask(self._probe)
            return self._answer

    def last(self, name: str) -> Check:
        """Return the last outcome of a check, as `PluginCheck.last` does."""
        with self._lock:
            beat = self._beat
            check_found = (
                next((check for check in beat.health if check.name == name), None) if beat is not None else None
            )
            state = check_found or CheckState(name, None, None)
            if beat is not None and beat.probe != self._probe and state.since is None:
                # The process has not even begun to call it.
                state = replace(state, since=self._probed_at)
        return state.line(self._deadline())


@dataclass(frozen=True, slots=True)
class ChildCheck:
    """A health check in another process: the counterpart of `PluginCheck`."""

    health: ChildHealth
    name: str

    def start(self) -> Future[None]:
        """Begin a call unless one runs; return what ends with the calls of all checks of the plugin."""
        return self.health.start()

    def last(self) -> Check:
        """Return the last outcome; with its age if a call runs, and a failure if that is beyond its deadline."""
        return self.health.last(self.name)
