"""Leadership of a host's plugins: the electors of one host, their health and their metrics."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ctrlhost.coordination.elector import LeaderElector
from ctrlhost.coordination.lease import API_VERSION, LeaseLock
from ctrlhost.coordination.resignation import DURATIONS, Resignations
from ctrlhost.coordination.term import Candidacy
from ctrlhost.errors import ConfigError
from ctrlhost.events.recorder import PluginEvents
from ctrlhost.health import Check
from ctrlhost.permissions import Permission
from ctrlhost.suggestions import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from prometheus_client.core import Metric

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.informers import InformerFactory

log = logging.getLogger("ctrlhost.leader_election")

_STOP_TIMEOUT = 5.0


def check_plugins(settings: HostSettings, plugins: Iterable[str]) -> None:
    """Reject leases for plugins that this host does not run: a misspelled name would have no effect."""
    plugins = list(plugins)
    for name in settings.leader_elect_plugins:
        if name not in plugins:
            raise ConfigError(
                f"host.leader_elect_plugins: the host runs no plugin `{name}`", hint=suggest(name, plugins)
            )


def lease_names(settings: HostSettings, plugins: Iterable[str]) -> dict[str, list[str]]:
    """Return the leases of a host with these settings, each with its plugins."""
    leases: dict[str, list[str]] = {}
    name = settings.leader_elect_resource_name
    for plugin in plugins:
        own = plugin in settings.leader_elect_plugins
        leases.setdefault(f"{name}-{plugin}" if own else name, []).append(plugin)
    return leases


def lease_permissions(names: Iterable[str], namespace: str) -> list[Permission]:
    """Return the permissions for leader election: on exactly these leases, and to record events."""
    group = API_VERSION.partition("/")[0]
    return [
        # RBAC cannot restrict `create` by name: the authorizer does not know the name of a new object.
        Permission(group, ["leases"], ["create"], namespace=namespace),
        Permission(group, ["leases"], ["get", "list", "watch", "update"], sorted(names), namespace),
        Permission("events.k8s.io", ["events"], ["create", "patch"], namespace=namespace),
    ]


def shard_permissions(settings: HostSettings, namespace: str) -> list[Permission]:
    """Return the permissions of a replica that shares keys with others, beyond those for leader election.

    The Leases of members have names of their own; namespaces are listed once, for the first map.
    """
    group, where = API_VERSION.partition("/")[0], settings.leader_elect_resource_namespace or namespace
    leases = Permission(group, ["leases"], ["create", "get", "list", "watch", "update", "delete"], namespace=where)
    return [leases, Permission("", ["namespaces"], ["list"])]


class LeaseState(NamedTuple):
    """One lease as this replica sees it."""

    name: str
    #: Empty without a holder.
    holder: str
    mine: bool
    #: Seconds since the last renewal that this replica made or saw; None before the first look.
    renewed: float | None
    plugins: list[str]


class Leadership:
    """The electors of one host: one for all plugins, and one for each plugin with a lease of its own."""

    def __init__(
        self,
        settings: HostSettings,
        plugins: Iterable[str],
        client: Client,
        clock: Clock,
        recorder: EventRecorder,
        changed: Callable[[Collection[str]], None],
    ) -> None:
        """Prepare; `changed` is called with the names of plugins that started or stopped leading."""
        self.namespace = settings.leader_elect_resource_namespace or client.namespace
        # Unique for each start, so that a replica never mistakes the lease of an earlier run for its own.
        self.identity = f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"
        self._config = settings.leader_election()
        # Renewals never wait for the requests of plugins.
        self._client = client.separate().derive(field_manager="ctrlhost-leader-election")
        self._clock = clock
        self._events = PluginEvents(recorder, "leader-election")
        self._changed = changed
        self._electors: dict[str, LeaderElector] = {}
        self._lease_of: dict[str, str] = {}
        self._own = frozenset(settings.leader_elect_plugins)
        #: Guards the plugins that are not candidates, and those of them of which nothing runs any more.
        self._lock = threading.Lock()
        self._absent: set[str] = set(self._own)
        self._ended: set[str] = set()
        self._waiting: set[str] = set()
        self._resignations = Resignations(clock)
        for name, led in lease_names(settings, plugins).items():
            self._electors[name] = self._elector(name, led)
            self._lease_of.update(dict.fromkeys(led, name))
            if self._absent.issuperset(led):
                self._electors[name].withdraw()
        self.metrics = LeaderElectionCollector(self._electors.values())

    def _elector(self, name: str, plugins: Collection[str]) -> LeaderElector:
        lock = LeaseLock(self._client, self.namespace, name, self.identity)

        def changed(what: str, action: str) -> None:
            # Another action is another event: equal ones become a series, whose note stays.
            self._events.normal(lock.reference, "LeaderElection", f"{self.identity} {what}", action=action)
            self._changed(plugins)

        def new_leader(leader: str) -> None:
            if leader != self.identity:
                log.info("lease %s: new leader: %s", lock, leader or "none")

        return LeaderElector(
            lock,
            self._clock,
            self._config,
            on_started_leading=lambda: changed("became leader", "Lead"),
            on_stopped_leading=lambda: changed("stopped leading", "StopLeading"),
            on_new_leader=new_leader,
        )

    def candidacy(self, plugin: str) -> Candidacy:
        """Return what the plugin has to do with its lease.

        This replica tries for a plugin's own lease from its first `join`, for a shared one from `start`.
        """
        elector = self._electors[self._lease_of[plugin]]
        return Candidacy(
            elector.tenure,
            elects=True,
            leader=lambda: elector.leader,
            join=lambda: self._join(plugin),
            leave=lambda *, failed: self._leave(plugin, failed=failed),
            waits=lambda waits: self._wait(plugin, waits=waits),
            release=lambda: self._release(plugin),
        )

    def _wait(self, plugin: str, *, waits: bool) -> None:
        """Leave a free Lease to other replicas while the plugin cannot run here."""
        with self._lock:
            if waits == (plugin in self._waiting):
                return
            (self._waiting.add if waits else self._waiting.discard)(plugin)
            elector = self._electors[self._lease_of[plugin]]
            elector.lock.waiting = frozenset(self._waiting.intersection(self.sharing(plugin)))
            elector.yields = bool(elector.lock.waiting)
        elector.wake()

    def runs_elsewhere(self, plugin: str) -> str:
        """Return the other replica that leads for the plugin and can run it; empty without one."""
        lease = self._lease_of.get(plugin)
        if lease is None or plugin in (elector := self._electors[lease]).lock.holder_waits_for:
            return ""
        return elector.other_leader

    def _join(self, plugin: str) -> None:
        with self._lock:
            self._absent.discard(plugin)
            self._ended.discard(plugin)
            if (lease := self._lease_of[plugin]) not in self._resignations:
                self._electors[lease].stand()

    def _leave(self, plugin: str, *, failed: bool) -> None:
        with self._lock:
            if not failed and plugin not in self._own:
                # The others that share the lease still run.
                return
            self._absent.add(plugin)
            if self._absent.issuperset(self.sharing(plugin)):
                self._electors[self._lease_of[plugin]].withdraw()

    def _release(self, plugin: str) -> None:
        with self._lock:
            if plugin not in self._absent:
                # It has joined again meanwhile.
                return
            self._ended.add(plugin)
            if self._ended.issuperset(self.sharing(plugin)):
                self._electors[self._lease_of[plugin]].release_soon()

    def resign(self, plugins: Collection[str], runs: Callable[[str], bool]) -> list[str]:
        """Stop leading with the leases of these plugins, and return those that this replica led.

        A lease is released when `runs` is False for all of its plugins. This replica leaves it to others for
        `resigned_for` seconds, and is a candidate again then. `runs` is called on other threads.
        """
        resigned = []
        for name, elector in self._electors.items():
            led = self._led_by(name)
            if led.isdisjoint(plugins):
                continue
            if self._resignations.begin(name, elector, partial(_any_runs, runs, led), partial(self._stand, name)):
                resigned.append(name)
        return resigned

    @property
    def resigned_for(self) -> float:
        """The seconds for which this replica is no candidate after it has resigned."""
        return DURATIONS * self._config.lease_duration

    def _stand(self, lease: str) -> None:
        with self._lock:
            if not self._absent.issuperset(self._led_by(lease)):
                self._electors[lease].stand()

    def _led_by(self, lease: str) -> set[str]:
        return {plugin for plugin, name in self._lease_of.items() if name == lease}

    def sharing(self, plugin: str) -> list[str]:
        """Return the plugins of the plugin's lease."""
        lease = self._lease_of[plugin]
        return [sharer for sharer, name in self._lease_of.items() if name == lease]

    def misplaced(self, plugin: str) -> str | None:
        """Return a line if this replica leads for a plugin that has failed here and shares its lease, else None."""
        lease = self._lease_of.get(plugin)
        # That of an isolated plugin may be none of this process.
        if lease is None or plugin not in self._absent or not (elector := self._electors[lease]).leading:
            return None
        return (
            "this replica leads for the plugin, although the plugin has failed here, since others share the lease "
            f"{elector.lock.name} (hint: `leader_elect_plugins` gives the plugin a lease of its own)"
        )

    def start(self, factory: InformerFactory) -> None:
        """Start the electors, and watch the leases, so that a new holder is noticed at once."""
        for name, elector in self._electors.items():
            self._watch(factory, name, elector)
            elector.start()
        factory.start()

    def _watch(self, factory: InformerFactory, name: str, elector: LeaderElector) -> None:
        """Wake an elector on changes to its Lease, except for its own renewals."""

        def written(lease: Any) -> None:
            if lease.get_path("spec", "holderIdentity", default="") != self.identity:
                elector.wake()

        factory.informer(
            API_VERSION, "Lease", namespaces=[self.namespace], field_selector=f"metadata.name={name}"
        ).add_handler(
            lambda lease, _: written(lease),
            lambda _, lease: written(lease),
            lambda _: elector.wake(),
            name=f"leader election {name}",
        )

    def stop(self, drained: Collection[str]) -> None:
        """Stop the electors, and release the leases whose plugins have all `drained`; the others expire."""
        self._resignations.stop()
        kept = {lease for plugin, lease in self._lease_of.items() if plugin not in drained}
        # All of them at once: each may wait for a server that does not answer.
        for name, elector in self._electors.items():
            elector.stop(0, release=name not in kept)
        deadline = time.monotonic() + _STOP_TIMEOUT
        for name, elector in self._electors.items():
            if not elector.stop(max(0.0, deadline - time.monotonic()), release=name not in kept):
                log.warning("lease %s/%s not released in time; it will expire", self.namespace, name)
        self._client.close()

    def leases(self) -> list[LeaseState]:
        """Return the state of each lease, for pages."""
        plugins: dict[str, list[str]] = {}
        for plugin, name in self._lease_of.items():
            plugins.setdefault(name, []).append(plugin)
        return [
            LeaseState(
                f"{self.namespace}/{name}", elector.leader, elector.leading, elector.observed_age, plugins.get(name, [])
            )
            for name, elector in self._electors.items()
        ]

    def checks(self) -> list[Check]:
        """Return a check per lease, which fails if this replica's lease expired a while ago."""
        return [self._check(name, elector) for name, elector in self._electors.items()]

    def _check(self, name: str, elector: LeaderElector) -> Check:
        try:
            elector.check()
        except RuntimeError as error:
            return Check(f"leaderElection/{name}", passed=False, detail=str(error))
        detail = "leading" if elector.leading else f"standing by for {elector.leader or 'no leader yet'}"
        return Check(f"leaderElection/{name}", passed=True, detail=detail)


def _any_runs(runs: Callable[[str], bool], plugins: Iterable[str]) -> bool:
    return any(map(runs, plugins))


class LeaderElectionCollector(Collector):
    """The metrics of elections, under the names that Kubernetes' own components use."""

    def __init__(self, electors: Iterable[LeaderElector]) -> None:
        """Read `electors` at each scrape."""
        self._electors = [electors]

    def add(self, elector: LeaderElector) -> None:
        """Read another one, too."""
        self._electors.append([elector])

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        master = GaugeMetricFamily(
            "leader_election_master_status", "1 where this replica holds the lease `name`, else 0", labels=("name",)
        )
        slow = CounterMetricFamily(
            "leader_election_slowpath",
            "Renewals of the lease `name` that had to read it first, since an update of its last known version failed",
            labels=("name",),
        )
        for elector in chain.from_iterable(self._electors):
            master.add_metric((elector.lock.name,), float(elector.leading))
            slow.add_metric((elector.lock.name,), elector.slow_paths)
        yield master
        yield slow
