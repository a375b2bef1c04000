"""The status of a Job: its conditions, and its ended pods, each counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.objects import condition

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.controllers.controller import Controller

_OMITTED = ("active", "succeeded", "failed", "completedIndexes", "conditions")
"""The fields that the real server leaves out if they are empty."""


def new_condition(name: str, reason: str, message: str, value: str = "True") -> dict[str, Any]:
    """Return a condition that begins now."""
    now = times.now()
    since = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"type": name, "status": value, **since, "reason": reason, "message": message}


class Tally:
    """Changes a Job's status, and writes it."""

    def __init__(self, controller: Controller, job: Object) -> None:
        """Continue with the stored status."""
        self.status: dict[str, Any] = job.setdefault("status", {})
        self._controller, self._job = controller, job
        self._uncounted: dict[str, list[str]] = self.status.setdefault("uncountedTerminatedPods", {})

    @property
    def is_settled(self) -> bool:
        """Whether every noted pod is counted."""
        return not any(self._uncounted.values())

    def noted(self, name: str) -> list[str]:
        """Return the uids of the pods that are noted as `succeeded` or `failed`, but not counted."""
        return self._uncounted.setdefault(name, [])

    def note(self, name: str, uid: str) -> None:
        """Note a pod, so that it is counted once it has lost its finalizer."""
        if uid not in self.noted(name):
            self.noted(name).append(uid)

    def count(self, tracked: set[str]) -> None:
        """Count the noted pods that are not in `tracked`."""
        for name, uids in list(self._uncounted.items()):
            left = [uid for uid in uids if uid in tracked]
            self.status[name] = self.status.get(name, 0) + len(uids) - len(left)
            self._uncounted[name] = left

    def total(self, name: str, new: int) -> int:
        """Return the number of `succeeded` or `failed` pods, with `new` ones that are not noted."""
        return int(self.status.get(name, 0)) + new + len(self.noted(name))

    def find(self, name: str) -> dict[str, Any] | None:
        """Return a condition that is True."""
        entry = condition({"status": self.status}, name)
        return dict(entry) if entry is not None and entry["status"] == "True" else None

    def set(self, new: dict[str, Any]) -> bool:
        """Set a condition; return whether it changed. One that would begin as False is not added."""
        conditions: list[dict[str, Any]] = self.status.setdefault("conditions", [])
        before = next((entry for entry in conditions if entry["type"] == new["type"]), None)
        if before is None:
            if new["status"] == "True":
                conditions.append(new)
            return bool(new["status"] == "True")
        if all(before.get(field) == new[field] for field in ("status", "reason", "message")):
            return False
        before.update(new)
        return True

    def finish(self, final: dict[str, Any]) -> None:
        """Set the last condition, and record it."""
        self.set(final)
        if final["type"] == "Complete":
            self.status["completionTime"] = final["lastTransitionTime"]
            self._controller.event(self._job, "Completed", "Job completed")
        else:
            self._controller.event(self._job, final["reason"], final["message"], warning=True)

    def write(self) -> None:
        """Write the status."""
        state = {name: value for name, value in self.status.items() if value or name not in _OMITTED}
        state["uncountedTerminatedPods"] = {name: uids for name, uids in self._uncounted.items() if uids}
        kind = self._controller.kind("batch", "Job")
        self._job["metadata"] = self._controller.update(kind, {**self._job, "status": state}, "status")["metadata"]
