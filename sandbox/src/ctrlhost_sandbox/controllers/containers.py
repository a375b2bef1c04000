"""The status of pods whose containers run nothing: started, ready, ended, restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

READY_ANNOTATION = "sandbox.ctrlhost.dev/ready"
"""`false` keeps a pod from becoming ready."""
EXIT_CODE_ANNOTATION = "sandbox.ctrlhost.dev/exit-code"
"""The exit code of all containers, 0 by default."""
RUN_ANNOTATION = "sandbox.ctrlhost.dev/run-seconds"
"""The run time of a pod, instead of the sandbox's option."""
TERMINATED = 143
"""The exit code of containers that are stopped."""


def annotation(pod: Object, name: str, otherwise: str) -> str:
    """Return an annotation's value."""
    return str((pod["metadata"].get("annotations") or {}).get(name, otherwise))


def number(pod: Object, name: str, otherwise: float) -> float:
    """Return an annotation's number; a malformed one is treated as unset."""
    try:
        return max(float(annotation(pod, name, "")), 0.0)
    except ValueError:
        return otherwise


def has_readiness_probe(pod: Object) -> bool:
    """Return whether a container has a readiness probe; other pods are ready as soon as they run."""
    return any("readinessProbe" in container for container in pod["spec"]["containers"])


def is_held(pod: Object) -> bool:
    """Return whether an annotation keeps the pod from becoming ready."""
    return annotation(pod, READY_ANNOTATION, "true") == "false"


def ends(pod: Object) -> bool:
    """Return whether the pod's containers are not restarted forever."""
    return bool(pod["spec"].get("restartPolicy", "Always") != "Always")


def is_waiting(pod: Object) -> bool:
    """Return whether failed containers wait for their restart."""
    return any("waiting" in (item.get("state") or {}) for item in pod["status"].get("containerStatuses") or ())


def start(pod: Object, address: str) -> None:
    """Make a pending pod run, unready."""
    status, now = pod["status"], times.now()
    status.update(
        phase="Running",
        hostIP="127.0.0.1",
        hostIPs=[{"ip": "127.0.0.1"}],
        podIP=address,
        podIPs=[{"ip": address}],
        startTime=now,
        containerStatuses=[
            {
                "name": item["name"],
                "image": item["image"],
                "imageID": f"sandbox://{item['image']}",
                "containerID": f"sandbox://{meta.new_uid()}",
                "ready": False,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for item in pod["spec"]["containers"]
        ],
    )
    for name in ("Initialized", "PodReadyToStartContainers"):
        set_condition(status, name, value=True)
    for name in ("ContainersReady", "Ready"):
        set_condition(status, name, value=False)


def set_ready(pod: Object, *, ready: bool) -> None:
    """Set the readiness of a running pod; its containers may be ready while its gates are not."""
    status, held = pod["status"], is_held(pod)
    for item in status.get("containerStatuses") or ():
        item["ready"] = not held
    set_condition(status, "ContainersReady", value=not held)
    set_condition(status, "Ready", value=ready)


def end(pod: Object, code: int) -> None:
    """End all containers and the pod: it has succeeded or failed."""
    status = pod["status"]
    _stop(status, code)
    status["phase"] = "Failed" if code else "Succeeded"
    reason = "PodFailed" if code else "PodCompleted"
    set_condition(status, "PodReadyToStartContainers", value=False)
    if not code:
        set_condition(status, "Initialized", value=True, reason=reason)
    for name in ("Ready", "ContainersReady"):
        set_condition(status, name, value=False, reason=reason)


def crash(pod: Object, code: int) -> None:
    """End all containers, which then wait for their restart."""
    status = pod["status"]
    _stop(status, code)
    for item in status["containerStatuses"]:
        item["lastState"] = item["state"]
        text = f"back-off restarting failed container={item['name']} pod={pod['metadata']['name']}"
        item["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    for name in ("Ready", "ContainersReady"):
        set_condition(status, name, value=False, reason="ContainersNotReady")


def restart(pod: Object) -> None:
    """Run crashed containers again."""
    for item in pod["status"]["containerStatuses"]:
        state = {"running": {"startedAt": times.now()}}
        item.update(state=state, started=True, restartCount=item["restartCount"] + 1)
        item["containerID"] = f"sandbox://{meta.new_uid()}"


def restarts(pod: Object) -> int:
    """Return how often the pod's containers were restarted, at most."""
    return max((item.get("restartCount", 0) for item in pod["status"].get("containerStatuses") or ()), default=0)


def _stop(status: Any, code: int) -> None:
    now = times.now()
    for item in status.get("containerStatuses") or ():
        running = (item.get("state") or {}).get("running") or {}
        ended = {
            "containerID": item.get("containerID", ""),
            "exitCode": code,
            "finishedAt": now,
            "reason": "Error" if code else "Completed",
            "startedAt": running.get("startedAt", now),
        }
        item.update(ready=False, started=False, state={"terminated": ended})


def set_condition(status: Any, name: str, *, value: bool, reason: str = "") -> None:
    """Set a condition; its time changes with its value."""
    text = "True" if value else "False"
    conditions = status.setdefault("conditions", [])
    entry = next((item for item in conditions if item["type"] == name), None)
    if entry is None:
        entry = {"type": name, "status": "", "lastProbeTime": None}
        conditions.append(entry)
    if entry["status"] != text:
        entry.update(status=text, lastTransitionTime=times.now())
    entry.pop("reason", None)
    if reason:
        entry["reason"] = reason
