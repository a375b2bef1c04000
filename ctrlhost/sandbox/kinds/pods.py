"""Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call

_MUTABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")

_ADMITTED = ("priority", "preemptionPolicy", "tolerations", "serviceAccountName", "serviceAccount")


class Pods(BuiltinStrategy):
    """A pod's spec hardly changes, and a scheduled pod is deleted in two steps."""

    kept_metadata = ("ownerReferences", "deletionTimestamp")
    graceful = True
    hands_out = True

    def prepare_create(self, engine: Engine, call: Call, obj: Object) -> None:
        """Set the first phase and the quality of service, and what admission gives every pod."""
        _admit(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}

    def prepare_update(self, engine: Engine, call: Call, obj: Object, old: Object) -> None:
        """Keep the priority that admission gave."""
        for name in ("priority", "preemptionPolicy"):
            if name in old["spec"]:
                obj["spec"].setdefault(name, old["spec"][name])

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Leave out what admission gave: its creator did not ask for it."""
        spec = {key: value for key, value in obj["spec"].items() if key not in _ADMITTED or key in sent}
        if sent.get("tolerations"):
            spec["tolerations"] = sent["tolerations"]
        return {**obj, "spec": spec}

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """Allow only the changes that a running pod can take."""
        if old is None or call.subresource:
            return []
        left, right = _frozen(obj["spec"]), _frozen(old["spec"])
        if left == right:
            return []
        text = (
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        return [status.forbidden_field("spec", text)]

    def grace_period(self, obj: Object, wanted: int | None) -> int:
        """Give no time to a pod that runs nowhere."""
        spec = obj.get("spec") or {}
        phase = (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        grace = spec.get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
        return 1 if grace < 0 else int(grace)


def _admit(spec: dict[str, Any]) -> None:
    """Give a pod its priority, and five minutes on a node that does not answer."""
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = list(spec.get("tolerations") or ())
    for trouble in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{trouble}"
        if not any(
            item.get("key", "") in ("", key) and item.get("effect", "") in ("", "NoExecute") for item in tolerations
        ):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _frozen(spec: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for key in ("containers", "initContainers"):
        if key in result:
            result[key] = [{**container, "image": ""} for container in result[key]]
    return result


def quality_of_service(spec: dict[str, Any]) -> str:
    """Derive the class from the containers' requests and limits."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(item.get("requests") or item.get("limits") for item in resources):
        return "BestEffort"
    for item in resources:
        limits, requests = item.get("limits") or {}, item.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"
