"""The headless Service and the StatefulSet of a network, with the fields that the plugin sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_bitcoin.objects import names

if TYPE_CHECKING:
    from ctrlhost_bitcoin.objects.spec import NetworkSpec, Storage

_CLI = ["/usr/local/bin/bitcoin-cli", "-regtest", "-conf=/bitcoin.conf", "getnetworkinfo"]
#: The volume with the data of a node.
VOLUME = "data"
_REST = "/rest/chaininfo.json"


def service(spec: NetworkSpec) -> dict[str, Any]:
    """Return the Service that resolves the pods' names, even before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(spec, names.service_name(spec.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.selector(spec.name),
            "ports": [
                {"name": "rpc", "port": spec.rpc_port, "targetPort": spec.rpc_port, "protocol": "TCP"},
                {"name": "p2p", "port": spec.p2p_port, "targetPort": spec.p2p_port, "protocol": "TCP"},
            ],
        },
    }


def stateful_set(spec: NetworkSpec, digest: str) -> dict[str, Any]:
    """Return the StatefulSet that runs the daemons; `digest` is that of their credentials."""
    wanted: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(spec, names.stateful_set_name(spec.name)),
        "spec": {
            "replicas": spec.nodes,
            "serviceName": names.service_name(spec.name),
            # In order, each pod would wait for the previous one to be ready, so one broken node would block the rest.
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": names.selector(spec.name)},
            "template": {
                "metadata": {
                    "labels": names.labels(spec.name),
                    "annotations": {names.CREDENTIALS_ANNOTATION: digest},
                },
                "spec": {"automountServiceAccountToken": False, "containers": [_container(spec)]},
            },
        },
    }
    if spec.security is not None:
        identity = {
            "runAsUser": spec.security.run_as_user,
            "runAsGroup": spec.security.run_as_group,
            "fsGroup": spec.security.run_as_user if spec.security.fs_group is None else spec.security.fs_group,
        }
        given = {field: value for field, value in identity.items() if value is not None}
        restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        wanted["spec"]["template"]["spec"]["securityContext"] = {**given, **restricted}
    if spec.storage is not None:
        wanted["spec"]["volumeClaimTemplates"] = [_claim(spec.storage)]
    return wanted


def _claim(storage: Storage) -> dict[str, Any]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(storage.size)}}}
    if storage.storage_class_name is not None:
        claim["storageClassName"] = storage.storage_class_name
    return {"metadata": {"name": VOLUME}, "spec": claim}


def _metadata(spec: NetworkSpec, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": spec.namespace, "labels": names.labels(spec.name)}


def _container(spec: NetworkSpec) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": f"{spec.name}-sts-ctr",
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "rpc", "containerPort": spec.rpc_port, "protocol": "TCP"},
            {"name": "p2p", "containerPort": spec.p2p_port, "protocol": "TCP"},
        ],
        "readinessProbe": _probe(spec),
    }
    if spec.args is not None:
        container["args"] = list(spec.args)
    if spec.secret:
        container["envFrom"] = [{"secretRef": {"name": spec.secret, "optional": True}}]
    if spec.resources is not None:
        container["resources"] = msgspec.to_builtins(spec.resources)
    if spec.security is not None:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if spec.storage is not None:
        container["volumeMounts"] = [{"name": VOLUME, "mountPath": spec.storage.mount_path}]
    return container


def _probe(spec: NetworkSpec) -> dict[str, Any]:
    probe = {"initialDelaySeconds": 5, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3}
    if spec.readiness == "Rest":
        return {**probe, "httpGet": {"path": _REST, "port": spec.rpc_port}}
    return {**probe, "exec": {"command": list(_CLI)}}
