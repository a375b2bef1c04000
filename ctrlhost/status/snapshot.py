"""The state of a host as one snapshot, which pages, `ctrlhost top` and the JSON show."""

from __future__ import annotations

import heapq
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ctrlhost import __version__, _core
from ctrlhost.controller.key_text import key_text
from ctrlhost.status import model
from ctrlhost.status.causes import (
    cause_rows,
    condition_of,
    severity_of,
    shown_outcomes,
    state_of,
    sum_of,
    worst_causes,
    worst_of,
)
from ctrlhost.status.informers import informer_rows
from ctrlhost.status.samples import WINDOW, Samples, depth_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from threading import Event

    from ctrlhost.client import Client
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.error_log import ErrorEntry
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.coordination.leadership import Leadership
    from ctrlhost.health import Check
    from ctrlhost.informers import InformerFactory
    from ctrlhost.status.writes import Write, WriteLog
    from ctrlhost.supervisor.processor import PluginProcessor
    from ctrlhost.supervisor.runtime import PluginRuntime
    from ctrlhost.transport.reachability import Reachability

#: The most failing keys of all controllers that a snapshot names.
FAILING = 10
#: States of an informer that hears from the API server.
_CONNECTED = ("watching", "over budget", "waiting", "listing")


class Webhooks(Protocol):
    """The webhooks of a host."""

    def rows(self, per_second: Callable[[str, float], float | None]) -> list[model.WebhookStatus]:
        """Return the status of each; `per_second` returns the rate of one of `totals`."""

    def totals(self) -> dict[str, float]:
        """Return numbers that only grow, by name."""


class ReadHost(Protocol):
    """The members of a host that a snapshot reads."""

    plugins: list[PluginRuntime]
    stopping: Event
    settings: HostSettings
    configuration: Configuration
    client: Client | None
    factory: InformerFactory | None
    leadership: Leadership | None
    services: PluginServices | None
    processor: PluginProcessor | None
    writes: WriteLog

    @property
    def webhooks(self) -> Webhooks | None:
        """The webhooks of its plugins; None without any."""

    @property
    def server(self) -> Reachability | None:
        """Whether the host's API server answers; None where that is not probed."""


