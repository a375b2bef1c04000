"""Plugins that are imported, configured and set up without a cluster."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ctrlhost.errors import ConfigError, PluginLoadError, PluginNotFound, TransportError
from ctrlhost.supervisor.containment import failure_of
from ctrlhost.supervisor.crd_changes import marked
from ctrlhost.supervisor.loader import PluginManager, name_of
from ctrlhost.transport.interface import HttpRequest, Transport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    loading = Loading(configuration)
    plugins_loaded = []
    for choice in chosen:
        plugin = loading.load(choice)
        plugins_loaded.append(loading.set_up(plugin, loading.settings(plugin)))
    return plugins_loaded


class Loading:
    """Imports, configures and sets up plugins without a network.

    The methods raise PluginLoadError for whatever a plugin raises, and ConfigError for invalid settings.
    """

    def __init__(self, configuration: Configuration) -> None:
        """Prepare; ConfigError if the settings of the host or of controllers are invalid."""
        self._configuration = configuration
        self._manager = PluginManager()
        self._services = _offline_services(configuration)

    def load(self, chosen: object) -> Plugin:
        """Import an installed plugin by its name, or register a module or object."""
        if isinstance(chosen, str):
            with _failing(chosen, "loading"):
                return self._manager.load(chosen)
        name = name_of(chosen)
        with _failing(name, "loading"):
            return self._manager.register(name, chosen)

    def settings(self, plugin: Plugin) -> Any:
        """Return the settings of a plugin, None for one that has none."""
        with _failing(plugin.name, "ctrlhost_settings"):
            return self._configuration.plugin(plugin.name, plugin.settings_type())

    def set_up(self, plugin: Plugin, settings: Any) -> SetUpPlugin:
        """Call the set-up of a plugin."""
        from ctrlhost.plugin.context import PluginContext

        services = self._services
        with _failing(plugin.name, "ctrlhost_setup"):
            context = PluginContext(plugin.name, settings, services)
            limits = [
                services.namespaces,
                *(override.namespaces for override in services.controller_overrides.values()),
            ]
            if any(limits):
                # The limit does not apply to cluster-scoped kinds.
                services.client.resources.expect(plugin.crds())
            plugin.setup(context)
        return SetUpPlugin(plugin.name, plugin, settings, context)


@contextmanager
def _failing(plugin: str, stage: str) -> Iterator[None]:
    try:
        yield
    except (ConfigError, PluginNotFound, PluginLoadError):
        raise
    except (Exception, SystemExit) as error:
        raise PluginLoadError(plugin, failure_of(stage, error).reason) from error


def collect_crds(plugins: Iterable[SetUpPlugin]) -> list[dict[str, Any]]:
    """Return the CRDs that the plugins own, each once, marked with the version of the plugin."""
    crds: dict[str, dict[str, Any]] = {}
    for plugin in plugins:
        for crd in plugin.plugin.crds():
            crds.setdefault(crd["metadata"]["name"], marked(crd, plugin.plugin.version))
    return list(crds.values())


def collect_objects(plugins: Iterable[SetUpPlugin]) -> list[dict[str, Any]]:
    """Return the further objects that the plugins ship, each once, marked with the version of the plugin."""
    objects: dict[tuple[str, ...], dict[str, Any]] = {}
    for plugin in plugins:
        for obj in plugin.plugin.objects():
            metadata = obj["metadata"]
            key = (obj["apiVersion"], obj["kind"], metadata.get("namespace") or "", metadata["name"])
            objects.setdefault(key, marked(obj, plugin.plugin.version))
    return list(objects.values())


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
        controller_overrides=configuration.controllers,
        metrics=ReconcileMetrics(),
        namespaces=configuration.host.namespaces,
        offline=True,
    )


class _NoNetwork(Transport):
    """The transport of a set-up without a cluster."""

    def send(self, request: HttpRequest) -> NoReturn:
        raise TransportError(f"{request.what}: ctrlhost_setup must not use the network", sent=False)

    open = send
