"""The nodes of a network, read from its pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin import objects
from ctrlhost_bitcoin.mesh.targets import is_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctrlhost import Object


@dataclass(frozen=True, slots=True)
class Node:
    """One pod of the network whose ordinal is below the number of nodes."""

    ordinal: int
    pod: str
    uid: str
    ip: str
    #: The pod is Ready and not being deleted.
    ready: bool
    running: bool
    #: Digest of the credentials that the pod was created with; None for a pod without the annotation.
    digest: str | None
    #: Changes when the pod's containers do.
    containers: tuple[Any, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The uid and the IP of the pod."""
        return self.uid, self.ip

    def entry(self, network: str) -> dict[str, Any]:
        """Return the node's entry in the status of the network."""
        return {
            "ordinal": self.ordinal,
            "ready": self.ready,
            "ip": self.ip,
            "nodeName": self.pod,
            "dnsName": f"{self.pod}.{network}-svc",
        }


def read_nodes(network: str, count: int, stateful_set_uid: str, pods: Mapping[str, Object]) -> list[Node]:
    """Read the pods, by name, of the ordinals below `count` that the StatefulSet controls."""
    numbered = ((ordinal, pods.get(f"{network}-sts-{ordinal}")) for ordinal in range(count))
    return [
        _node(ordinal, pod)
        for ordinal, pod in numbered
        if pod is not None and pod.controller is not None and pod.controller.uid == stateful_set_uid
    ]


def reachable(nodes: Iterable[Node]) -> tuple[list[Node], list[tuple[Node, Node]]]:
    """Return the nodes that can be called, and the skipped ones with the earlier node that has the same IP."""
    kept: dict[str, Node] = {}
    twins = []
    for node in nodes:
        if not node.ready or not node.running or not is_ip(node.ip):
            continue
        if node.ip in kept:
            twins.append((node, kept[node.ip]))
        else:
            kept[node.ip] = node
    return list(kept.values()), twins


def _node(ordinal: int, pod: Object) -> Node:
    return Node(
        ordinal=ordinal,
        pod=pod.name,
        uid=pod.uid,
        ip=pod.get_path("status", "podIP", default=""),
        ready=is_ready(pod) and pod.deletion_timestamp is None,
        running=pod.get_path("status", "phase", default="") == "Running",
        digest=pod.annotations.get(objects.CREDENTIALS_ANNOTATION),
        containers=containers(pod),
    )


def is_ready(pod: Object) -> bool:
    """Return whether the pod's condition Ready is True."""
    conditions: Sequence[Mapping[str, Any]] = pod.get_path("status", "conditions", default=())
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def containers(pod: Object) -> tuple[Any, ...]:
    """Return what distinguishes the pod's containers from those before a restart."""
    statuses: Sequence[Mapping[str, Any]] = pod.get_path("status", "containerStatuses", default=())
    return tuple((status.get("name"), status.get("restartCount"), status.get("containerID")) for status in statuses)
