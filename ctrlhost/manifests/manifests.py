"""The manifests that run a set of plugins in a cluster, generated without access to one."""

from __future__ import annotations

import hashlib
import json
import threading
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.leadership import check_plugins, lease_names, lease_permissions
from ctrlhost.errors import ConfigError, PluginLoadError, PluginNotFound, TransportError
from ctrlhost.manifests.rbac import implied, plurals, roles
from ctrlhost.selectors.namespaces import LABEL
from ctrlhost.server.listener import parse_address
from ctrlhost.supervisor.containment import failure_of
from ctrlhost.supervisor.loader import PluginManager, name_of, owned_crds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.loader import Plugin

_CONFIG_FOLDER, _CONFIG_FILE = "/etc/ctrlhost", "ctrlhost.toml"
#: The folder for the host's private directory. An emptyDir belongs to root and has the mode 0777, so it is not private
#: itself.
_RUN_FOLDER = "/run/ctrlhost"
#: Seconds between the drain timeout and the end of a pod.
_GRACE = 10


@dataclass(frozen=True, slots=True)
class Deployed:
    """The Deployment to generate.

    `config` is the content of a settings file, `assignments` are those of `--set`, `isolated` those of `--isolate`.
    """

    name: str
    namespace: str
    image: str
    config: str = ""
    assignments: Sequence[str] = ()
    isolated: Sequence[str] = ()


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
    """Return the CRDs that the plugins own, each once."""
    return owned_crds(one.plugin for one in plugins)


def permissions_of(plugins: Iterable[SetUpPlugin], settings: HostSettings) -> list[Permission]:
    """Return the permissions that exactly these plugins need: for their sources, and those that they request."""
    plugins = list(plugins)
    plural = plurals(crds_of(plugins))
    found: list[Permission] = []
    for one in plugins:
        found += implied(one.context, plural, settings.namespaces)
        found += one.plugin.permissions(one.settings)
    return found


def manifests(plugins: Sequence[SetUpPlugin], settings: HostSettings, deployed: Deployed) -> list[dict[str, Any]]:
    """Return all manifests, in an order in which they can be applied."""
    check_plugins(settings, [plugin.name for plugin in plugins])
    metadata = {"name": deployed.name, "namespace": deployed.namespace}
    documents = crds_of(plugins)
    documents.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": deployed.namespace}})
    documents.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(metadata)})
    documents += roles_of(plugins, settings, deployed.name, deployed.namespace)
    if deployed.config:
        data = {_CONFIG_FILE: deployed.config}
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(metadata), "data": data})
    documents.append(_deployment([plugin.name for plugin in plugins], settings, deployed, metadata))
    return documents


def roles_of(
    plugins: Sequence[SetUpPlugin], settings: HostSettings, account: str, namespace: str
) -> list[dict[str, Any]]:
    """Return the roles that a host with these plugins needs, with their bindings to its service account."""
    permissions = permissions_of(plugins, settings)
    if settings.leader_elect:
        leases = lease_names(settings, [plugin.name for plugin in plugins])
        permissions += lease_permissions(leases, settings.leader_elect_resource_namespace or namespace)
    return roles(account, namespace, permissions)


def _deployment(
    names: Sequence[str], settings: HostSettings, deployed: Deployed, metadata: dict[str, str]
) -> dict[str, Any]:
    port = parse_address(settings.listen, "host.listen")[1]
    labels = {"app.kubernetes.io/name": deployed.name}
    limits = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    container: dict[str, Any] = {
        "name": "ctrlhost",
        "image": deployed.image,
        "args": _arguments(names, settings, deployed, port),
        "env": [{"name": "XDG_RUNTIME_DIR", "value": _RUN_FOLDER}],
        "ports": [{"name": "http", "containerPort": port}],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "securityContext": limits,
        "volumeMounts": [{"name": "run", "mountPath": _RUN_FOLDER}],
    }
    pod: dict[str, Any] = {
        "serviceAccountName": deployed.name,
        "terminationGracePeriodSeconds": round(settings.drain_timeout) + _GRACE,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "run", "emptyDir": {"medium": "Memory"}}],
    }
    if deployed.config:
        container["volumeMounts"].append({"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True})
        pod["volumes"].append({"name": "config", "configMap": {"name": deployed.name}})
    annotations = {"ctrlhost.dev/config-hash": _config_hash(deployed)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "replicas": 2 if settings.leader_elect else 1,
            # Without leader election two hosts must never run at once, not even during an update: both would write.
            "strategy": {"type": "RollingUpdate" if settings.leader_elect else "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


def _config_hash(deployed: Deployed) -> str:
    """Return a hash of the settings, so that pods with other ones replace those that run; comments do not count."""
    given = [tomllib.loads(deployed.config), list(deployed.assignments), list(deployed.isolated)]
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()


def _arguments(names: Sequence[str], settings: HostSettings, deployed: Deployed, port: int) -> list[str]:
    arguments = ["run", f"--plugins={','.join(names)}", f"--listen=0.0.0.0:{port}"]
    if settings.namespaces:
        listed = ",".join(one for one in settings.namespaces if not one.startswith(LABEL))
        # A selector may contain commas.
        selected = [one for one in settings.namespaces if one.startswith(LABEL)]
        arguments += [f"--namespace={one}" for one in (listed, *selected) if one]
    if settings.leader_elect:
        arguments.append("--leader-elect")
    if deployed.isolated:
        arguments.append(f"--isolate={','.join(deployed.isolated)}")
    if deployed.config:
        arguments.append(f"--config={_CONFIG_FOLDER}/{_CONFIG_FILE}")
    return arguments + [f"--set={assignment}" for assignment in deployed.assignments]


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
