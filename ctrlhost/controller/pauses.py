"""Which controllers are paused, by whom and since when."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Who pauses a controller without anybody's call.
BY_SETTING = "the setting `paused`"


class Paused(NamedTuple):
    """A pause: who asked for it, when it began, in seconds since the epoch, and why; the reason may be empty."""

    by: str
    since: float
    reason: str = ""


class Pauses:
    """The pauses of the controllers of a host, which outlive restarts of plugins. Callable from any thread."""

    def __init__(self, states: Mapping[str, Paused | None] | None = None, controllers: Iterable[str] = ()) -> None:
        """Start with the states of these controllers, by `plugin/name`; None for one that was resumed.

        A state by `plugin` is that of its controllers without one. `controllers` are further names that are known.
        """
        self._lock = threading.Lock()
        self._states: dict[str, Paused | None] = dict(states or {})
        self._known = dict.fromkeys(controllers)

    def begin(self, controller: str, *, paused: bool) -> Paused | None:
        """Return the pause of a controller that begins; without an earlier state, that of its setting `paused`."""
        with self._lock:
            self._known[controller] = None
            setting = Paused(BY_SETTING, time.time()) if paused else None
            return self._states.setdefault(controller, self._states.get(controller.partition("/")[0], setting))

    def pause(self, target: str, by: str, reason: str = "") -> Paused:
        """Note that a controller, or a plugin with all of its, is paused; return its pause. An earlier one stays."""
        with self._lock:
            now = Paused(by, time.time(), reason)
            for name in self._of(target):
                self._states[name] = self._states.get(name) or now
            return self._states[target] or now

    def resume(self, target: str) -> None:
        """Note that a controller, or a plugin with all of its, is not paused, whatever its setting says."""
        with self._lock:
            self._states.update(dict.fromkeys(self._of(target)))

    def know(self, controllers: Iterable[str]) -> None:
        """Note the names of controllers."""
        with self._lock:
            self._known.update(dict.fromkeys(controllers))

    def known(self, plugin: str) -> list[str]:
        """Return the names of the controllers that a plugin has had so far."""
        with self._lock:
            return [name for name in self._known if name.startswith(f"{plugin}/")]

    def states(self) -> dict[str, Paused | None]:
        """Return the states of all controllers so far."""
        with self._lock:
            return dict(self._states)

    def _of(self, target: str) -> list[str]:
        return [target, *(name for name in (*self._known, *self._states) if name.startswith(f"{target}/"))]


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

    def renew(self) -> None:
        """Take over what was noted since the pause was made; called before the workers begin."""
        with self._lock:
            self.state = self._pauses.begin(self._controller, paused=False)
            self.paused = self.state is not None
            if not self.paused:
                self._open.set()
            elif not self._ended:
                self._open.clear()

    def wait(self) -> None:
        """Wait until `resume` or `end`, if paused."""
        self._open.wait()

    def pause(self, by: str, reason: str = "") -> bool:
        """Begin no further reconcile; return whether that is new."""
        with self._lock:
            new = not self.paused
            self.state = self._pauses.pause(self._controller, by, reason)
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