class StatusReader:
    """Reads the state of one host. Callable from any thread; may wait for locks of the core."""

    def __init__(self, host: ReadHost) -> None:
        """Read `host`, which need not be started."""
        self._host = host
        self.started = time.time()
        self.writes = host.writes
        self.samples = Samples(self.controllers, self._totals)

    def controllers(self) -> list[Controller]:
        """Return the controllers of all plugins that run in this process."""
        return [controller for plugin in self._host.plugins for controller in plugin.controllers]

    def read(
        self,
        ready: Iterable[Check] = (),
        pages: Mapping[str, Iterable[str]] | None = None,
        children: Sequence[model.Status] = (),
        shards: model.ShardsStatus | None = None,
    ) -> model.Status:
        """Return the snapshot.

        `ready` are the lines of `/readyz`, `pages` the paths of plugins' pages, and `children` the snapshots of the
        processes of isolated plugins, whose controllers, errors, failing keys, writes and informers are added. `shards`
        is how replicas share keys.
        """
        seconds = self._host.processor.seconds() if self._host.processor is not None else {}
        others = {child.plugins[0].name: child for child in children if child.plugins}
        failing = [*self._failing(), *(key for child in children for key in child.failing)]
        controllers = [*self._controllers(), *(controller for child in children for controller in child.controllers)]
        of_plugin: dict[str, list[model.ControllerStatus]] = {}
        for controller in controllers:
            of_plugin.setdefault(controller.name.partition("/")[0], []).append(controller)
        plugins = [
            self._plugin(
                plugin,
                seconds.get(plugin.name, 0.0),
                (pages or {}).get(plugin.name, ()),
                others.get(plugin.name),
                of_plugin.get(plugin.name, []),
            )
            for plugin in self._plugins
        ]
        services = self._host.services
        own = [_shown_error(entry) for entry in services.errors.entries()] if services is not None else []
        causes = [*cause_rows(self.controllers()), *(cause for child in children for cause in child.causes)]
        errors = [*own, *(error for child in children for error in child.errors)]
        return model.Status(
            version=model.VERSION,
            time=model.moment(time.time()),
            host=self._host_status([check for check in ready if check.decides and not check.passed], seconds),
            leader=self._leader(children),
            shards=shards,
            apiserver=self._apiserver(children),
            plugins=plugins,
            controllers=controllers,
            failing=heapq.nlargest(FAILING, failing, key=lambda key: key.failures),
            informers=[
                *self._informers(),
                *(_of_child(informer, child) for child in children for informer in child.informers),
            ],
            errors=sorted(errors, key=lambda error: error.time, reverse=True)[:50],
            # The host answers for isolated plugins, too.
            webhooks=self._host.webhooks.rows(self.samples.per_second) if self._host.webhooks is not None else [],
            causes=worst_causes(causes),
            severity=worst_of(plugin.severity for plugin in plugins),
            outcomes=sum_of([controller.outcomes for controller in controllers]),
        )

    @property
    def _plugins(self) -> list[PluginRuntime]:
        return list(self._host.plugins)

    def _totals(self) -> dict[str, float]:
        """Return further numbers that only grow, for their rates."""
        totals = {"requests": float(self._requests()), "request-seconds": self._request_seconds()}
        for written, count in self.writes.counts().items():
            totals["write/" + "/".join(written)] = float(count)
        if self._host.processor is not None:
            totals |= {f"cpu/{plugin}": seconds for plugin, seconds in self._host.processor.seconds().items()}
        if self._host.webhooks is not None:
            totals |= self._host.webhooks.totals()
        return totals

    def _requests(self) -> int:
        client = self._host.client
        return client.metrics.requests() if client is not None and client.metrics is not None else 0

    def _request_seconds(self) -> float:
        client = self._host.client
        return client.metrics.seconds() if client is not None and client.metrics is not None else 0.0

    def _seconds_per_request(self) -> float | None:
        server = self._host.server
        # What waited for a server that hung says nothing about it now.
        if server is not None and server.up_for < WINDOW:
            return None
        requests = self.samples.per_second("requests", self._requests())
        taken = self.samples.per_second("request-seconds", self._request_seconds())
        return taken / requests if requests and taken is not None else None

    def _host_status(self, failing: Sequence[Check], seconds: Mapping[str, float]) -> model.HostStatus:
        host = self._host
        stopping = host.stopping.is_set()
        return model.HostStatus(
            name=platform.node(),
            version=__version__,
            python=platform.python_version(),
            pid=os.getpid(),
            started=model.moment(self.started),
            state="stopping" if stopping else "running",
            ready=not failing and not stopping,
            not_ready=[str(check) for check in failing],
            dry_run=host.settings.dry_run,
            config=model.Config(host.configuration.source or None),
            cpu_per_second=_sum(*(self.samples.per_second(f"cpu/{name}", value) for name, value in seconds.items())),
            rss_bytes=_rss_bytes(),
        )

    def _leader(self, children: Sequence[model.Status]) -> model.LeaderStatus:
        leadership = self._host.leadership
        leases = [
            model.LeaseStatus(lease.name, lease.holder, lease.mine, lease.renewed, lease.plugins)
            for lease in (leadership.leases() if leadership is not None else ())
        ]
        leases += [lease for child in children for lease in child.leader.leases]
        return model.LeaderStatus(elected=leadership is not None, leases=leases)

    def _apiserver(self, children: Sequence[model.Status]) -> model.ApiServerStatus:
        client, factory = self._host.client, self._host.factory
        ages: list[float] = []
        metrics = client.metrics if client is not None else None
        if metrics is not None and metrics.last_answer is not None:
            ages.append(time.monotonic() - metrics.last_answer)
        behind = []
        informers = factory.informers() if factory is not None else []
        for informer in informers:
            state, age = informer.state, informer.last_byte_age
            if age is not None:
                ages.append(age)
            if state not in _CONNECTED:
                behind.append(informer.reason)
        up, reason = not behind or len(behind) < len(informers), behind[0] if behind else ""
        # The process of an isolated plugin has none.
        server = self._host.server
        if server is not None:
            up, reason = server.up, server.reason
        last = [shown_write(write) for write in self.writes.last()]
        last += [write for child in children for write in child.apiserver.last_writes]
        means = [child.apiserver.seconds_per_request for child in children]
        throttled = self._host.services.client_counts.throttled_seconds if self._host.services is not None else 0.0
        return model.ApiServerStatus(
            url=getattr(client.transport, "url", "") if client is not None else "",
            up=up,
            last_answer_seconds=min(ages, default=None),
            reason="" if up else reason,
            requests_per_second=_sum(
                self.samples.per_second("requests", self._requests()),
                *(child.apiserver.requests_per_second for child in children),
            ),
            throttled_seconds=throttled + sum(child.apiserver.throttled_seconds for child in children),
            writes=self._writes(children),
            last_writes=sorted(last, key=lambda write: write.time, reverse=True)[:20],
            seconds_per_request=max(
                (mean for mean in (self._seconds_per_request(), *means) if mean is not None), default=None
            ),
        )

    def _writes(self, children: Sequence[model.Status]) -> list[model.WriteCount]:
        counts: dict[tuple[str, str, str], model.WriteCount] = {}
        own = [
            model.WriteCount(*written, self.samples.per_second("write/" + "/".join(written), count), count)
            for written, count in self.writes.counts().items()
        ]
        for write in [*own, *(write for child in children for write in child.apiserver.writes)]:
            known = counts.get(written := (write.verb, write.resource, write.code))
            if known is not None:
                rate = _sum(known.per_second, write.per_second)
                write = model.WriteCount(*written, rate, known.total + write.total)  # noqa: PLW2901 - the sum of both
            counts[written] = write
        return [counts[written] for written in sorted(counts)]

    def _plugin(
        self,
        plugin: PluginRuntime,
        seconds: float,
        pages: Iterable[str],
        child: model.Status | None,
        controllers: Sequence[model.ControllerStatus],
    ) -> model.PluginStatus:
        inner = child.plugins[0] if child is not None else None
        severity = severity_of(plugin, controllers)
        return model.PluginStatus(
            name=plugin.name,
            version=plugin.installed.rpartition(" ")[2],
            state=plugin.state,
            reason=plugin.reason,
            since=model.moment(plugin.since),
            degraded=[
                model.Degraded(reason, model.moment(degradation.since), degradation.message)
                for reason, degradation in sorted(plugin.entries.degradations().items())
            ],
            missing_rights=list(inner.missing_rights if inner is not None else plugin.missing_rights),
            rights=list(inner.rights if inner is not None else plugin.rights),
            cpu_per_second=self.samples.per_second(f"cpu/{plugin.name}", seconds),
            cpu_seconds=seconds,
            restarts=sum(plugin.restarted.values()),
            restart_reasons=dict(plugin.restarted),
            pages=[f"/{plugin.name}{page}" for page in pages],
            isolated=plugin.isolated,
            condition=condition_of(plugin, controllers, severity),
            severity=severity,
            outcomes=sum_of([controller.outcomes for controller in controllers]),
        )

    def _controllers(self) -> list[model.ControllerStatus]:
        rows = {row["id"]: row for row in _core.queue_metrics()}
        return [self._controller(controller, rows.get(controller.queue.id)) for controller in self.controllers()]

    def _controller(self, controller: Controller, row: Mapping[str, Any] | None) -> model.ControllerStatus:
        counts, rates = controller.counts, self.samples.rates(controller)
        pause, outcomes = controller.pause_state, controller.outcomes()
        depth, oldest, delayed = (0, 0.0, 0) if row is None else (depth_of(row), row["oldest"], row["delayed"])
        return model.ControllerStatus(
            name=controller.name,
            paused=pause is not None,
            paused_by=pause.by if pause is not None else None,
            paused_since=model.moment(pause.since) if pause is not None else None,
            paused_reason=pause.reason if pause is not None else "",
            leading=controller.leading,
            waiting=controller.waiting(),
            workers=controller.options.workers if counts is not None else 0,
            active=counts.total().active if counts is not None else 0,
            per_second=rates.per_second,
            errors_per_second=rates.errors_per_second,
            p50=rates.p50,
            p99=rates.p99,
            oldest_running_seconds=counts.longest() if counts is not None else 0.0,
            recent_per_second=self.samples.recent(controller.name),
            queue=model.QueueStatus(
                depth=depth,
                # Nobody has to work on the keys of a standby.
                oldest_seconds=oldest if controller.leading else 0.0,
                delayed=delayed,
                retrying=controller.history.retrying,
                processing=controller.queue.page("processing", 0).total,
            ),
            state=state_of(controller, outcomes.severity),
            severity=outcomes.severity,
            outcomes=shown_outcomes(outcomes, controller.history.now()),
        )

    def failing(self, plugin: str) -> list[model.FailingKey]:
        """Return the most failing keys of the controllers of a plugin in this process."""
        return heapq.nlargest(FAILING, self._failing(plugin), key=lambda key: key.failures)

    def controller(self, controller: Controller) -> model.ControllerStatus:
        """Return the status of one controller."""
        row = next((row for row in _core.queue_metrics() if row["id"] == controller.queue.id), None)
        return self._controller(controller, row)

    def _failing(self, plugin: str | None = None) -> list[model.FailingKey]:
        keys = []
        for controller in self.controllers():
            if plugin is not None and controller.name.partition("/")[0] != plugin:
                continue
            most = heapq.nlargest(FAILING, controller.history.failures(), key=lambda failure: failure[1].failures)
            for key, failure in most:
                retry = None if failure.terminal else next_run(controller, key)
                keys.append(
                    model.FailingKey(
                        controller.name,
                        key_text(key),
                        failure.failures,
                        retry,
                        failure.error,
                        failure.place,
                        failure.reconcile_id,
                        failure.cause.id,
                    )
                )
        return keys

    def _informers(self) -> list[model.InformerRow]:
        factory = self._host.factory
        contexts = [context for plugin in self._plugins if (context := plugin.context) is not None]
        return informer_rows(factory.informers() if factory is not None else (), contexts)

    def errors(self, plugin: str) -> list[model.ErrorRow]:
        """Return the last errors of the controllers of a plugin in this process."""
        services = self._host.services
        return [_shown_error(error) for error in services.errors.of_plugin(plugin)] if services is not None else []

    def last_writes(self, plugin: str) -> list[model.LastWrite]:
        """Return the last writes of the controllers of a plugin in this process."""
        return [shown_write(write) for write in self.writes.of_plugin(plugin)]


