"""Which controllers are paused, by whom and since when."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Who pauses a controller without anybody's call.
BY_SETTING = "the setting `paused`"


class Paused(NamedTuple):
    """A pause: who asked for it, and when it began, in seconds since the epoch."""

    by: str
    since: float


class Pauses:
    """The pauses of the controllers of a host, which outlive restarts of plugins. Callable from any thread."""

    def __init__(self, states: Mapping[str, Paused | None] | None = None) -> None:
        """Start with the states of these controllers, by `plugin/name`; None for one that was resumed."""
        self._lock = threading.Lock()
        self._states: dict[str, Paused | None] = dict(states or {})

    def begin(self, controller: str, *, paused: bool) -> Paused | None:
        """Return the pause of a controller that begins; without an earlier state, that of its setting `paused`."""
        with self._lock:
            return self._states.setdefault(controller, Paused(BY_SETTING, time.time()) if paused else None)

    def pause(self, controller: str, by: str) -> Paused:
        """Note that a controller is paused, and return its pause; an earlier one stays."""
        with self._lock:
            state = self._states.get(controller) or Paused(by, time.time())
            self._states[controller] = state
            return state

    def resume(self, controller: str) -> None:
        """Note that a controller is not paused, whatever its setting says."""
        with self._lock:
            self._states[controller] = None

    def states(self) -> dict[str, Paused | None]:
        """Return the states of all controllers so far."""
        with self._lock:
            return dict(self._states)


class Pause:
    """Holds the workers of one controller while it is paused. Methods may be called from any thread."""

    def __init__(self, controller: str, pauses: Pauses, *, paused: bool) -> None:
        """Begin as `pauses` says, else as the setting `paused` says."""
        self._controller = controller
        self._pauses = pauses
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._ended = False
        #: Who has paused it, and since when; None while it is not paused.
        self.state = pauses.begin(controller, paused=paused)
        #: Whether no reconcile may begin; read before each.
        self.paused = self.state is not None
        if not self.paused:
            self._open.set()

    def wait(self) -> None:
        """Wait until `resume` or `end`, if paused."""
        self._open.wait()

    def pause(self, by: str) -> bool:
        """Begin no further reconcile; return whether that is new."""
        with self._lock:
            new = not self.paused
            self.state = self._pauses.pause(self._controller, by)
            self.paused = True
            if not self._ended:
                self._open.clear()
            return new

    def resume(self) -> bool:
        """Begin reconciles again; return whether that is new."""
        with self._lock:
            new = self.paused
            self._pauses.resume(self._controller)
            self.paused, self.state = False, None
            self._open.set()
            return new

    def end(self) -> None:
        """Release the workers for good, so that they see the shutdown of the queue; what is queued stays undone."""
        with self._lock:
            self._ended = True
            self._open.set()
