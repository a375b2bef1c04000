"""Services of the host to all plugins, and the objects that the parts of one plugin share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.client import AsyncClient
from ctrlhost.config.settings import Supervision
from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.entries import Entries
from ctrlhost.events.recorder import PluginEvents
from ctrlhost.own_writes.client import WritingClient
from ctrlhost.own_writes.overlay import OwnWrites
from ctrlhost.own_writes.versions import WrittenVersions, changed_by_run

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from ctrlhost.client import Client
    from ctrlhost.client.target import Write
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import ControllerOverrides
    from ctrlhost.controller.metrics import ReconcileMetrics
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.informers import Informer, InformerFactory
    from ctrlhost.own_writes.self_events import SelfEvents


@dataclass(frozen=True)
class PluginServices:
    """The host's services to its plugins."""

    client: Client
    factory: InformerFactory
    clock: Clock
    events: EventRecorder
    leading: Callable[[], bool]
    #: Set when the host begins to shut down.
    stopping: threading.Event
    controller_overrides: Mapping[str, ControllerOverrides]
    metrics: ReconcileMetrics
    #: The namespaces that all controllers are limited to; empty for all.
    namespaces: tuple[str, ...] = ()
    #: Whether leadership may change while the host runs.
    elects: bool = False
    #: The identity of the leading replica; empty if it is unknown.
    leader: Callable[[], str] = str
    #: Returns what the host allows a plugin.
    supervision: Callable[[str], Supervision] = lambda _plugin: Supervision()
    #: Returns the entries of a plugin: whoever calls the plugin's code opens one.
    entries: Callable[[str], Entries] = Entries
    #: Returns random numbers from 0 to 1 for the delays of retries; None for the usual ones.
    jitter: Callable[[], float] | None = None
    #: The versions that the plugins wrote.
    written: WrittenVersions = field(default_factory=WrittenVersions)


class PluginScope:
    """Objects that the controllers and tasks of one plugin share: its event loop, own writes and logger."""

    def __init__(self, name: str, services: PluginServices) -> None:
        """Prepare; this starts nothing."""
        self.name = name
        self.services = services
        self.log = logging.getLogger(f"ctrlhost.plugin.{name}")
        self.entries = services.entries(name)
        self.loop = PluginLoop(name, self.entries)
        self.own_writes = OwnWrites()
        self.events = PluginEvents(services.events, f"ctrlhost-{name}")
        self._async_clients: list[AsyncClient] = []
        self._indexed: dict[Informer, dict[str, Any]] = {}

    def writing_client(self, guard: Callable[[], None] | None = None, self_events: SelfEvents | None = None) -> Client:
        """Return a client that records the plugin's writes; `guard` raises to forbid a write."""
        # Each plugin is its own field manager: plugins that apply the same object must not drop each other's fields.
        client = self.services.client.derive(field_manager=f"ctrlhost-{self.name}", on_write=self._wrote)
        return WritingClient.of(client, self.own_writes, guard=guard, self_events=self_events)

    def _wrote(self, write: Write) -> None:
        if self.services.written.wrote(write) and (noted := changed_by_run.get()) is not None:
            noted(write)

    def async_client(self, client: Client) -> AsyncClient:
        """Return the async form of a client; its threads start with the first call and end with the plugin."""
        self._async_clients.append(AsyncClient(client))
        return self._async_clients[-1]

    def close(self, timeout: float) -> None:
        """End the threads of the loop, for at most `timeout` seconds, and of the async clients."""
        self.loop.stop(timeout)
        for client in self._async_clients:
            client.close()

    def indexed(self, informer: Informer) -> dict[str, Any]:
        """Return the paths or functions by which the plugin has indexed an informer, by the plugin's names."""
        return self._indexed.setdefault(informer, {})
