"""The nodes that a pod may run on: its nodeSelector, and the node chosen by a DaemonSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

_FIELD = "metadata.name"


def selects(spec: dict[str, Any], node: Object) -> bool:
    """Return whether a pod's spec selects the node."""
    labels = node["metadata"].get("labels") or {}
    chosen = _chosen(spec)
    return (spec.get("nodeSelector") or {}).items() <= labels.items() and chosen in ("", node["metadata"]["name"])


def tolerates_cordon(spec: dict[str, Any]) -> bool:
    """Return whether a pod tolerates cordoned nodes, as those of DaemonSets do."""
    return any(
        toleration.get("key") == "node.kubernetes.io/unschedulable" for toleration in spec.get("tolerations") or ()
    )


def pin(pod: Object, node: str) -> None:
    """Restrict a pod to one node."""
    field = {"key": _FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = pod["spec"].setdefault("affinity", {})
    affinity.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = required


def node_of(pod: Object) -> str:
    """Return the node that a pod runs on or is restricted to."""
    return pod["spec"].get("nodeName") or _chosen(pod["spec"])


def _chosen(spec: dict[str, Any]) -> str:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == _FIELD and field.get("operator") == "In" and field.get("values"):
                return str(field["values"][0])
    return ""
