"""The clients of a host, its own and those of plugins with an account: probed, and without effect in a dry run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.client import Client
    from ctrlhost.client.written_path import WrittenPath
    from ctrlhost.clock import Clock
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.host.api_servers import ApiServers
    from ctrlhost.informers import InformerFactory
    from ctrlhost.informers.silent_watches import SilentWatches

log = logging.getLogger("ctrlhost.host")


class HostClients:
    """Makes the clients of one host. `load` and `connect` are called by one thread; the rest from any thread."""

    def __init__(self, configuration: Configuration, clock: Clock, api_servers: ApiServers, *, probes: bool) -> None:
        """Make nothing yet. Without `probes`, API servers are not probed."""
        self._configuration = configuration
        self._clock = clock
        self._probes = probes
        #: Whether API servers answer; empty without `probes`.
        self.api_servers = api_servers
        self._silent_watches: SilentWatches | None = None
        self._client: Client | None = None
        self._factory: InformerFactory | None = None
        self._dry_run = False

    def load(self, settings: HostSettings, kubeconfig: Path | None) -> Client:
        """Return the client that the settings describe, or that of a kubeconfig. ConfigError for an invalid one."""
        from ctrlhost.client import Client

        chosen, context = (settings.kubeconfig, settings.context) if kubeconfig is None else (kubeconfig, None)
        return Client.load(chosen, context, connect_timeout=self._connect_timeout)

    def load_ahead(self, settings: HostSettings) -> Client | None:
        """Return `load`'s client, which connects already; None for an invalid kubeconfig, which `load` reports."""
        from ctrlhost.transport.native import NativeTransport

        try:
            client = self.load(settings, None)
        except ConfigError:
            return None
        if isinstance(client.transport, NativeTransport):
            client.transport.connect_ahead()
        return client

    def connect(self, client: Client, factory: InformerFactory, *, dry_run: bool) -> Client:
        """Watch the API server of the host's client; return the client that writes, in a dry run without effect."""
        self._client, self._factory, self._dry_run = client, factory, dry_run
        if self._probes:
            from ctrlhost.informers.silent_watches import SilentWatches

            watches = self._silent_watches = SilentWatches(factory.informers, self._clock, self._is_reachable)
            self.api_servers.watch(client, watches.returned)
        if dry_run:
            log.info("dry run: nothing is written, no Lease is taken; what would change is logged")
        return self._writing(client)

    def of_account(self, plugin: str) -> Client | None:
        """Return a client with the plugin's own kubeconfig, None for the host's; PluginError if it is unusable."""
        if (path := self._configuration.supervision(plugin).kubeconfig) is None:
            return None
        from ctrlhost.client import Client

        where = f"supervision.{plugin}.kubeconfig"
        try:
            metrics = self._client.metrics if self._client is not None else None
            client = Client.of_account(path, where, metrics, self._connect_timeout)
        except ConfigError as error:
            raise PluginError(plugin, f"{where}: {error.message}", hint=error.hint) from error
        if self._probes:
            self.api_servers.watch(client)
        return self._writing(client)

    def stop(self) -> None:
        """End the probes; the clients can still be used."""
        self.api_servers.stop()
        if self._silent_watches is not None:
            self._silent_watches.stop()

    @property
    def _connect_timeout(self) -> float:
        return float(self._configuration.client.connect_timeout)

    def _is_reachable(self) -> bool:
        own = self.api_servers.own
        return own is not None and own.up

    def _writing(self, client: Client) -> Client:
        if not self._dry_run:
            return client
        from ctrlhost.client.dry_run import DryRunTransport

        return client.derive(transport=DryRunTransport(client.transport, self.cached))

    def cached(self, path: WrittenPath) -> dict[str, Any] | None:
        """Return the object of a path from a cache that has all of it; None if there is none."""
        factory, client = self._factory, self._client
        if factory is None or client is None:
            return None
        for informer in factory.informers():
            if informer.api_version != path.api_version or informer.scope.transform is not None:
                continue
            resource = client.resources.known(informer.api_version, informer.kind)
            if resource is not None and resource.plural == path.plural:
                obj = informer.lister.get(path.name, path.namespace)
                if obj is not None and not obj.partial:
                    return obj.to_dict()
        return None
