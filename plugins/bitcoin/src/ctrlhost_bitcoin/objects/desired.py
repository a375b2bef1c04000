"""What is made for a network: its headless Service and its StatefulSet, as far as the plugin has a say in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.objects import names

if TYPE_CHECKING:
    from ctrlhost_bitcoin.objects.spec import NetworkSpec

_CLI = ["/usr/local/bin/bitcoin-cli", "-regtest", "-conf=/bitcoin.conf", "getnetworkinfo"]
_REST = "/rest/chaininfo.json"


def service(spec: NetworkSpec) -> dict[str, Any]:
    """Give the Service that gives the pods their names, also before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(spec.name),
            "namespace": spec.namespace,
            "labels": names.labels(spec.name),
        },
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
    """Give the StatefulSet that runs the daemons; `digest` stands for their credentials."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": names.stateful_set_name(spec.name),
            "namespace": spec.namespace,
            "labels": names.labels(spec.name),
        },
        "spec": {
            "replicas": spec.nodes,
            "serviceName": names.service_name(spec.name),
            # In order, each pod would wait for the one before to be ready, so one broken node would block all others.
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


def _container(spec: NetworkSpec) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": names.container_name(spec.name),
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
    return container


def _probe(spec: NetworkSpec) -> dict[str, Any]:
    asked: dict[str, Any] = (
        {"httpGet": {"path": _REST, "port": spec.rpc_port}}
        if spec.readiness == "Rest"
        else {"exec": {"command": list(_CLI)}}
    )
    return {"initialDelaySeconds": 5, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3, **asked}
