"""Inspection of a host: health, metrics, queues and the pages of its plugins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.health import Check

if TYPE_CHECKING:
    from threading import Event

    from starlette.types import ASGIApp

    from ctrlhost.coordination.leadership import Leadership
    from ctrlhost.host.metrics import HostMetrics
    from ctrlhost.informers import InformerFactory
    from ctrlhost.reflector.status import InformerStatus
    from ctrlhost.supervisor.runtime import PluginRuntime

#: Seconds that an informer may be without a watch before the host is not ready: watches end now and then.
NOT_CURRENT_AFTER = 5.0


#: Keys of each part of a queue that its page shows.
SHOWN_KEYS = 100


class InspectedHost(Protocol):
    """The members of a host that an inspection reads."""

    plugins: list[PluginRuntime]
    stopping: Event
    factory: InformerFactory | None
    leadership: Leadership | None


class Inspection:
    """Reads the state of one host; all methods may be called from any thread."""

    def __init__(self, host: InspectedHost) -> None:
        """Inspect `host`, which need not be started."""
        self._host = host
        #: The metrics of the host; None until it starts.
        self.metrics: HostMetrics | None = None

    def checks(self, endpoint: str) -> list[Check]:
        """Return the checks of `livez`, `readyz` or `healthz`.

        A host is alive if it responds; ready if all plugins run, or wait for something external such as a CRD, and the
        caches are current; healthy if no plugin has failed and no check of a plugin fails.
        """
        lines = [Check("ping", passed=True)]
        if endpoint == "livez":
            return lines
        if endpoint == "readyz":
            lines.append(Check("shutdown", passed=not self._host.stopping.is_set()))
        leadership = self._host.leadership
        for plugin in list(self._host.plugins):
            first, *rest = plugin.checks()
            if endpoint == "healthz":
                led = leadership.misplaced(plugin.name) if leadership is not None else None
                detail = f"{first.detail}; {led}" if led else first.detail
                first = Check(first.name, passed=not plugin.failed, detail=detail)
            lines += [first, *rest]
        if endpoint == "healthz" and leadership is not None:
            lines += leadership.checks()
        factory = self._host.factory
        informers = [_informer_check(informer.status()) for informer in (factory.informers() if factory else ())]
        if endpoint == "healthz":
            # A restart does not repair the API server, so an outdated cache must not cause one.
            informers = [replace(check, passed=True) for check in informers]
        lines += informers
        if endpoint == "healthz":
            contexts = [plugin.context for plugin in self._host.plugins if plugin.context is not None]
            lines += [check.run() for context in contexts for check in context.health_checks]
        return lines

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their content type."""
        if self.metrics is None:
            return b"", "text/plain"
        plugins = self._host.plugins
        return self.metrics.exposition({one.name: one.context.metrics for one in plugins if one.context}, accept)

    def queues(self) -> list[dict[str, Any]]:
        """Return each controller's queue: the numbers of its keys by state, and the first 100 of each state."""
        found = []
        for controller in (one for plugin in self._host.plugins for one in plugin.controllers):
            summary = controller.queue.summary(SHOWN_KEYS)
            first = summary.first
            counts = {part: getattr(summary, part) for part in first._fields}
            parts = {part: [_shown(item) for item in getattr(first, part)] for part in first._fields}
            found.append({"controller": controller.name, "counts": counts, **parts})
        return found

    def pages(self) -> dict[str, dict[str, ASGIApp]]:
        """Return the pages of plugins, by plugin and path."""
        return {
            plugin.name: dict(plugin.context.pages)
            for plugin in self._host.plugins
            if plugin.context is not None and plugin.context.pages
        }


def _shown(item: Any) -> dict[str, Any]:
    """Return an entry of a queue in a form that JSON allows: delays may be infinite, and keys are tuples."""
    return {
        name: str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
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
    behind = status.state in ("reconnecting", "listing") and status.has_synced
    passed = not (behind and (status.state_age or 0.0) > NOT_CURRENT_AFTER)
    return Check(f"informer/{status.key}", passed=passed, detail=text)
