"""Inspection of a host: health, metrics, queues and the pages of its plugins."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ctrlhost._core import Probes
from ctrlhost.controller.error_text import encodable
from ctrlhost.health import Check, report
from ctrlhost.host.snapshot import Snapshot

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.types import ASGIApp

    from ctrlhost.host.child_view import ChildView
    from ctrlhost.host.reports import Reports
    from ctrlhost.host.state import HostState
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.probe import PluginCheck
    from ctrlhost.reflector.status import InformerStatus
    from ctrlhost.supervisor.child_health import ChildCheck
    from ctrlhost.supervisor.runtime import PluginRuntime, State

#: Seconds that an informer may be without a watch before the host is not ready: watches end now and then.
NOT_CURRENT_AFTER = 5.0
#: Seconds that a look at the host's own state may take before the host is not ready.
_STUCK_AFTER = 10.0
#: Seconds between two turns of Python that listeners see.
_TURN = 0.5
#: Seconds that a request waits for the checks or collectors of plugins.
_PATIENCE = 0.05

#: Keys of each part of a queue that its page shows.
SHOWN_KEYS = 100


@dataclass
class _Look:
    """The state of a host at one moment."""

    plugins: dict[str, tuple[State, list[Check]]] = field(default_factory=dict)
    #: The plugins that have not run, waited or failed yet.
    starting: list[str] = field(default_factory=list)
    leadership: list[Check] = field(default_factory=list)
    #: What is wrong with the leadership of plugins, by their lines.
    misplaced: dict[str, str] = field(default_factory=dict)
    #: The API servers, and the caches.
    outside: list[Check] = field(default_factory=list)

    def led(self, line: Check) -> Check:
        """Return the line of a plugin with what is wrong with its leadership."""
        why = self.misplaced.get(line.name)
        return replace(line, detail=f"{line.detail}; {why}") if why else line


class Inspection:
    """Reads the state of one host; all methods may be called from any thread."""

    def __init__(self, host: HostState) -> None:
        """Inspect `host`, which need not be started."""
        self._host = host
        #: What listeners answer without Python.
        self.probes = Probes(float(host.settings.gil_limit))
        #: What a look at the host reads now.
        self._step = ""
        self._reports: Reports | None = None
        self._making = threading.Lock()
        # On its own thread: a lock that a plugin's code holds up must not hold up the probes.
        self._snapshot = Snapshot(self._published, _Look())

    @property
    def reports(self) -> Reports:
        """What pages, `ctrlhost top` and the JSON show."""
        with self._making:
            if self._reports is None:
                # Not at the start: it comes before the first lists, which need none of this.
                from ctrlhost.host.reports import Reports

                self._reports = Reports(self._host, self)
            return self._reports

    def start(self) -> None:
        """Begin to renew what probes show, on a thread of its own."""
        self._snapshot.start()

    def changed(self) -> None:
        """Read the state of the host anew, since a plugin's has changed."""
        self._snapshot.changed()
        self.probes.outdate()

    def stop(self) -> None:
        """Keep what probes show as it is."""
        self._snapshot.stop()

    def checks(self, endpoint: str, plugin: str | None = None) -> list[Check] | None:
        """Return the current checks of `livez`, `readyz` or `healthz`, or those of one plugin.

        None for an unknown plugin. Waits for checks of plugins for a short time.
        """
        futures = [check.start() for check in self._checks_of_plugins(endpoint, plugin)]
        wait(futures, _PATIENCE)
        return self._compose(endpoint, plugin, self._look())

    def refresh(self, endpoint: str, plugin: str | None) -> list[Future[None]]:
        """Begin what `answer` shows, unless it is under way; return what ends when it is there.

        A change of a plugin's state is read at once, everything else four times a second.
        """
        if endpoint == "livez":
            return []
        pending = self._snapshot.pending()
        checks = [check.start() for check in self._checks_of_plugins(endpoint, plugin)]
        return [pending, *checks] if pending is not None else checks

    def answer(self, endpoint: str, plugin: str | None) -> list[Check] | None:
        """Return the checks as they were seen last; None for an unknown plugin."""
        checks = self._compose(endpoint, plugin, self._snapshot.value)
        if endpoint == "readyz" and checks is not None and (age := self._snapshot.age) >= _STUCK_AFTER:
            checks.append(Check("state", passed=False, detail=f"{age:.0f} s old, reading {self._step}"))
        return checks

    def _compose(self, endpoint: str, plugin: str | None, look: _Look) -> list[Check] | None:
        """Return the checks of an endpoint.

        A host is alive if it responds. It is ready from the moment that each plugin has run, or has waited for the
        setting `start_timeout` and runs on no other replica, until it stops, unless
        a plugin has failed, or none runs, as the setting `ready_when` says, a cache is outdated, or the API server does
        not answer; a plugin that waits for something external such as a CRD, or is degraded, is well. It is healthy if
        no plugin has failed and no check of a plugin fails.
        """
        if plugin is not None:
            return self._compose_one(endpoint, plugin, look)
        lines = [Check("ping", passed=True)]
        if endpoint == "livez":
            return lines
        if endpoint == "readyz":
            why = ", ".join(look.starting)
            lines.append(Check("startup", passed=bool(look.plugins) and not look.starting, detail=why))
            lines.append(Check("shutdown", passed=not self._host.stopping.is_set()))
        none_runs = not any(state in ("running", "waiting") for state, _ in look.plugins.values())
        for state, (first, *rest) in look.plugins.values():
            if endpoint == "healthz":
                lines.append(replace(look.led(first), passed=state != "failed"))
                # A cache that is not full yet makes no plugin unhealthy.
                lines += [replace(line, passed=True) for line in rest]
                continue
            decides = none_runs if self._host.settings.ready_when == "any" else state in ("failing", "failed")
            lines += [replace(first, decides=decides), *rest]
        if endpoint == "healthz":
            # A restart does not repair the API server, so neither it nor an outdated cache must cause one.
            lines += [*look.leadership, *(replace(check, passed=True) for check in look.outside)]
        else:
            lines += look.outside
        return lines + [check.last() for check in self._checks_of_plugins(endpoint, None)]

    def _compose_one(self, endpoint: str, name: str, look: _Look) -> list[Check] | None:
        if all(plugin.name != name for plugin in self._host.plugins):
            return None
        state, lines = look.plugins.get(name, ("starting", [Check(f"plugin/{name}", passed=False, detail="starting")]))
        if endpoint == "healthz":
            first = replace(look.led(lines[0]), passed=state not in ("failing", "failed"))
            lines = [first, *(replace(line, passed=True) for line in lines[1:])]
        return lines + [check.last() for check in self._checks_of_plugins(endpoint, name)]

    def _published(self) -> _Look:
        """Read the state of the host, and publish it."""
        look = self._look()
        self._publish(self._compose("readyz", None, look) or [])
        return look

    def _publish(self, checks: list[Check]) -> None:
        status, text = report("readyz", checks, verbose=False)
        _, lines = report("readyz", checks, verbose=True)
        self.probes.publish(status == 200, encodable(text), encodable(lines), self._snapshot.outdated)

    async def turn(self) -> None:
        """Publish again and again that Python runs, and that the state is old when it is."""
        while True:
            self.probes.turn([(thread.native_id or 0, thread.name) for thread in threading.enumerate()])
            if self._snapshot.age >= _STUCK_AFTER and (checks := self.answer("readyz", None)):
                self._publish(checks)
            await asyncio.sleep(_TURN)

    def _look(self) -> _Look:
        """Read the state of the host; may wait for locks."""
        look = _Look()
        for plugin in list(self._host.plugins):
            self._step = f"plugin/{plugin.name}"
            look.plugins[plugin.name] = (plugin.state, plugin.checks() + self._webhooks_of(plugin))
            if not plugin.started and (why := self._not_started(plugin)):
                look.starting.append(f"{plugin.name} {why}")
        self._step = "leadership"
        if (leadership := self._host.leadership) is not None:
            look.leadership = list(leadership.checks())
            reasons = {f"plugin/{name}": leadership.misplaced(name) for name in look.plugins}
            look.misplaced = {name: why for name, why in reasons.items() if why}
        look.leadership += [line for view in self.views() for line in view.leadership]
        self._step = "informers"
        factory = self._host.factory
        look.outside = self._host.api_servers.checks()
        if self._host.shards is not None:
            look.outside.append(self._host.shards.check())
        look.outside += [_informer_check(informer.status()) for informer in (factory.informers() if factory else ())]
        if self._host.webhooks is not None:
            look.outside.append(self._host.webhooks.check())
        return look

    def _webhooks_of(self, plugin: PluginRuntime) -> list[Check]:
        """Return the line of the webhooks of a plugin of this process; that of an isolated one comes from its own."""
        return self._host.webhooks.checks(plugin.name) if self._host.webhooks is not None else []

    def _not_started(self, plugin: PluginRuntime) -> str:
        """Return why a plugin that never ran keeps this replica from being ready; empty if it does not.

        One that waits does for a limited time, unless another replica runs it: a rolling upgrade must not go on then.
        """
        if not plugin.waits_long:
            return "not started yet"
        leadership = self._host.leadership
        runs = leadership.runs_elsewhere(plugin.name) if leadership is not None else ""
        return f"waits, and {runs} runs it" if runs else ""

    def _set_up(self) -> list[PluginContext | ChildView]:
        """Return what is shown of each plugin that is set up."""
        sources = (plugin.context or self._view(plugin) for plugin in self._host.plugins)
        return [source for source in sources if source is not None]

    def _view(self, plugin: PluginRuntime) -> ChildView | None:
        return self._host.children.view(plugin) if self._host.children is not None else None

    def _checks_of_plugins(self, endpoint: str, plugin: str | None) -> list[PluginCheck | ChildCheck]:
        """Return the checks that plugins have added, which `healthz` shows."""
        if endpoint != "healthz":
            return []
        return [check for source in self._set_up() if plugin in (None, source.name) for check in source.health_checks]

    def begin_scrape(self, accept: str) -> list[Future[None]]:
        """Begin to collect the metrics of plugins in the format of an `Accept` header, unless this is under way."""
        return [source.collected.start(accept) for source in self._set_up()]

    def scraped(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics, those of plugins as they were collected last, and their content type."""
        if self._host.metrics is None:
            return b"", "text/plain"
        collected = [source.collected for source in self._set_up()]
        for metrics in collected:
            metrics.late()
        return self._host.metrics.exposition(collected, accept)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their content type, after waiting for plugins for a short time."""
        wait(self.begin_scrape(accept), _PATIENCE)
        return self.scraped(accept)

    def begin_queues(self) -> list[Future[None]]:
        """Begin to ask the processes of isolated plugins for their queues, unless this is under way."""
        return [view.begin_queues() for view in self.views()]

    def views(self) -> list[ChildView]:
        """Return what is shown of the processes of isolated plugins that are set up."""
        return [view for plugin in self._host.plugins if (view := self._view(plugin)) is not None]

    def queues(self) -> list[dict[str, Any]]:
        """Return each controller's queue: the numbers of its keys by state, and the first 100 of each state."""
        queues: list[dict[str, Any]] = []
        for controller in (controller for plugin in self._host.plugins for controller in plugin.controllers):
            summary = controller.queue.summary(SHOWN_KEYS)
            first = summary.first
            counts = {part: getattr(summary, part) for part in first._fields}
            parts = {part: [_encodable(item) for item in getattr(first, part)] for part in first._fields}
            queues.append({"controller": controller.name, "counts": counts, **parts})
        return queues + [queue for view in self.views() for queue in view.queues()]

    def shards(self) -> dict[str, Any] | None:
        """Return how replicas share keys: the map, and what this one does with its ranges; None if they do not."""
        if self._host.shards is None:
            return None
        from ctrlhost.host.shard_report import shard_report

        return shard_report(self._host.shards)

    def page_paths(self) -> dict[str, list[str]]:
        """Return the paths of the plugins' pages, by plugin."""
        return {plugin: list(pages) for plugin, pages in self.pages().items()}

    def stacks(self) -> str:
        """Return what all threads and tasks of this process do now."""
        from ctrlhost.host.stacks import stacks

        return stacks(self._host.plugins)

    def pages(self) -> dict[str, dict[str, ASGIApp]]:
        """Return the pages of plugins, by plugin and path; they answer from the loops of their plugins."""
        contexts = (context for plugin in self._host.plugins if (context := plugin.context) is not None)
        here = {context.name: _relayed_pages(context) for context in contexts if context.pages}
        return here | (self._host.children.pages() if self._host.children is not None else {})


def _relayed_pages(context: PluginContext) -> dict[str, ASGIApp]:
    from ctrlhost.host.pages import on_loop

    return {path: on_loop(context, "page", path, page) for path, page in context.pages.items()}


def _encodable(item: Any) -> dict[str, Any]:
    """Return an entry of a queue in a form that JSON allows: keys are tuples, and a delay may be infinite or NaN."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in item._asdict().items()
    }


def _informer_check(status: InformerStatus) -> Check:
    """Return the check of an informer; it fails if its cache has been outdated for longer than a reconnection takes.

    It does not fail while the informer waits for its kind or a permission: these need not exist.
    """
    text = f"{status.state}, {status.objects} objects, {status.users} users"
    if status.state == "listing" and status.listing:
        text += f", listed {status.listing}" + (f" of {status.listing + status.remaining}" if status.remaining else "")
    if status.state != "watching" and (status.reason or status.last_error):
        text += f": {status.reason or status.last_error}"
    if status.beside:
        text += f"; has a watch of its own beside {', '.join(status.beside)} until the host starts again"
    # A first list may take long, unless it fails.
    behind = status.state in ("reconnecting", "listing") and (status.has_synced or bool(status.reason))
    passed = not (behind and (status.state_age or 0.0) > NOT_CURRENT_AFTER)
    return Check(f"informer/{status.key}", passed=passed, detail=text)
