"""What makes a built-in object invalid: the rules that people run into, as small functions per kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.validation import pods, roles, services
from ctrlhost.sandbox.validation.fields import not_negative

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.registry.registry import Kind


def causes(kind: Kind, obj: Object, old: Object | None) -> list[Cause]:
    """Check what is not metadata."""
    check = _CHECKS.get((kind.group, kind.kind))
    found = check(obj) if check is not None else []
    if kind.kind == "IngressClass" and old is not None:
        found += _immutable(obj, old, "spec", "controller")
    elif kind.kind == "EndpointSlice" and old is not None:
        found += _immutable(obj, old, "addressType")
    elif kind.kind in ("RoleBinding", "ClusterRoleBinding") and old is not None:
        found += _immutable(obj, old, "roleRef")
    return found


def _immutable(obj: Object, old: Object, *path: str) -> list[Cause]:
    left: Any = obj
    right: Any = old
    for part in path:
        left, right = (left or {}).get(part), (right or {}).get(part)
    return [] if left == right else [status.invalid_value(".".join(path), left, "field is immutable")]


def _lease(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        found.append(status.invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return found + not_negative(spec, "leaseTransitions")


_RBAC = "rbac.authorization.k8s.io"
_CHECKS: Mapping[tuple[str, str], Callable[[Any], list[Cause]]] = {
    ("", "Pod"): pods.pod,
    ("", "Service"): services.service,
    ("apps", "Deployment"): pods.workload,
    ("apps", "ReplicaSet"): pods.workload,
    ("apps", "StatefulSet"): pods.workload,
    ("apps", "DaemonSet"): pods.workload,
    ("networking.k8s.io", "Ingress"): services.ingress,
    ("networking.k8s.io", "IngressClass"): services.ingress_class,
    ("coordination.k8s.io", "Lease"): _lease,
    ("discovery.k8s.io", "EndpointSlice"): services.endpoint_slice,
    (_RBAC, "Role"): roles.role,
    (_RBAC, "ClusterRole"): roles.role,
    (_RBAC, "RoleBinding"): roles.binding,
    (_RBAC, "ClusterRoleBinding"): roles.binding,
}
