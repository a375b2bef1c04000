"""The reasons for which a plugin is degraded that show only over time.

These are errors, a backlog, a wait, a pause, a hot loop, and informers that the memory budget has no room for.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ctrlhost import _core
from ctrlhost.controller.sentences import controller_fails, rights_missing
from ctrlhost.supervisor.held import held_deletions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from ctrlhost.clock import Clock
    from ctrlhost.controller.controller import Controller
    from ctrlhost.entries import Reason
    from ctrlhost.informers import Informer
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")

#: Seconds of real time between two reviews.
_PERIOD = 1.0
#: Seconds.
OLDEST_KEY = 300.0
LONGEST_WAIT = 60.0
#: Keys that end with NotOwned run again after 60 s.
_CONFLICT = 90.0


class Review:
    """A thread that reviews the plugins of a host once a second. Methods may be called from any thread."""

    def __init__(self, plugins: Sequence[PluginRuntime], clock: Clock, also: Callable[[], None] = lambda: None) -> None:
        """Prepare; `start` starts the thread, which calls `also` after each review."""
        self._also = also
        self._plugins = plugins
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="review", daemon=True)
        #: When plugins began to wait, and controllers to work.
        self._since: dict[Hashable, float] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_PERIOD):
            try:
                self.check()
                self._also()
            except Exception:
                # What went wrong once must not end the reviews of all plugins.
                log.exception("the review of the plugins failed; continuing")

    def check(self) -> None:
        """Review each plugin now."""
        oldest = {row["id"]: row["oldest"] for row in _core.queue_metrics()}
        # A plugin in a process of its own is reviewed there.
        for plugin in (plugin for plugin in self._plugins if not plugin.isolated):
            controllers = plugin.controllers if plugin.state in ("running", "waiting", "syncing") else []
            whys: dict[Reason, str] = {
                "waiting": self._waiting(plugin),
                "forbidden": _forbidden(plugin),
                "paused": _paused(controllers),
                "errors": _errors(controllers),
                "ownership": _first(controller.history.conflict(_CONFLICT) for controller in controllers),
                "deletion": _first(held_deletions(plugin)) if controllers else "",
                "over-budget": _first(informer.over_budget for informer in _informers(plugin)),
                "backlog": _first(
                    self._backlog(controller, oldest.get(controller.queue.id, 0.0)) for controller in controllers
                ),
            }
            for reason, why in whys.items():
                if why:
                    plugin.entries.degrade(reason, why)
                else:
                    plugin.entries.recover(reason)
            if all(controller.without_hot_loop() for controller in controllers):
                plugin.entries.recover("hot-loop")

    def _waiting(self, plugin: PluginRuntime) -> str:
        seconds = self._for(plugin, holds=plugin.state == "waiting")
        return f"for {seconds:.0f} s: {plugin.reason}" if seconds > LONGEST_WAIT else ""

    def _backlog(self, controller: Controller, oldest: float) -> str:
        # Keys of a standby wait for as long as another replica leads.
        age = min(oldest, self._for(controller, holds=controller.working))
        return f"the oldest key of {controller.name} has been queued for {age:.0f} s" if age > OLDEST_KEY else ""

    def _for(self, subject: Hashable, *, holds: bool) -> float:
        """Return for how many seconds something has held."""
        if not holds:
            self._since.pop(subject, None)
            return 0.0
        now = self._clock.now()
        return now - self._since.setdefault(subject, now)


def _paused(controllers: Sequence[Controller]) -> str:
    states = {controller.name: controller.pause_state for controller in controllers}
    return ", ".join(f"{name} by {state.by}" for name, state in states.items() if state is not None)


def _forbidden(plugin: PluginRuntime) -> str:
    """Return which rights a plugin lacks that runs; one that waits for them says so itself."""
    missing, context = plugin.missing_rights if plugin.state == "running" else (), plugin.context
    if not missing or context is None:
        return ""
    return rights_missing(plugin.name, len(missing), context.services.plugins)


def _errors(controllers: Sequence[Controller]) -> str:
    """Return what fails in the worst of the controllers; empty if all are well."""
    outcomes = [(controller, controller.outcomes()) for controller in controllers if controller.history.failing]
    bad = [(controller, outcome) for controller, outcome in outcomes if outcome.severity != "ok"]
    if not bad:
        return ""
    controller, worst = max(bad, key=lambda item: (item[1].severity == "failing", item[1].failing))
    return controller_fails(controller.name, worst, next(iter(controller.history.causes.worst(1)), None))


def _informers(plugin: PluginRuntime) -> list[Informer]:
    context = plugin.context
    own = [] if context is None else [informer.chosen for informer in context.informers]
    return [
        *(informer for informer in own if informer is not None),
        *(informer for controller in plugin.controllers for informer in controller.informers),
    ]


def _first(whys: Iterable[str]) -> str:
    return next(filter(None, whys), "")
