"""Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.durations import age
from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.kinds.cells import NONE, created
from ctrlhost_sandbox.kinds.node import apply_class
from ctrlhost_sandbox.kinds.pod import spec as pod_spec
from ctrlhost_sandbox.kinds.pod import warnings as pod_warnings
from ctrlhost_sandbox.kinds.pod.gated import placed_as, placement_causes
from ctrlhost_sandbox.kinds.scheduling import set_priority
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


_ADMITTED = (
    "priority",
    "preemptionPolicy",
    "priorityClassName",
    "tolerations",
    "serviceAccountName",
    "serviceAccount",
    "overhead",
)


class _Pods(BuiltinStrategy):
    """Most of a pod's spec is immutable, and a scheduled pod is deleted in two steps."""

    kept_metadata = ("ownerReferences", "deletionTimestamp")
    graceful = True
    allocates = True
    defaults = (
        *below("spec", pod_spec.DEFAULTS),
        ("spec.enableServiceLinks", True),
        ("spec.serviceAccountName", "default"),
    )
    columns = "Ready Status Restarts Age IP:w Node:w Nominated_Node:w Readiness_Gates:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, status = obj["spec"], obj.get("status") or {}
        containers = status.get("containerStatuses") or ()
        ready = sum(1 for item in containers if item.get("ready") and "running" in (item.get("state") or {}))
        gates = spec.get("readinessGates") or ()
        met = f"{sum(is_true(obj, gate['conditionType']) for gate in gates)}/{len(gates)}" if gates else NONE
        addresses = status.get("podIPs") or ()
        return (
            f"{ready}/{len(spec.get('containers') or ())}",
            _reason(obj),
            _restarts(status),
            created(obj),
            addresses[0].get("ip") if addresses else status.get("podIP") or NONE,
            spec.get("nodeName") or NONE,
            status.get("nominatedNodeName") or NONE,
            met,
        )

    def default(self, obj: Object) -> None:
        """Set missing requests to the limits."""
        pod_spec.default(obj["spec"])
        for container in obj["spec"].get("containers") or ():
            limits = (container.get("resources") or {}).get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, value in limits.items():
                    requests.setdefault(name, value)

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the phase, the quality of service, and the fields that admission sets."""
        set_priority(context, operation, obj)
        apply_class(context, operation, obj)
        _tolerate(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Keep the priority that admission set."""
        for name in ("priority", "preemptionPolicy"):
            if name in old["spec"]:
                obj["spec"].setdefault(name, old["spec"][name])
        _tolerate(obj["spec"])

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Omit the fields that admission set."""
        spec = {key: value for key, value in obj["spec"].items() if key not in _ADMITTED or key in sent}
        if sent.get("tolerations"):
            spec["tolerations"] = sent["tolerations"]
        return {**obj, "spec": spec}

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the spec, and that only mutable fields change."""
        pod_warnings.warn(obj["spec"], None if old is None else old["spec"], "spec", operation.warnings)
        yield from pod_spec.causes(obj["spec"], "spec")
        if old is None:
            yield from _creation_causes(obj["spec"])
        elif not operation.subresource:
            yield from _update_causes(obj["spec"], old["spec"])

    def grace_period(self, obj: Object, wanted: int | None) -> int:
        """Return the grace period, 0 for a pod that does not run."""
        spec = obj.get("spec") or {}
        phase = (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        grace = spec.get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
        return 1 if grace < 0 else int(grace)


def _creation_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    if spec.get("ephemeralContainers"):
        yield status.forbidden_field("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        yield status.forbidden_field("spec.nodeName", text)


def _update_causes(spec: dict[str, Any], before: dict[str, Any]) -> Iterator[Cause]:
    """Check that only mutable fields change."""
    for field in ("containers", "initContainers"):
        containers = spec.get(field) or []
        if len(containers) != len(before.get(field) or ()):
            yield status.forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(containers):
            where, image = f"spec.{field}[{index}].image", container.get("image", "")
            if not image:
                yield status.required(where)
            elif image != image.strip():
                yield status.invalid_value(where, image, "must not have leading or trailing whitespace")
    deadline, old_deadline = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is not None and old_deadline is not None and deadline > old_deadline:
        text = "must be less than or equal to previous value"
        yield status.invalid_value("spec.activeDeadlineSeconds", deadline, text)
        return
    if deadline is None and old_deadline is not None:
        text = "must not update from a positive integer to nil value"
        yield status.invalid_value("spec.activeDeadlineSeconds", None, text)
    yield from _toleration_causes(spec.get("tolerations") or (), before.get("tolerations") or ())
    gates = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield status.forbidden_field(f"spec.schedulingGates[{index}].name", text)
    frozen = spec
    if gates:
        yield from placement_causes(spec, before)
        frozen = placed_as(spec, before)
    if _frozen(frozen, before) == _frozen(before, before):
        return
    text = (
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    yield status.forbidden_field("spec", text)


def _toleration_causes(tolerations: Sequence[Any], before: Sequence[Any]) -> Iterator[Cause]:
    """Check that tolerations are only added, or wait longer."""
    plain = [{**toleration, "tolerationSeconds": None} for toleration in tolerations]
    if any({**toleration, "tolerationSeconds": None} not in plain for toleration in before):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield status.forbidden_field("spec.tolerations", text)


def _tolerate(spec: dict[str, Any]) -> None:
    """Add the tolerations of unreachable nodes for five minutes."""
    tolerations = list(spec.get("tolerations") or ())
    for trouble in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{trouble}"
        if not any(
            item.get("key", "") in ("", key) and item.get("effect", "") in ("", "NoExecute") for item in tolerations
        ):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _frozen(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the immutable part; the grace period may become 1 if it was negative."""
    mutable = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        mutable.add("terminationGracePeriodSeconds")
    result = {key: value for key, value in spec.items() if key not in mutable}
    for key in ("containers", "initContainers"):
        if key in result:
            result[key] = [{**container, "image": ""} for container in result[key]]
    return result


def quality_of_service(spec: dict[str, Any]) -> str:
    """Return the QoS class of the containers' requests and limits."""
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


def _restarts(status: Object) -> str:
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    count = sum(item.get("restartCount", 0) for item in containers)
    finished = [((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "" for item in containers]
    last = max(finished, default="")
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def _reason(pod: Object) -> str:
    """Return a pod's status as tables show it."""
    spec, status = pod["spec"], pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "")
    initial = _initial(spec, status)
    if initial:
        reason = initial
    else:
        running = False
        for item in reversed(status.get("containerStatuses") or ()):
            state = item.get("state") or {}
            waiting, terminated = (state.get("waiting") or {}).get("reason"), state.get("terminated")
            if waiting:
                reason = waiting
            elif terminated is not None:
                reason = _ended(terminated)
            elif item.get("ready") and "running" in state:
                running = True
        if reason == "Completed" and running:
            reason = "Running" if is_true(pod, "Ready") else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _ended(terminated: Object, prefix: str = "") -> str:
    if terminated.get("reason"):
        return prefix + str(terminated["reason"])
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _initial(spec: Object, status: Object) -> str:
    """Return the state of the first unfinished init container; "" if there is none."""
    statuses = status.get("initContainerStatuses") or ()
    for index, item in enumerate(statuses):
        state = item.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if terminated is not None:
            return _ended(terminated, "Init:")
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(spec.get('initContainers') or ())}"
    return ""


STRATEGIES = {("", "Pod"): _Pods()}
