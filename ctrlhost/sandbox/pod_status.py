"""The cells of a pod's row; its status column tells more than its phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctrlhost.sandbox.apimachinery.durations import age

Object = Mapping[str, Any]
_NONE = "<none>"


def pod_cells(pod: Object) -> Sequence[Any]:
    """Give the cells behind the name."""
    spec, status = pod["spec"], pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    ready = sum(1 for item in containers if item.get("ready") and "running" in (item.get("state") or {}))
    gates = spec.get("readinessGates") or ()
    true = {item["type"] for item in status.get("conditions") or () if item["status"] == "True"}
    met = f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}" if gates else _NONE
    addresses = status.get("podIPs") or ()
    return (
        f"{ready}/{len(spec.get('containers') or ())}",
        pod_reason(pod),
        _restarts(status),
        age(pod["metadata"].get("creationTimestamp")),
        addresses[0].get("ip") if addresses else status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        met,
    )


def _restarts(status: Object) -> str:
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    count = sum(item.get("restartCount", 0) for item in containers)
    finished = [((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "" for item in containers]
    last = max(finished, default="")
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def pod_reason(pod: Object) -> str:
    """Sum up how a pod is doing."""
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
            ready = any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions") or ())
            reason = "Running" if ready else "NotReady"
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
    """Say what the first unfinished init container does; "" if there is none."""
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
