"""The Deployment of a host, and its pod."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.config.size import Size
from ctrlhost.errors import ConfigError
from ctrlhost.manifests.installation import NAME
from ctrlhost.manifests.listeners import PROBES
from ctrlhost.manifests.secrets import SecretReference, volumes
from ctrlhost.selectors.namespaces import LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.config.settings import HostSettings
    from ctrlhost.config.shard_settings import ShardSettings
    from ctrlhost.manifests.installation import Installation
    from ctrlhost.manifests.listeners import Listeners
    from ctrlhost.manifests.webhooks import WebhookObjects

_CONFIG_FOLDER = "/etc/ctrlhost"
#: The name of the settings file, also in the ConfigMap.
CONFIG_FILE = "ctrlhost.toml"
#: The annotation of pods that changes with the settings.
CONFIG_HASH = "ctrlhost.dev/config-hash"
#: The folder for the host's private directory. An emptyDir belongs to root and has the mode 0777, so it is not private
#: itself.
_RUN_FOLDER = "/run/ctrlhost"
#: Seconds between the drain timeout and the end of a pod.
_GRACE = 10
#: The user and group of the image.
_USER = 65532
#: Tries of the startup probe, every two seconds.
_STARTUP_TRIES = 30
_CPU = re.compile(r"[1-9]\d*m?|\d*\.\d+")


@dataclass(frozen=True, slots=True)
class Resources:
    """What the container requests, and its limits; there is none for the CPU unless it is given."""

    cpu: str = "100m"
    memory: str = "128Mi"
    memory_limit: str = "512Mi"
    cpu_limit: str = ""

    @classmethod
    def checked(cls, memory: str, memory_limit: str, cpu_limit: str | None) -> Resources:
        """Return the resources; ConfigError for an invalid quantity, and for a limit below the request."""
        sizes = {"--memory": memory, "--memory-limit": memory_limit}
        for flag, text in sizes.items():
            try:
                if not Size(text):
                    raise ConfigError(f"{flag} {text}: must be positive")
            except ValueError as error:
                raise ConfigError(f"{flag}: {error}") from None
        if Size(memory_limit) < Size(memory):
            raise ConfigError(f"--memory-limit {memory_limit}: must not be less than the memory requested, {memory}")
        if cpu_limit and not _CPU.fullmatch(cpu_limit):
            raise ConfigError(f"--cpu-limit {cpu_limit}: invalid quantity", hint="write `500m` or `1.5`")
        return cls(memory=memory, memory_limit=memory_limit, cpu_limit=cpu_limit or "")

    @property
    def declared(self) -> dict[str, dict[str, str]]:
        """The entry of the container."""
        limits = {"memory": self.memory_limit} | ({"cpu": self.cpu_limit} if self.cpu_limit else {})
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}


@dataclass(frozen=True, slots=True)
class Shards:
    """How many replicas share the keys of controllers, and by which settings."""

    replicas: int
    settings: ShardSettings


@dataclass(frozen=True, slots=True)
class Workload:
    """One Deployment: a host with some plugins, under an account of its own.

    `config` is the content of a settings file in the ConfigMap `config_map`, `assignments` are those of `--set`,
    `isolated` those of `--isolate`, `secrets` the references to Secrets.
    """

    name: str
    namespace: str
    installation: Installation
    image: str
    plugins: tuple[str, ...]
    settings: HostSettings
    listeners: Listeners
    config: str = ""
    config_map: str = ""
    assignments: Sequence[str] = ()
    isolated: Sequence[str] = ()
    #: The arguments for plugins that are not installed, by name.
    sources: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretReference] = ()
    resources: Resources = field(default_factory=Resources)
    #: None if no plugin has webhooks.
    webhooks: WebhookObjects | None = None
    #: Arguments that make one of several Deployments different from the others.
    own_arguments: Sequence[str] = ()
    #: How many pods share the keys of controllers, and how; None if they do not.
    shards: Shards | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the objects that are named after it."""
        return {"name": self.name, "namespace": self.namespace, "labels": dict(self.labels)}

    @property
    def labels(self) -> dict[str, str]:
        """The labels that select its pods, which no other Deployment of the namespace has."""
        return {NAME: self.name}

    @property
    def replicas(self) -> int:
        """How many pods run at once."""
        if self.shards is not None:
            return self.shards.replicas
        return 2 if self.settings.leader_elect else 1

    @property
    def grace(self) -> int:
        """How many seconds a pod has to end."""
        handover = float(self.shards.settings.handover_timeout) if self.shards is not None else 0.0
        return round(handover + self.settings.drain_timeout) + _GRACE

    @property
    def strategy(self) -> dict[str, Any]:
        """How pods are replaced.

        Without leader election two hosts must never run at once, not even during an update: both would write. With
        shards a new one comes before an old one goes, whose keys it takes.
        """
        if self.shards is not None:
            return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        return {"type": "RollingUpdate" if self.settings.leader_elect else "Recreate"}


