"""Plugins that are imported, configured and set up without a cluster."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError, PluginLoadError, PluginNotFound, TransportError
from ctrlhost.supervisor.containment import failure_of
from ctrlhost.supervisor.crd_changes import marked
from ctrlhost.supervisor.loader import PluginManager, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.loader import Plugin


@dataclass(frozen=True, slots=True)
class SetUpPlugin:
    """A plugin that was set up without a network."""

    name: str
    plugin: Plugin
    settings: Any
    context: PluginContext


def load_plugins(chosen: Iterable[object], configuration: Configuration) -> list[SetUpPlugin]:
    """Import, configure and set up plugins without a network; PluginLoadError if one of them fails.

    `chosen` are names of installed plugins, or modules and objects that implement hooks, as for a Host.
    """
    manager = PluginManager()
    services = _offline_services(configuration)
    return [_set_up(manager, one, configuration, services) for one in chosen]


def _set_up(
    manager: PluginManager, chosen: object, configuration: Configuration, services: PluginServices
) -> SetUpPlugin:
    from ctrlhost.plugin.context import PluginContext

    name, stage = chosen if isinstance(chosen, str) else name_of(chosen), "loading"
    try:
        plugin = manager.load(name) if isinstance(chosen, str) else manager.register(name, chosen)
        stage = "ctrlhost_settings"
        settings = configuration.plugin(name, plugin.settings_type())
        stage = "ctrlhost_setup"
        context = PluginContext(name, settings, services)
        limits = [services.namespaces, *(one.namespaces for one in services.controller_overrides.values())]
        if any(limits):
            # The limit does not apply to cluster-scoped kinds.
            services.client.resources.expect(plugin.crds())
        plugin.setup(context)
    except (ConfigError, PluginNotFound, PluginLoadError):
        raise
    except (Exception, SystemExit) as error:
        raise PluginLoadError(name, failure_of(stage, error).reason) from error
    return SetUpPlugin(name, plugin, settings, context)


def crds_of(plugins: Iterable[SetUpPlugin]) -> list[dict[str, Any]]:
    """Return the CRDs that the plugins own, each once, marked with the version of the plugin."""
    found: dict[str, dict[str, Any]] = {}
    for one in plugins:
        for crd in one.plugin.crds():
            found.setdefault(crd["metadata"]["name"], marked(crd, one.plugin.version))
    return list(found.values())


def _offline_services(configuration: Configuration) -> PluginServices:
    """Return the services for set-ups without a network."""
    from ctrlhost.client import Client
    from ctrlhost.clock import SystemClock
    from ctrlhost.controller.metrics import ReconcileMetrics
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.informers import InformerFactory

    client, clock = Client.over(_NoNetwork()), SystemClock()
    return PluginServices(
        client=client,
        factory=InformerFactory(client),
        clock=clock,
        events=EventRecorder(client, clock),
        stopping=threading.Event(),
        controller_overrides=configuration.controllers(),
        metrics=ReconcileMetrics(),
        namespaces=configuration.host().namespaces,
    )


class _NoNetwork:
    """The transport of a set-up without a cluster."""

    def request(self, method: str, path: str, **_options: Any) -> Any:
        raise TransportError(f"{method} {path}: ctrlhost_setup must not use the network", sent=False)

    def stream(self, path: str, **_options: Any) -> Any:
        self.request("GET", path)

    def close(self) -> None:
        """Do nothing: there is no connection."""
