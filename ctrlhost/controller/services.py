"""Services of the host to all plugins, and the objects that the parts of one plugin share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.config.settings import Supervision
from ctrlhost.controller.clients import ClientCounts, PluginClients
from ctrlhost.controller.error_log import ErrorLog
from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.controller.pauses import Pauses
from ctrlhost.coordination.term import Candidacy, Tenure
from ctrlhost.entries import Entries
from ctrlhost.events.recorder import PluginEvents
from ctrlhost.informers.caller import Caller
from ctrlhost.own_writes.overlay import OwnWrites
from ctrlhost.own_writes.versions import WrittenVersions, changed_by_run

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from ctrlhost.client import Client
    from ctrlhost.client.target import Write
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import ControllerOverrides
    from ctrlhost.controller.metrics import ReconcileMetrics
    from ctrlhost.controller.observers import Audit, Traces
    from ctrlhost.coordination.ownership import SharedKeys
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.informers import Informer, InformerFactory
    from ctrlhost.own_writes.lister import PluginLister
    from ctrlhost.permissions import Permission


@dataclass(frozen=True)
class PluginServices:
    """The host's services to its plugins."""

    client: Client
    factory: InformerFactory
    clock: Clock
    events: EventRecorder
    #: Set when the host begins to shut down.
    stopping: threading.Event
    #: By `plugin/name`; a reload of the settings changes them.
    controller_overrides: dict[str, ControllerOverrides]
    metrics: ReconcileMetrics
    #: The namespaces that all controllers are limited to; empty for all.
    namespaces: tuple[str, ...] = ()
    #: The names of all plugins of the host that are enabled, also of those in other processes.
    plugins: tuple[str, ...] = ()
    #: What the plugin has to do with leadership; without an election it leads.
    candidacy: Candidacy = field(default_factory=lambda: Candidacy(Tenure.endless()))
    #: Returns the client of a plugin with an account of its own, None for the host's; PluginError if it is unusable.
    account: Callable[[str], Client | None] = lambda _plugin: None
    client_counts: ClientCounts = field(default_factory=ClientCounts)
    #: Returns what the host allows a plugin.
    supervision: Callable[[str], Supervision] = lambda _plugin: Supervision()
    #: Returns the entries of a plugin: whoever calls the plugin's code opens one.
    entries: Callable[[str], Entries] = Entries
    #: Returns random numbers from 0 to 1 for the delays of retries; None for the usual ones.
    jitter: Callable[[], float] | None = None
    #: The last errors of the plugins' controllers.
    errors: ErrorLog = field(default_factory=ErrorLog)
    #: The versions that the plugins wrote.
    written: WrittenVersions = field(default_factory=WrittenVersions)
    #: Which controllers are paused.
    pauses: Pauses = field(default_factory=Pauses)
    #: Returns a CRD with the address of the webhook that converts its objects.
    addressed: Callable[[dict[str, Any]], dict[str, Any]] = lambda crd: crd
    #: What gets a line for each write of plugins; None for nothing.
    audit: Audit | None = None
    #: What makes spans of reconciles and their requests; None for nothing.
    tracing: Traces | None = None
    #: How replicas share the keys of controllers with `shard_by`; None if they do not.
    shards: SharedKeys | None = None
    #: Whether there is no server to ask.
    offline: bool = False


class PluginScope:
    """Objects that the controllers and tasks of one plugin share: its event loop, own writes and logger."""

    def __init__(self, name: str, services: PluginServices) -> None:
        """Prepare; this starts nothing."""
        self.name = name
        self.services = services
        #: The plugin's own object.
        self.state: Any = None
        self.log = logging.getLogger(f"ctrlhost.plugin.{name}")
        #: The rights that the plugin declares and its sources need; empty until they are checked.
        self.rights: Sequence[Permission] = ()
        self.entries = services.entries(name)
        #: Calls the plugin's handlers, maps, predicates and index functions.
        self.caller = Caller(name, self.entries)
        self.loop = PluginLoop(name, self.entries)
        self.own_writes = OwnWrites()
        self._own_client = services.account(name)
        self.clients = PluginClients(
            name,
            # Its own field manager: plugins that apply the same object must not drop each other's fields.
            self._derive_client(self._own_client or services.client),
            self.own_writes,
            services.candidacy.tenure,
            services.client_counts,
            services.supervision(name).client_qps,
        )
        # Sent like the writes of `plugin.client`, and of `plugin.replica_client`.
        self.events = PluginEvents(services.events, f"ctrlhost-{name}", self.clients.any_term)
        self.replica_events = PluginEvents(services.events, f"ctrlhost-{name}", self.clients.writes.write)
        #: The caches of all kinds that the plugin's controllers declare, by apiVersion and kind.
        self.listers: dict[tuple[str, str], PluginLister] = {}
        self._indexed: dict[Informer, dict[str, Any]] = {}

    def _derive_client(self, client: Client) -> Client:
        derived = client.derive(field_manager=f"ctrlhost-{self.name}", on_write=None if client.dry_run else self._wrote)
        if (audit := self.services.audit) is not None and not client.dry_run:
            derived = derived.derive(transport=audit.of(self.name, derived.transport))
        if (tracing := self.services.tracing) is not None:
            derived = derived.derive(transport=tracing.transport(derived.transport))
        return derived

    def _wrote(self, write: Write) -> None:
        if self.services.written.wrote(write) and (noted := changed_by_run.get()) is not None:
            noted(write)

    def close(self, timeout: float) -> None:
        """Remove the plugin's handlers and indexes, and end the threads of its caller and its loop.

        Waits at most `timeout` seconds for callbacks, and as long for the loop.
        """
        if not self.caller.stop(timeout):
            self.log.error("plugin %s: a callback did not return in time; abandoned", self.name)
        self._indexed.clear()
        self.loop.stop(timeout)
        if self._own_client is not None:
            self._own_client.close()

    @property
    def account(self) -> Client:
        """A client with the plugin's credentials, without its budget and its permits."""
        return self._own_client or self.services.client

    def indexed(self, informer: Informer) -> dict[str, Any]:
        """Return the paths or functions by which the plugin has indexed an informer, by the plugin's names."""
        return self._indexed.setdefault(informer, {})
