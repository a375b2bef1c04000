"""Failed pods of a Job: which count, what they mean for the Job, and how long their successors wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import clock, times
from ctrlhost_sandbox.apimachinery.objects import condition
from ctrlhost_sandbox.controllers import claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object

_FIRST_SECONDS = 10.0
_MAX_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """The failures since the last success."""

    failures: int = 0
    last: float = 0.0

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Backoff:
        """Return the back-off after more pods have ended."""
        ended = sorted(map(finished_at, failed))
        if succeeded:
            latest = max(map(finished_at, succeeded))
            ended = [at for at in ended if at > latest]
            return Backoff(len(ended), ended[-1] if ended else 0.0)
        return Backoff(self.failures + len(ended), ended[-1]) if ended else self

    def remaining(self) -> float:
        """Return the seconds until the next pod may start."""
        if not self.failures:
            return 0.0
        delay = min(_FIRST_SECONDS * 2.0 ** min(self.failures - 1, 10), _MAX_SECONDS)
        return max(self.last + delay - clock.time(), 0.0)


def finished_at(pod: Object) -> float:
    """Return when a pod ended: its last container, else its readiness, else its deletion."""
    states = [item.get("state") or {} for item in pod["status"].get("containerStatuses") or ()]
    ended: list[str] = [(state.get("terminated") or {}).get("finishedAt", "") for state in states]
    if ended and all(ended):
        return max(map(times.epoch, ended))
    ready, metadata = condition(pod, "Ready"), pod["metadata"]
    if ready and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return times.epoch(ready["lastTransitionTime"])
    if "deletionTimestamp" in metadata:
        return times.epoch(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds", 0))
    return times.epoch(metadata["creationTimestamp"])


def replaces_only_ended(job: Object) -> bool:
    """Return whether a pod that is being deleted is replaced only once it has ended."""
    return job["spec"].get("podReplacementPolicy") == "Failed" or bool(job["spec"].get("podFailurePolicy"))


def has_failed(pod: Object, job: Object) -> bool:
    """Return whether a pod has failed; one that is being deleted counts too, unless only ended ones are replaced."""
    phase = pod["status"].get("phase")
    return phase == "Failed" or (phase != "Succeeded" and claims.is_going(pod) and not replaces_only_ended(job))


def judge(job: Object, pod: Object) -> tuple[str, str]:
    """Return the action of the pod failure policy for a failed pod, "" without one, and the text for FailJob."""
    metadata = pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    for index, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        behind = f"matching {rule['action']} rule at index {index}"
        if rule.get("onExitCodes"):
            container = _container(pod, rule["onExitCodes"])
            if container is not None:
                code = container["state"]["terminated"]["exitCode"]
                text = f"Container {container['name']} for pod {name} failed with exit code {code} {behind}"
                return rule["action"], text
            continue
        patterns = [(pattern["type"], pattern.get("status", "True")) for pattern in rule.get("onPodConditions") or ()]
        for entry in pod["status"].get("conditions") or ():
            if (entry["type"], entry["status"]) in patterns:
                return rule["action"], f"Pod {name} has condition {entry['type']} {behind}"
    return "", ""


def counts(job: Object, pod: Object) -> bool:
    """Return whether a failed pod counts towards the limits."""
    return judge(job, pod)[0] != "Ignore"


def _container(pod: Object, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    status = pod["status"]
    for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (container.get("state") or {}).get("terminated")
        if not ended or not ended["exitCode"] or wanted.get("containerName") not in (None, container["name"]):
            continue
        if (ended["exitCode"] in (wanted.get("values") or ())) is (wanted["operator"] == "In"):
            return dict(container)
    return None