def config_map(name: str, namespace: str, config: str) -> dict[str, Any]:
    """Return the ConfigMap with the settings file."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_FILE: config}}


def deployment(workload: Workload) -> dict[str, Any]:
    """Return the Deployment."""
    annotations = {CONFIG_HASH: _config_hash(workload)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": workload.metadata,
        "spec": {
            "replicas": workload.replicas,
            "strategy": workload.strategy,
            "selector": {"matchLabels": workload.labels},
            "template": {
                "metadata": {"labels": {**workload.installation.labels, **workload.labels}, "annotations": annotations},
                "spec": _pod(workload),
            },
        },
    }


def _pod(workload: Workload) -> dict[str, Any]:
    mounted, mounts = volumes(workload.secrets)
    mounted.insert(0, {"name": "run", "emptyDir": {"medium": "Memory"}})
    mounts.insert(0, {"name": "run", "mountPath": _RUN_FOLDER})
    if workload.config:
        mounted.append({"name": "config", "configMap": {"name": workload.config_map}})
        mounts.append({"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True})
    if workload.webhooks is not None:
        certificate, mounted_at = workload.webhooks.volumes()
        mounted += certificate
        mounts += mounted_at
    pod: dict[str, Any] = {
        "serviceAccountName": workload.name,
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": workload.grace,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(workload, mounts)],
        "volumes": mounted,
    }
    if workload.replicas > 1:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": workload.labels},
            }
        ]
    return pod


def _container(workload: Workload, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    variables = [{"name": "XDG_RUNTIME_DIR", "value": _RUN_FOLDER}]
    return {
        "name": "ctrlhost",
        "image": workload.image,
        "args": _arguments(workload),
        "env": variables + [secret.variable for secret in workload.secrets],
        "ports": [port.declared for port in workload.listeners.ports],
        **(_probes() if workload.listeners.of(PROBES) else {}),
        "resources": workload.resources.declared,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probes() -> dict[str, Any]:
    live, ready = ({"httpGet": {"path": path, "port": PROBES}} for path in ("/livez", "/readyz"))
    return {
        "startupProbe": {**live, "periodSeconds": 2, "failureThreshold": _STARTUP_TRIES},
        "livenessProbe": {**live, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {**ready, "periodSeconds": 5},
    }


def _arguments(workload: Workload) -> list[str]:
    settings = workload.settings
    installed = [name for name in workload.plugins if name not in workload.sources]
    arguments = ["run", *([f"--plugins={','.join(installed)}"] if installed else []), *workload.sources.values()]
    arguments += workload.listeners.arguments
    if settings.namespaces:
        listed = ",".join(namespace for namespace in settings.namespaces if not namespace.startswith(LABEL))
        # A selector may contain commas.
        selected = [namespace for namespace in settings.namespaces if namespace.startswith(LABEL)]
        arguments += [f"--namespace={namespace}" for namespace in (listed, *selected) if namespace]
    if workload.shards is not None:
        arguments.append("--shards")
    elif settings.leader_elect:
        arguments.append("--leader-elect")
    if settings.admin:
        arguments.append("--admin")
    if workload.isolated:
        arguments.append(f"--isolate={','.join(workload.isolated)}")
    if workload.config:
        arguments.append(f"--config={_CONFIG_FOLDER}/{CONFIG_FILE}")
    arguments += [f"--set={assignment}" for assignment in workload.assignments]
    if workload.webhooks is not None:
        arguments += workload.webhooks.arguments()
    return [*arguments, *workload.own_arguments]


def _config_hash(workload: Workload) -> str:
    """Return a hash of the settings and the names of Secrets; comments in the file do not count.

    Pods with other settings replace those that run.
    """
    secrets = [f"{secret.variable['name']}={secret.secret}/{secret.entry}" for secret in workload.secrets]
    inputs = [tomllib.loads(workload.config), list(workload.assignments), list(workload.isolated), secrets]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()
