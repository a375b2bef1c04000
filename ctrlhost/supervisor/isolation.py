"""What the isolated plugins of a host share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.controller.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.supervisor.cache_server import CacheServer
    from ctrlhost.supervisor.channel import LogLevel, WebhookRoute
    from ctrlhost.supervisor.fork_server import ForkServer
    from ctrlhost.supervisor.plugin_file import PluginSource
    from ctrlhost.supervisor.process import Process


@dataclass
class Isolation:
    """What a host has for its isolated plugins."""

    settings: HostSettings
    configuration: Configuration
    #: Returns the private directory of a plugin's process; ConfigError if there is none.
    directory: Callable[[str], Path]
    #: Forks the processes.
    forks: ForkServer
    #: The names of all plugins of the host that are enabled.
    plugins: tuple[str, ...] = ()
    #: Returns the levels of the log that an operator has set, for new processes.
    log_levels: Callable[[], tuple[LogLevel, ...]] = tuple
    #: What plugins are loaded from that are not installed, by name.
    sources: Mapping[str, PluginSource] = field(default_factory=dict)
    #: Which controllers of the plugins an operator has paused or resumed.
    pauses: Pauses = field(default_factory=Pauses)
    #: The kubeconfig that the host uses, if it is not that of the settings; known when the host has its client.
    kubeconfig: str | None = None
    #: Made when the host has its informers.
    feed: CacheServer | None = None
    #: The last process of each plugin.
    processes: dict[str, Process] = field(default_factory=dict)
    #: The paths of the pages of each plugin, as its last process said.
    pages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Called with the webhooks of a plugin that is set up; raises as a plugin of the host's process does.
    has_webhooks: Callable[[str, tuple[WebhookRoute, ...]], None] = lambda _plugin, _webhooks: None

    def elects(self, plugin: str) -> bool:
        """Return whether the plugin has a lease of its own, for which its process stands itself."""
        return self.settings.leader_elect and plugin in self.settings.leader_elect_plugins

    def cpu_seconds(self, plugin: str) -> float:
        """Return the processor time of all processes of a plugin so far."""
        process = self.processes.get(plugin)
        return process.cpu_seconds() if process is not None else 0.0
