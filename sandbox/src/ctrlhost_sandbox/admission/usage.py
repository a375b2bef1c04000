"""What an object uses of a quota, and which objects a quota is about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import pod_resources
from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.apimachinery.status import qualified
from ctrlhost_sandbox.kinds.pods import quality_of_service
from ctrlhost_sandbox.schema.quantities import Amounts, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.registry.registry import Kind

_COUNTED = frozenset(
    {"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
"""Kinds that quotas also count under their plural alone."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_HUGE = "hugepages-"
_CLASS = ".storageclass.storage.k8s.io/"
_ENDED = ("Succeeded", "Failed")
ONE = Quantity.parse("1")
IGNORED = ("events",)
"""Tables that no quota counts."""


def count_name(kind: Kind) -> str:
    """Return the name under which a quota counts the objects of a kind."""
    return f"count/{qualified(kind.plural, kind.group)}"


def counts(kind: Kind, names: Iterable[str]) -> list[str]:
    """Return the resources among `names` that objects of this kind use."""
    return [name for name in names if _is_used_by(kind, name)]


def _is_used_by(kind: Kind, name: str) -> bool:
    if name == count_name(kind) or (not kind.group and name == kind.plural and name in _COUNTED):
        return True
    if kind.table == "pods":
        plain = name.removeprefix("requests.")
        extended = "/" in plain and plain != name and "kubernetes.io/" not in plain.rpartition("/")[0] + "/"
        return plain in _COMPUTE or name.removeprefix("limits.") in _COMPUTE or plain.startswith(_HUGE) or extended
    if kind.table == "services":
        return name in ("services.nodeports", "services.loadbalancers")
    if kind.table == "persistentvolumeclaims":
        return name.rpartition(_CLASS)[2] in ("persistentvolumeclaims", "requests.storage")
    return False


def usage(kind: Kind, obj: Object) -> Amounts:
    """Return what an object uses."""
    amounts = {count_name(kind): ONE}
    if kind.table == "pods":
        return amounts | (_pod(obj) if _is_charged(obj) else {})
    if not kind.group and kind.plural in _COUNTED:
        amounts[kind.plural] = ONE
    if kind.table == "services":
        amounts |= _service(obj["spec"])
    elif kind.table == "persistentvolumeclaims":
        amounts |= _claim(obj)
    return amounts


def _is_charged(pod: Object) -> bool:
    """Return whether a pod still counts: not after its end, and not beyond its grace period."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return False
    metadata = pod["metadata"]
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return not deleted or grace is None or time.time() <= times.epoch(deleted) + grace


def _pod(pod: Object) -> Amounts:
    spec = pod["spec"]
    parts = (pod_resources.total(spec, part, overhead=True) for part in ("requests", "limits"))
    return {"pods": ONE, **of_resources(*parts)}


def of_resources(requests: Amounts, limits: Amounts) -> Amounts:
    """Return requests and limits under the names that quotas use."""
    amounts: Amounts = {}
    for name, quantity in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE):
            amounts[name] = quantity
        if name in _COMPUTE or name.startswith(_HUGE) or "/" in name:
            amounts[f"requests.{name}"] = quantity
    return amounts | {f"limits.{name}": quantity for name, quantity in limits.items() if name in _COMPUTE}


def _service(spec: dict[str, Any]) -> Amounts:
    ports = spec.get("ports") or ()
    balanced = spec.get("type") == "LoadBalancer"
    number = len(ports) if balanced or spec.get("type") == "NodePort" else 0
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        number = sum(1 for port in ports if port.get("nodePort"))
    return {
        "services.nodeports": Quantity.parse(str(number)),
        "services.loadbalancers": ONE if balanced else Quantity(),
    }


def _claim(claim: Object) -> Amounts:
    spec, metadata = claim["spec"], claim["metadata"]
    amounts: Amounts = {}
    own = (metadata.get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    storage_class = own or spec.get("storageClassName")
    requested = pod_resources.of_container(spec, "requests").get("storage")
    if storage_class:
        amounts[f"{storage_class}{_CLASS}persistentvolumeclaims"] = ONE
    if requested is not None:
        amounts["requests.storage"] = requested
        if storage_class:
            amounts[f"{storage_class}{_CLASS}requests.storage"] = requested
    return amounts


def in_scope(quota: Object, kind: Kind, obj: Object) -> bool:
    """Return whether all scopes of a quota select an object."""
    spec = quota["spec"]
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_selects(scope, kind, obj) for scope in scopes)


def _selects(scope: dict[str, Any], kind: Kind, obj: Object) -> bool:
    name = scope.get("scopeName")
    if kind.table == "persistentvolumeclaims" and name == "VolumeAttributesClass":
        return _matches(scope, *_attributes_classes(obj))
    if kind.table != "pods":
        return False
    spec = obj["spec"]
    if name == "PriorityClass":
        return _matches(scope, *filter(None, [spec.get("priorityClassName")]))
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec)
    if name in ("Terminating", "NotTerminating"):
        return is_terminating(obj) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (quality_of_service(spec) == "BestEffort") is (name == "BestEffort")
    return False


def is_terminating(pod: Object) -> bool:
    """Return whether a pod has a deadline."""
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _attributes_classes(claim: Object) -> set[str]:
    """Return the classes that a claim names, has, or is being given."""
    state = claim.get("status") or {}
    target = (state.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (claim["spec"].get("volumeAttributesClassName"), state.get("currentVolumeAttributesClassName"), target)
    return {name for name in names if name}


def _matches(scope: dict[str, Any], *names: str) -> bool:
    """Return whether a scope selects one of the names, or the absence of any."""
    requirement = {"key": "name", "operator": scope.get("operator"), "values": scope.get("values")}
    selector = {"matchExpressions": [requirement]}
    return any(match_selector(selector, labels) for labels in [{"name": name} for name in names] or [{}])


def _crosses_namespaces(spec: dict[str, Any]) -> bool:
    affinity = spec.get("affinity") or {}
    for part in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(part) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
