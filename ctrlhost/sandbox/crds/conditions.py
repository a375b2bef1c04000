"""The conditions of a CRD's status, and the finalizer that keeps a CRD until its objects are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery import times

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def set_condition(crd: Object, name: str, value: str, reason: str, message: str) -> None:
    """Set a status condition; its transition time changes only with its value."""
    status = crd.setdefault("status", {})
    conditions = [dict(item) for item in status.get("conditions") or ()]
    entry = {"type": name, "status": value, "lastTransitionTime": times.now(), "reason": reason, "message": message}
    for index, found in enumerate(conditions):
        if found.get("type") == name:
            if found.get("status") == value:
                entry["lastTransitionTime"] = found.get("lastTransitionTime", entry["lastTransitionTime"])
            conditions[index] = entry
            break
    else:
        conditions.append(entry)
    status["conditions"] = conditions


def begin_deletion(crd: Object) -> None:
    """Mark a CRD whose deletion begins."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(crd, "Terminating", "True", "InstanceDeletionPending", text)
