"""What the parts of one plugin share, and what the host gives to all plugins."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.client import AsyncClient
from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.events.recorder import PluginEvents
from ctrlhost.own_writes.client import WritingClient
from ctrlhost.own_writes.overlay import OwnWrites

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import ControllerOverrides
    from ctrlhost.controller.metrics import ReconcileMetrics
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.informers import Informer, InformerFactory
    from ctrlhost.own_writes.self_events import SelfEvents


@dataclass(frozen=True)
class PluginServices:
    """What the host gives to its plugins; one for the whole host."""

    client: Client
    factory: InformerFactory
    clock: Clock
    events: EventRecorder
    #: Where plugins' registries of metrics are added, so that the host's page shows them.
    registry: CollectorRegistry
    leading: Callable[[], bool]
    #: Set when the host begins to stop.
    stopping: threading.Event
    controller_overrides: Mapping[str, ControllerOverrides]
    metrics: ReconcileMetrics
    #: The namespaces that all controllers are limited to; empty for all.
    namespaces: tuple[str, ...] = field(default=())
    #: Whether leadership may be lost and gained again while the host runs.
    elects: bool = False


class PluginScope:
    """The inside of one plugin: its loop, its writes, its logger."""

    def __init__(self, name: str, services: PluginServices) -> None:
        """Prepare; starts nothing."""
        self.name = name
        self.services = services
        self.log = logging.getLogger(f"ctrlhost.plugin.{name}")
        self.loop = PluginLoop(name)
        self.written = OwnWrites()
        self.events = PluginEvents(services.events, f"ctrlhost-{name}")
        self._async_clients: list[AsyncClient] = []
        self._indexed: dict[Informer, dict[str, Any]] = {}

    def writing_client(self, guard: Callable[[], None] | None = None, echoes: SelfEvents | None = None) -> Client:
        """Give a client that remembers the plugin's writes; `guard` may forbid one."""
        # Each plugin is a field manager of its own, or plugins that apply to one object would drop each other's fields.
        client = self.services.client.derive(field_manager=f"ctrlhost-{self.name}")
        return WritingClient.of(client, self.written, guard=guard, self_events=echoes)

    def async_client(self, client: Client) -> AsyncClient:
        """Give the awaitable form of a client; its threads start with the first call and end with the plugin."""
        made = AsyncClient(client)
        self._async_clients.append(made)
        return made

    def close(self, timeout: float) -> None:
        """End the plugin's threads."""
        self.loop.stop(timeout)
        for client in self._async_clients:
            client.close()

    def indexed(self, informer: Informer) -> dict[str, Any]:
        """Give what the plugin has indexed an informer by, under the plugin's own names."""
        return self._indexed.setdefault(informer, {})
