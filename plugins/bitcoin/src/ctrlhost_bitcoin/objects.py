"""The headless Service and the StatefulSet of a network, with the fields that the plugin sets, and their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

import ctrlhost
from ctrlhost_bitcoin.model import GROUP

if TYPE_CHECKING:
    from ctrlhost import Object
    from ctrlhost_bitcoin.model import Network, SecurityContext, Storage

SERVICE, STATEFUL_SET = "v1/Service", "apps/v1/StatefulSet"
NETWORK_LABEL = f"{GROUP}/network"
CREDENTIALS_ANNOTATION = f"{GROUP}/credentials"
MANAGED = {"app.kubernetes.io/managed-by": "ctrlhost"}

#: The volume with the data of a node, and the data directory of root, whom the default image uses.
_VOLUME, _MOUNT_PATH = "data", "/root/.bitcoin"
_CLI = ["/usr/local/bin/bitcoin-cli", "-regtest", "-conf=/bitcoin.conf", "getnetworkinfo"]
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
#: What servers do not let change, of a StatefulSet that was taken over.
_FIXED = ("podManagementPolicy", "revisionHistoryLimit", "selector", "serviceName")
_TEMPLATE = ("spec", "template", "metadata", "annotations", CREDENTIALS_ANNOTATION)


def network_of(child: str) -> str | None:
    """Return the network that a StatefulSet or Service of this name would belong to; None for any other name."""
    match = re.fullmatch("(.+)-(?:sts|svc)", child, re.DOTALL)
    return match and match[1]


def selector(network: str) -> dict[str, str]:
    """Return the labels that select the network's pods."""
    return {"app": network, NETWORK_LABEL: network}


def upstream_selector(network: str) -> dict[str, str]:
    """Return the labels by which the Go controller selects pods."""
    return {"app": network}


def selected_by(child: Object) -> Any:
    """Return the labels by which a Service or a StatefulSet selects its pods."""
    path = ("matchLabels",) if child.kind == "StatefulSet" else ()
    return ctrlhost.plain(child.get_path("spec", "selector", *path))


def may_adopt(network: Network, live: Object) -> bool:
    """Return whether an object without an owner was surely meant for this network, and can be made to fit it."""
    if selected_by(live) not in (selector(network.name), upstream_selector(network.name)):
        return False
    return live.kind != "StatefulSet" or network.spec.storage is None or bool(_claims(live))


def digest_of(stateful_set: Object | None) -> str | None:
    """Return the digest of the credentials for the pods of a StatefulSet."""
    return None if stateful_set is None else stateful_set.get_path(*_TEMPLATE)


def service(network: Network, stateful_set: Object | None) -> dict[str, Any]:
    """Return the Service that resolves the pods' names, even before they are ready."""
    upstream = upstream_selector(network.name)
    # The pods of upstream's StatefulSet lack our labels until they are restarted.
    is_upstream = stateful_set is not None and selected_by(stateful_set) == upstream
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{network.name}-svc", "labels": _labels(network.name)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": upstream if is_upstream else selector(network.name),
            "ports": [
                {"name": "rpc", "port": network.rpc_port, "targetPort": network.rpc_port, "protocol": "TCP"},
                {"name": "p2p", "port": network.p2p_port, "targetPort": network.p2p_port, "protocol": "TCP"},
            ],
        },
    }


def stateful_set(network: Network, digest: str, live: Object | None, *, roll: bool) -> dict[str, Any]:
    """Return the StatefulSet that runs the daemons; `digest` is that of their credentials.

    What cannot be changed stays as it is in the live one. Without `roll` its pods keep their credentials.
    """
    storage = network.spec.storage
    if live is not None and not _claims(live):
        storage = None
    metadata = {"labels": _labels(network.name), "annotations": {CREDENTIALS_ANNOTATION: digest}}
    pod: dict[str, Any] = {"automountServiceAccountToken": False, "containers": [_container(network, storage)]}
    if network.spec.securityContext is not None:
        pod["securityContext"] = _pod_security(network.spec.securityContext)
    spec: dict[str, Any] = {
        "replicas": network.nodes,
        "serviceName": f"{network.name}-svc",
        # In order, each pod would wait for the previous one to be ready, so one broken node would block the rest.
        "podManagementPolicy": "Parallel",
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": selector(network.name)},
        "template": {"metadata": metadata, "spec": pod},
    }
    if storage is not None:
        spec["volumeClaimTemplates"] = [_claim(storage)]
    if live is not None:
        spec |= {field: value for field in _FIXED if (value := ctrlhost.plain(live.get_path("spec", field)))}
        for claim, kept in zip(spec.get("volumeClaimTemplates", ()), _claims(live), strict=False):
            claim["spec"] = {field: kept["spec"][field] for field in claim["spec"] if field in kept["spec"]}
        if _waits_for_a_roll(live, pod["containers"][0], pod):
            spec["template"] = ctrlhost.plain(live.get_path("spec", "template"))
        if not roll and (known := digest_of(live)) is not None:
            metadata["annotations"] = {CREDENTIALS_ANNOTATION: known}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"{network.name}-sts", "labels": _labels(network.name)},
        "spec": spec,
    }


