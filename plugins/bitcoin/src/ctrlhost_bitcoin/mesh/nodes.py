"""The nodes of a network, as its pods show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.mesh.targets import is_ip
from ctrlhost_bitcoin.objects import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost.cache import Object


@dataclass(frozen=True, slots=True)
class Node:
    """One pod of the network, with an ordinal that the network has."""

    ordinal: int
    pod: str
    uid: str
    ip: str
    #: The pod is Ready and not on its way out.
    ready: bool
    running: bool
    #: Stands for the credentials that the pod was made with; None for a pod that does not say.
    digest: str | None
    #: Changes when the pod's containers do.
    containers: tuple[Any, ...]

    def entry(self, network: str) -> dict[str, Any]:
        """Give the node as the network's status lists it."""
        return {
            "ordinal": self.ordinal,
            "ready": self.ready,
            "ip": self.ip,
            "nodeName": self.pod,
            "dnsName": f"{self.pod}.{names.service_name(network)}",
        }


def read_nodes(
    network: str, count: int, stateful_set_uid: str | None, pod: Callable[[str], Object | None]
) -> list[Node]:
    """Read the pods of the ordinals below `count` that the StatefulSet controls; `pod` gives one by its name."""
    if stateful_set_uid is None:
        return []
    found = ((ordinal, pod(names.pod_name(network, ordinal))) for ordinal in range(count))
    return [
        _node(ordinal, each) for ordinal, each in found if each is not None and controller_uid(each) == stateful_set_uid
    ]


def reachable(nodes: Iterable[Node]) -> tuple[list[Node], list[tuple[Node, Node]]]:
    """Give the nodes that can be called, and those left out since they report the IP of one before, with that one."""
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


def controller_uid(obj: Object) -> str | None:
    """Give the uid of what controls an object."""
    return next((each.uid for each in obj.owner_references if each.controller), None)


def _node(ordinal: int, pod: Object) -> Node:
    return Node(
        ordinal=ordinal,
        pod=pod.name,
        uid=pod.uid,
        ip=pod.get_path("status", "podIP", default=""),
        ready=is_ready(pod) and pod.deletion_timestamp is None,
        running=pod.get_path("status", "phase", default="") == "Running",
        digest=pod.annotations.get(names.CREDENTIALS_ANNOTATION),
        containers=containers(pod),
    )


def is_ready(pod: Object) -> bool:
    """Say whether the pod's condition Ready is True."""
    conditions: Sequence[Mapping[str, Any]] = pod.get_path("status", "conditions", default=())
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def containers(pod: Object) -> tuple[Any, ...]:
    """Give what tells the pod's containers from those before a restart."""
    statuses: Sequence[Mapping[str, Any]] = pod.get_path("status", "containerStatuses", default=())
    return tuple((each.get("name"), each.get("restartCount"), each.get("containerID")) for each in statuses)
