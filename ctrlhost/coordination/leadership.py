"""Who of a host's plugins may act: the electors of one host, their health and their metrics."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ctrlhost.config.leader_election import LeaderElectionConfig
from ctrlhost.config.types import suggest
from ctrlhost.coordination.elector import LeaderElector
from ctrlhost.coordination.lease import API_VERSION, LeaseLock
from ctrlhost.errors import ConfigError
from ctrlhost.events.recorder import PluginEvents
from ctrlhost.health import Check
from ctrlhost.permissions import Permission

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
    """Refuse leases for plugins that this host does not run, since a name that is misspelt would be without effect."""
    plugins = list(plugins)
    for name in settings.leader_elect_plugins:
        if name not in plugins:
            raise ConfigError(
                f"host.leader_elect_plugins: the host runs no plugin `{name}`", hint=suggest(name, plugins)
            )


def lease_names(settings: HostSettings, plugins: Iterable[str]) -> dict[str, list[str]]:
    """Give the leases that a host with these settings holds, each with the plugins that it leads."""
    found: dict[str, list[str]] = {}
    name = settings.leader_elect_resource_name
    for plugin in plugins:
        own = plugin in settings.leader_elect_plugins
        found.setdefault(f"{name}-{plugin}" if own else name, []).append(plugin)
    return found


def lease_permissions(names: Iterable[str], namespace: str) -> list[Permission]:
    """Give the rights that leader election needs: on exactly these leases, and to record who leads."""
    group = API_VERSION.partition("/")[0]
    return [
        # The name of what is created is not known to the authorizer, so this one can not be narrowed.
        Permission(group, ["leases"], ["create"], namespace=namespace),
        Permission(group, ["leases"], ["get", "list", "watch", "update"], sorted(names), namespace),
        Permission("events.k8s.io", ["events"], ["create", "patch"], namespace=namespace),
    ]


class Leadership:
    """The electors of one host: one for all plugins, and one for each that has a lease of its own."""

    def __init__(
        self,
        settings: HostSettings,
        plugins: Iterable[str],
        client: Client,
        clock: Clock,
        recorder: EventRecorder,
        changed: Callable[[Collection[str]], None],
    ) -> None:
        """Prepare; `changed` is called with the names of plugins when those begin or cease to lead."""
        self.namespace = settings.leader_elect_resource_namespace or client.namespace
        # Unique for each start, so that a replica never takes the lease of its own past for its own.
        self.identity = f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"
        self._config = LeaderElectionConfig(
            float(settings.leader_elect_lease_duration),
            float(settings.leader_elect_renew_deadline),
            float(settings.leader_elect_retry_period),
        )
        self._client = client.derive(field_manager="ctrlhost-leader-election")
        self._clock = clock
        self._events = PluginEvents(recorder, "leader-election")
        self._changed = changed
        self._electors: dict[str, LeaderElector] = {}
        self._lease_of: dict[str, str] = {}
        for name, led in lease_names(settings, plugins).items():
            self._electors[name] = self._elector(name, led)
            self._lease_of.update(dict.fromkeys(led, name))
        self.metrics = LeaderElectionCollector(self._electors.values())

    def _elector(self, name: str, plugins: Collection[str]) -> LeaderElector:
        lock = LeaseLock(self._client, self.namespace, name, self.identity)

        def tell(what: str) -> None:
            self._events.normal(lock.reference, "LeaderElection", f"{self.identity} {what}", action="LeaderElection")
            self._changed(plugins)

        def seen(leader: str) -> None:
            if leader != self.identity:
                log.info("lease %s: %s leads", lock, leader or "nobody")

        return LeaderElector(
            lock,
            self._clock,
            self._config,
            on_started_leading=lambda: tell("became leader"),
            on_stopped_leading=lambda: tell("stopped leading"),
            on_new_leader=seen,
        )

    def leading(self, plugin: str) -> bool:
        """Say whether this replica leads for a plugin at this very moment."""
        return self._electors[self._lease_of[plugin]].leading

    def start(self, factory: InformerFactory) -> None:
        """Begin to ask for the leases, and watch them, so that a change of hands is known at once."""
        for name, elector in self._electors.items():
            informer = factory.informer(
                API_VERSION, "Lease", namespaces=[self.namespace], field_selector=f"metadata.name={name}"
            )

            watcher = _LeaseWatcher(elector)
            informer.add_handler(watcher.on_add, watcher.on_update, watcher.on_delete, name=f"leader election {name}")
            elector.start()
        factory.start()

    def stop(self, drained: Collection[str]) -> None:
        """End the election, and release the leases of which all plugins have `drained`; the others run out."""
        for name, elector in self._electors.items():
            led = [plugin for plugin, lease in self._lease_of.items() if lease == name]
            if not elector.stop(_STOP_TIMEOUT, release=all(plugin in drained for plugin in led)):
                log.warning("lease %s/%s was not released in time and will run out", self.namespace, name)

    def checks(self) -> list[Check]:
        """Give a line per lease: it fails when a leader could not renew for longer than its lease lasts."""
        return [self._check(name, elector) for name, elector in self._electors.items()]

    def _check(self, name: str, elector: LeaderElector) -> Check:
        try:
            elector.check()
        except RuntimeError as error:
            return Check(f"leaderElection/{name}", passed=False, detail=str(error))
        told = "leading" if elector.leading else f"standing by for {elector.leader or 'nobody yet'}"
        return Check(f"leaderElection/{name}", passed=True, detail=told)


class _LeaseWatcher:
    """Tells an elector of changes to its Lease, except for its own renewals."""

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    def on_add(self, lease: Any, _initial: bool) -> None:
        if lease.get_path("spec", "holderIdentity", default="") != self._elector.lock.identity:
            self._elector.poke()

    def on_update(self, _old: Any, new: Any) -> None:
        self.on_add(new, False)

    def on_delete(self, _lease: Any) -> None:
        self._elector.poke()


class LeaderElectionCollector(Collector):
    """The metrics of elections, under the names that Kubernetes' own components use."""

    def __init__(self, electors: Iterable[LeaderElector]) -> None:
        """Look at `electors` when scraped."""
        self._electors = electors

    def collect(self) -> Iterator[Metric]:
        """Give the families."""
        master = GaugeMetricFamily(
            "leader_election_master_status", "1 where this replica holds the lease `name`, else 0", labels=("name",)
        )
        slow = CounterMetricFamily(
            "leader_election_slowpath",
            "Renewals of the lease `name` that had to read it first, since writing over what was remembered failed",
            labels=("name",),
        )
        for elector in self._electors:
            master.add_metric((elector.lock.name,), float(elector.leading))
            slow.add_metric((elector.lock.name,), elector.slow_paths)
        yield master
        yield slow