def _waits_for_a_roll(live: Object, container: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Return whether the pods are still those of the Go controller, and nothing that a user sets has changed.

    Labels and probes of ours would replace all pods at once. They come with the next change of the network's pods, or
    with `kubectl rollout restart`, which annotates the template.
    """
    template: Any = ctrlhost.plain(live.get_path("spec", "template", default={}))
    if selected_by(live) != {"app": live.get_path("spec", "template", "metadata", "labels", "app")}:
        return False
    if template.get("metadata", {}).get("annotations"):
        return False
    spec = template.get("spec", {})
    current = next((other for other in spec.get("containers", ()) if other["name"] == container["name"]), None)
    if current is None or current["image"] != container["image"]:
        return False
    chosen = [(current.get(field), container.get(field)) for field in ("args", "resources")]
    chosen.append((spec.get("securityContext"), pod.get("securityContext")))
    return all((now or None) == (wanted or None) for now, wanted in chosen if wanted)


def replacement(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a strategic merge patch that replaces what an apply would only add to.

    Ports are merged by number and the handlers of a probe side by side: beside those of others, ours would be refused.
    """
    if wanted["kind"] == "Service":
        return {"spec": {"ports": [{"$patch": "replace"}, *wanted["spec"]["ports"]]}}
    container = wanted["spec"]["template"]["spec"]["containers"][0]
    probe = dict.fromkeys(_HANDLERS) | container["readinessProbe"]
    ports = [{"$patch": "replace"}, *container["ports"]]
    mended = {"name": container["name"], "readinessProbe": probe, "ports": ports}
    return {"spec": {"template": {"spec": {"containers": [mended]}}}}


def _labels(network: str) -> dict[str, str]:
    more = {"app.kubernetes.io/name": "bitcoind", "app.kubernetes.io/instance": network}
    return {**selector(network), **more, **MANAGED}


def _pod_security(security: SecurityContext) -> dict[str, Any]:
    group = security.runAsUser if security.fsGroup is None else security.fsGroup
    identity = {"runAsUser": security.runAsUser, "runAsGroup": security.runAsGroup, "fsGroup": group}
    own = {field: value for field, value in identity.items() if value is not None}
    return {**own, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def _claim(storage: Storage) -> dict[str, Any]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(storage.size)}}}
    if storage.storageClassName is not None:
        claim["storageClassName"] = storage.storageClassName
    return {"metadata": {"name": _VOLUME}, "spec": claim}


def _claims(live: Object) -> list[Any]:
    """Return the claim for our data of a live StatefulSet, if it has it."""
    claims = ctrlhost.plain(live.get_path("spec", "volumeClaimTemplates", default=()))
    return [claim for claim in claims if claim["metadata"]["name"] == _VOLUME]


def _container(network: Network, storage: Storage | None) -> dict[str, Any]:
    spec = network.spec
    container: dict[str, Any] = {
        "name": f"{network.name}-sts-ctr",
        "image": network.image,
        "imagePullPolicy": "IfNotPresent",
        # Empty lists, so that those of others go.
        "args": spec.args or [],
        "envFrom": [{"secretRef": {"name": network.secret, "optional": True}}] if network.secret else [],
        "ports": [
            {"name": "rpc", "containerPort": network.rpc_port, "protocol": "TCP"},
            {"name": "p2p", "containerPort": network.p2p_port, "protocol": "TCP"},
        ],
        "readinessProbe": _probe(network),
    }
    if spec.resources is not None:
        container["resources"] = msgspec.to_builtins(spec.resources)
    if spec.securityContext is not None:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if storage is not None:
        container["volumeMounts"] = [{"name": _VOLUME, "mountPath": storage.mountPath or _MOUNT_PATH}]
    return container


def _probe(network: Network) -> dict[str, Any]:
    probe = {"initialDelaySeconds": 5, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3}
    if network.spec.readiness == "Rest":
        return {**probe, "httpGet": {"path": "/rest/chaininfo.json", "port": network.rpc_port}}
    return {**probe, "exec": {"command": list(_CLI)}}
