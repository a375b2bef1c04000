"""The clients of one plugin: for work in a term, for writes while this replica leads, and for those of every replica.

They share connections, own writes, a budget and the fence. Work that needs leadership has a permit for the term in
which it began; a client that is read there keeps that permit, also on another thread.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ctrlhost.client.budget import Budget
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.coordination.writes import Permit, Refusals, UntilFence, Writes
from ctrlhost.own_writes.client import WritingClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from ctrlhost.client import Client
    from ctrlhost.coordination.term import Tenure
    from ctrlhost.own_writes.overlay import OwnWrites
    from ctrlhost.own_writes.self_events import SelfEvents

#: The permit of the work that runs in this thread or task, if that needs leadership.
working: ContextVar[Permit | None] = ContextVar("ctrlhost_working", default=None)


class ClientCounts:
    """Counts of the clients of all plugins of a host: refused writes, and seconds of waiting for the budget."""

    def __init__(self) -> None:
        """Start at zero."""
        self.refusals = Refusals()
        self._lock = threading.Lock()
        self._throttled: dict[str, float] = {}

    def throttled(self, plugin: str, seconds: float) -> None:
        """Add the seconds that a request of the plugin waited."""
        with self._lock:
            self._throttled[plugin] = self._throttled.get(plugin, 0.0) + seconds

    @property
    def throttled_seconds(self) -> float:
        """The seconds that requests of all plugins have waited."""
        with self._lock:
            return sum(self._throttled.values())

    def collect(self) -> Iterator[Metric]:
        """Return the metric families; called by scrapes, from any thread."""
        from prometheus_client.core import CounterMetricFamily

        yield from self.refusals.collect()
        family = CounterMetricFamily(
            "ctrlhost_client_throttled_seconds",
            "Seconds that requests of the plugin waited for its budget, `client_qps`",
            labels=("plugin",),
        )
        with self._lock:
            throttled = dict(self._throttled)
        for plugin, seconds in sorted(throttled.items()):
            family.add_metric((plugin,), seconds)
        yield family


class PluginClients:
    """The clients of one plugin context. Callable from any thread."""

    def __init__(
        self, plugin: str, client: Client, own_writes: OwnWrites, tenure: Tenure, counts: ClientCounts, qps: float
    ) -> None:
        """Derive from `client`; requests other than streams share a budget of `qps` a second, 0 for none."""
        self.writes = Writes(plugin, tenure, counts.refusals)
        self._tenure = tenure
        self._client = client
        self._own_writes = own_writes
        counts.throttled(plugin, 0.0)
        self._budget = Budget(qps, lambda seconds: counts.throttled(plugin, seconds)) if qps else None
        #: For writes that every replica makes.
        self.replica = self.with_permit(self.writes.write)
        #: The permit for writes in any term.
        self.any_term = Permit(self.writes)
        self._leading = self.with_permit(self.any_term)
        #: The last permit that work read a client for, and that client.
        self._bound: tuple[Permit, Client] = (self.any_term, self._leading)

    def current(self) -> Client:
        """Return the client of the work that runs here, or else one that writes while this replica leads."""
        permit = working.get()
        if permit is None or permit.writes is not self.writes:
            return self._leading
        bound = self._bound
        if bound[0] is not permit:
            bound = self._bound = (permit, self.with_permit(permit))
        return bound[1]

    def permit(self, term: int | None = None, shard: Tenure | None = None) -> Permit:
        """Return the permit of a term, by default of the current or last one; with `shard`, of that of a range."""
        return Permit(self.writes, self._tenure.current.number if term is None else term, shard)

    def with_permit(self, permit: Permit | UntilFence, self_events: SelfEvents | None = None) -> Client:
        """Return a client whose writes need `permit` last, and are reported to `self_events`."""
        transport = GovernedTransport(self._client.transport, self._budget, self.writes.read, permit, permit.in_flight)
        if self._client.dry_run:
            # No cache will show a write that has no effect.
            return self._client.derive(transport=transport)
        return WritingClient.of(self._client.derive(transport=transport), self._own_writes, self_events=self_events)

    @contextmanager
    def work(self) -> Iterator[Permit]:
        """Bind the work of the block, and what it starts in its context, to the current term."""
        permit = self.permit()
        token = working.set(permit)
        try:
            yield permit
        finally:
            working.reset(token)
