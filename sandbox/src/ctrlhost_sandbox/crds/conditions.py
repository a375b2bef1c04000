"""The conditions of a CRD's status, and the finalizer that keeps a CRD until its objects are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery import times

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def set_condition(crd: Object, name: str, value: str, reason: str, message: str) -> None:
    """Set a status condition; its transition time changes only with its value."""
    status = crd.setdefault("status", {})
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    before = conditions.get(name, {})
    since = before.get("lastTransitionTime") if before.get("status") == value else None
    entry = {"type": name, "status": value, "lastTransitionTime": since or times.now()}
    conditions[name] = {**entry, "reason": reason, "message": message}
    status["conditions"] = list(conditions.values())
