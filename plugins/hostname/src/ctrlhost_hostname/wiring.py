"""What wakes the controller: which hostnames a change of a ProviderHost, a Manifest or a route concerns."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_hostname import claims, manifest
from ctrlhost_hostname.claims import claimed_hostname, read_lease
from ctrlhost_hostname.errors import InvalidClaimError
from ctrlhost_hostname.routes import MANAGED_SELECTOR, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_hostname.state import OperatorState

BY_HOST = "host"
BY_NAME = "name"
_BY_LEASE = "ctrlhost_hostname/lease"


class Wiring:
    """The sources of the controller and the caches that it looks into outside of a reconcile."""

    def __init__(self, plugin: ctrlhost.PluginContext, state: OperatorState) -> None:
        """Ask for the caches; nothing is read yet."""
        settings, routes = state.settings, state.routes
        self._state = state
        self._namespaces = [settings.k8s_manifest_ns]
        self._hosts = plugin.informer(claims.API_VERSION, claims.KIND, namespaces=self._namespaces)
        self._routes = plugin.informer(routes.api_version, routes.kind, label_selector=MANAGED_SELECTOR)
        self._hosts.indexer.add_indexers({_BY_LEASE: self._lease_namespace})
        self._lock = threading.Lock()
        self._begun = False
        self._resyncing = False

    def sources(self) -> tuple[ctrlhost.Watches | ctrlhost.Every, ...]:
        """Give the sources. The key is a hostname, in whichever namespace its route is."""
        routes, settings = self._state.routes, self._state.settings
        return (
            ctrlhost.Watches(
                claims.API_VERSION,
                claims.KIND,
                namespaces=self._namespaces,
                map=self._of_provider_host,
                indexes={BY_HOST: lambda host: [_hostname_of(host)]},
            ),
            ctrlhost.Watches(
                manifest.API_VERSION,
                manifest.KIND,
                namespaces=self._namespaces,
                map=self._of_manifest,
                reads=manifest.READS,
            ),
            ctrlhost.Watches(
                routes.api_version,
                routes.kind,
                label_selector=MANAGED_SELECTOR,
                map=self._of_route,
                indexes={BY_NAME: "metadata.name"},
            ),
            ctrlhost.Every(settings.seconds("resync_interval"), self._everything),
        )

    def begin(self) -> None:
        """Have the state begin with full caches; does nothing when that was done, or before the caches are full.

        The host says once that the caches are full, but leaves out those that wait for a CRD, so a reconcile asks too.
        """
        with self._lock:
            if not self._begun and self._hosts.has_synced and self._routes.has_synced:
                self._state.begin(self.live_routes(), self.provider_hosts())
                self._begun = True

    def live_routes(self) -> list[ctrlhost.Object]:
        """Give every managed route, in the order of namespaces and names."""
        return sorted(self._routes.lister.list(), key=lambda route: (route.namespace, route.name))

    def provider_hosts(self) -> list[ctrlhost.Object]:
        """Give every ProviderHost."""
        return list(self._hosts.lister.list())

    def _of_provider_host(self, host: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        yield ctrlhost.Request(_hostname_of(host))

    def _of_manifest(self, found: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        for host in self._hosts.indexer.by_index(_BY_LEASE, found.name):
            yield ctrlhost.Request(_hostname_of(host))

    def _of_route(self, route: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        yield ctrlhost.Request(route.name)
        for hostname in self._state.routes.hosts(route):
            if hostname != route.name:
                yield ctrlhost.Request(hostname)

    def _everything(self) -> Iterator[ctrlhost.Request]:
        # The first round comes when the workers start, and the lists have queued everything by then. Once more at
        # once would count every failure twice.
        if not self._resyncing:
            self._resyncing = True
            return
        for host in self.provider_hosts():
            yield ctrlhost.Request(_hostname_of(host))
        for route in self.live_routes():
            yield from self._of_route(route)

    def _lease_namespace(self, host: ctrlhost.Object) -> list[str]:
        """Index a ProviderHost by the name of its lease's Manifest; one without a valid lease has none."""
        try:
            lease = read_lease(as_mapping(host.get("spec")), self._state.settings.bech32_prefix)
        except InvalidClaimError:
            return []
        return [lease.namespace]


def _hostname_of(host: ctrlhost.Object) -> str:
    """Read the hostname; `""` stands for all ProviderHosts without one, so that those are reported too."""
    return claimed_hostname(as_mapping(host.get("spec")))