def _shown_error(entry: ErrorEntry) -> model.ErrorRow:
    return model.ErrorRow(
        model.moment(entry.time), entry.controller.partition("/")[0], entry.controller, entry.key, entry.reconcile_id,
        entry.kind, entry.error, entry.place,
    )  # fmt: skip


def shown_write(write: Write) -> model.LastWrite:
    """Return a write as it is shown."""
    where = write.target
    return model.LastWrite(
        model.moment(write.time), write.verb, where.resource, where.namespace, where.name, write.code,
        write.controller, write.key, write.reconcile_id,
    )  # fmt: skip


def next_run(controller: Controller, key: Any) -> float | None:
    """Return the seconds until a key runs again at the earliest, 0 if it is queued or runs; None if it does neither."""
    state = controller.queue.look(key)
    if state.queued is not None or state.processing is not None:
        return 0.0
    return state.delayed.due_in if state.delayed is not None else None


def _rss_bytes() -> int:
    """Return the resident memory of this process; 0 where there is no `/proc`."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _of_child(row: model.InformerRow, child: model.Status) -> model.InformerRow:
    """Return the row of an informer of another process, with an id that differs from that of the host's own."""
    return msgspec.structs.replace(row, id=f"{child.plugins[0].name}: {row.id}")


def _sum(*rates: float | None) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
