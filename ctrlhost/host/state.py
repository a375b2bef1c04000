"""What a host is made of, for those that show it and act on it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.controller.pauses import Pauses
from ctrlhost.host.api_servers import ApiServers
from ctrlhost.status.writes import WriteLog

if TYPE_CHECKING:
    from ctrlhost.client import Client
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.coordination.leadership import Leadership
    from ctrlhost.host.children import Children
    from ctrlhost.host.metrics import HostMetrics
    from ctrlhost.host.shards import HostShards
    from ctrlhost.host.webhooks.serving import Webhooks
    from ctrlhost.informers import InformerFactory
    from ctrlhost.supervisor.processor import PluginProcessor
    from ctrlhost.supervisor.runtime import PluginRuntime
    from ctrlhost.transport.reachability import Reachability


@dataclass
class HostState:
    """The parts of one host, which alone sets them; those that are None come with its start, or never."""

    settings: HostSettings
    configuration: Configuration
    plugins: list[PluginRuntime] = field(default_factory=list)
    #: Set when the host shuts down.
    stopping: threading.Event = field(default_factory=threading.Event)
    #: Which controllers are paused.
    pauses: Pauses = field(default_factory=Pauses)
    #: Whether API servers answer; without any in the process of an isolated plugin.
    api_servers: ApiServers = field(default_factory=ApiServers)
    #: What this process has written.
    writes: WriteLog = field(default_factory=WriteLog)
    client: Client | None = None
    factory: InformerFactory | None = None
    #: What the plugins use.
    services: PluginServices | None = None
    #: The processor time of the plugins.
    processor: PluginProcessor | None = None
    metrics: HostMetrics | None = None
    #: The processes of isolated plugins; None without any.
    children: Children | None = None
    #: The leader elections; None without any.
    leadership: Leadership | None = None
    #: This replica's part in the keys that replicas share; None without shards.
    shards: HostShards | None = None
    #: The webhooks of plugins; None until a plugin with some is set up.
    webhooks: Webhooks | None = None

    @property
    def server(self) -> Reachability | None:
        """Whether the host's API server answers; None where that is not probed."""
        return self.api_servers.own
