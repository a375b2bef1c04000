"""What a cluster needs to run a set of plugins, as manifests, made without a cluster."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.leadership import check_plugins, lease_names, lease_permissions
from ctrlhost.errors import CtrlhostError, PluginLoadError, TransportError
from ctrlhost.manifests.rbac import KindNames, implied, roles
from ctrlhost.selectors.namespaces import LABEL
from ctrlhost.server.listener import parse_address
from ctrlhost.supervisor.loader import PluginManager, name_of
from ctrlhost.supervisor.runtime import PluginRuntime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.permissions import Permission

_CONFIG_FOLDER, _CONFIG_FILE = "/etc/ctrlhost", "ctrlhost.toml"
#: A pod has this many seconds beyond the drain for what comes after it.
_GRACE = 10


@dataclass(frozen=True, slots=True)
class Deployed:
    """How the host is to run in the cluster; `config` is a settings file's text, `assignments` are those of `--set`."""

    name: str
    namespace: str
    image: str
    config: str = ""
    assignments: Sequence[str] = ()


def load_plugins(chosen: Iterable[object], configuration: Configuration) -> list[PluginRuntime]:
    """Import, configure and set up plugins without a network; PluginLoadError if one of them fails.

    They are named as for a Host: by the names of installed ones, or by modules and objects that implement hooks.
    """
    manager = PluginManager()
    services = _offline_services(configuration)
    plugins = []
    for one in chosen:
        name = one if isinstance(one, str) else name_of(one)
        plugin = PluginRuntime(name)
        plugin.load(manager, None if isinstance(one, str) else one)
        plugin.configure(configuration)
        plugin.set_up(services)
        if plugin.state == "failed":
            if isinstance(plugin.error, PluginLoadError):
                raise plugin.error
            raise PluginLoadError(name, plugin.reason)
        plugins.append(plugin)
    return plugins


def crds_of(plugins: Iterable[PluginRuntime]) -> list[dict[str, Any]]:
    """Give the CRDs that the plugins own, each once."""
    found: dict[str, dict[str, Any]] = {}
    for runtime in plugins:
        if runtime.plugin is not None:
            for crd in runtime.plugin.crds():
                found.setdefault(crd["metadata"]["name"], crd)
    return list(found.values())


def permissions_of(plugins: Iterable[PluginRuntime], settings: HostSettings) -> list[Permission]:
    """Give the rights that exactly these plugins need: those that follow from their sources, and those they ask for."""
    plugins = list(plugins)
    kinds = KindNames.of(crds_of(plugins))
    found: list[Permission] = []
    for runtime in plugins:
        if runtime.plugin is not None and runtime.context is not None:
            found += implied(runtime.context, kinds, settings.namespaces)
            found += runtime.plugin.permissions(runtime.settings)
    return found


def manifests(plugins: Sequence[PluginRuntime], settings: HostSettings, deployed: Deployed) -> list[dict[str, Any]]:
    """Give all manifests in the order in which they can be applied."""
    check_plugins(settings, [plugin.name for plugin in plugins])
    metadata = {"name": deployed.name, "namespace": deployed.namespace}
    made = crds_of(plugins)
    made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": deployed.namespace}})
    made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(metadata)})
    made += roles_of(plugins, settings, deployed.name, deployed.namespace)
    if deployed.config:
        data = {_CONFIG_FILE: deployed.config}
        made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(metadata), "data": data})
    made.append(_deployment([plugin.name for plugin in plugins], settings, deployed, metadata))
    return made


def roles_of(
    plugins: Sequence[PluginRuntime], settings: HostSettings, account: str, namespace: str
) -> list[dict[str, Any]]:
    """Give the roles that a host with these plugins needs, and bind them to its service account."""
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
    container = {
        "name": "ctrlhost",
        "image": deployed.image,
        "args": _arguments(names, settings, deployed, port),
        "ports": [{"name": "http", "containerPort": port}],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod: dict[str, Any] = {
        "serviceAccountName": deployed.name,
        "terminationGracePeriodSeconds": round(settings.drain_timeout) + _GRACE,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if deployed.config:
        container["volumeMounts"] = [{"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True}]
        pod["volumes"] = [{"name": "config", "configMap": {"name": deployed.name}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "replicas": 2 if settings.leader_elect else 1,
            # Two hosts at once would both write, also for the time of an update, unless they elect a leader.
            "strategy": {"type": "RollingUpdate" if settings.leader_elect else "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _arguments(names: Sequence[str], settings: HostSettings, deployed: Deployed, port: int) -> list[str]:
    arguments = ["run", f"--plugins={','.join(names)}", f"--listen=0.0.0.0:{port}"]
    if settings.namespaces:
        listed = ",".join(one for one in settings.namespaces if not one.startswith(LABEL))
        # A selector may have commas of its own.
        selected = [one for one in settings.namespaces if one.startswith(LABEL)]
        arguments += [f"--namespace={one}" for one in (listed, *selected) if one]
    if settings.leader_elect:
        arguments.append("--leader-elect")
    if deployed.config:
        arguments.append(f"--config={_CONFIG_FOLDER}/{_CONFIG_FILE}")
    return arguments + [f"--set={assignment}" for assignment in deployed.assignments]


def _offline_services(configuration: Configuration) -> PluginServices:
    """Give a plugin everything that its set-up may use; the network is not among it."""
    from prometheus_client import CollectorRegistry

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
        registry=CollectorRegistry(),
        leading=lambda: False,
        stopping=threading.Event(),
        controller_overrides=configuration.controllers(),
        metrics=ReconcileMetrics(),
        namespaces=configuration.host().namespaces,
    )


class _NoNetwork:
    """The transport of a set-up without a cluster."""

    def request(self, method: str, path: str, **_options: Any) -> Any:
        raise _refusal(method, path)

    def stream(self, path: str, **_options: Any) -> Any:
        raise _refusal("GET", path)

    def close(self) -> None:
        """Nothing is open."""


def _refusal(method: str, path: str) -> CtrlhostError:
    return TransportError(f"{method} {path}: there is no network in ctrlhost_setup", sent=False)
