"""StatefulSets: pods with stable names, one after the other."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.controllers import claims, revisions
from ctrlhost_sandbox.controllers.controller import Controller, Key
from ctrlhost_sandbox.controllers.set_claims import SetClaims

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSetController(Controller):
    """Keys are namespace and name of a StatefulSet."""

    name = "statefulset"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed set, and the set of a changed pod."""
        return claims.touched(self, "apps/statefulsets", table, event)

    def reconcile(self, key: Key) -> None:
        """Take the steps that the pods allow now, and update the status."""
        kind = self.kind("apps", "StatefulSet")
        stateful_set = self.read(kind, *key)
        if stateful_set is None or "deletionTimestamp" in stateful_set["metadata"]:
            return
        pods = claims.claim(self, stateful_set, lambda pod: _ordinal(stateful_set, pod) is not None)
        history = revisions.History(self, stateful_set)
        status = stateful_set.get("status") or {}
        current = history.named(status.get("currentRevision")) or history.newest
        step = _Pass(self, stateful_set, history, current, pods)
        if step.fill() and step.shrink() and stateful_set["spec"]["updateStrategy"]["type"] == "RollingUpdate":
            step.roll()
        left = claims.owned(self, stateful_set)
        self._report(stateful_set, left, current, history.newest)
        labelled = {pod["metadata"]["labels"].get(revisions.LABEL, "") for pod in left}
        history.forget(labelled | {current["metadata"]["name"], history.newest["metadata"]["name"]})
        soonest = min(
            (claims.available_in(pod, stateful_set["spec"].get("minReadySeconds", 0)) for pod in left), default=0.0
        )
        if 0 < soonest < math.inf:
            self.add_after(key, soonest)

    def _report(self, stateful_set: Object, pods: list[Object], current: Object, newest: Object) -> None:
        spec = stateful_set["spec"]
        seconds, wanted = spec.get("minReadySeconds", 0), spec.get("replicas", 1)

        def of(revision: Object) -> int:
            name = revision["metadata"]["name"]
            return sum(
                pod["metadata"]["labels"].get(revisions.LABEL) == name for pod in pods if not claims.is_going(pod)
            )

        ready = sum(map(claims.runs, pods))
        updated = of(newest)
        if spec["updateStrategy"]["type"] == "RollingUpdate" and updated == ready == len(pods) == wanted:
            current = newest
        counts = {"readyReplicas": ready, "currentReplicas": of(current), "updatedReplicas": updated}
        stateful_set["status"] = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "replicas": len(pods),
            **{name: count for name, count in counts.items() if count},
            "availableReplicas": sum(not claims.available_in(pod, seconds) for pod in pods),
            "currentRevision": current["metadata"]["name"],
            "updateRevision": newest["metadata"]["name"],
            "collisionCount": 0,
        }
        self.update(self.kind("apps", "StatefulSet"), stateful_set, "status")


class _Pass:
    """One reconcile of a set. A step that returns False defers the later ones."""

    def __init__(
        self,
        controller: StatefulSetController,
        stateful_set: Object,
        history: revisions.History,
        current: Object,
        pods: list[Object],
    ) -> None:
        self.set = stateful_set
        self._controller = controller
        self._history = history
        self._current = current
        self._kind = controller.kind("", "Pod")
        self._claims = SetClaims(controller, stateful_set)
        spec = stateful_set["spec"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        self._wanted = range(start, start + spec.get("replicas", 1))
        self._partition = start + (spec["updateStrategy"].get("rollingUpdate") or {}).get("partition", 0)
        self._ordered = spec["podManagementPolicy"] != "Parallel"
        self._ready_for = spec.get("minReadySeconds", 0)
        numbered = {ordinal: pod for pod in pods if (ordinal := _ordinal(stateful_set, pod)) is not None}
        self._replicas = {ordinal: pod for ordinal, pod in numbered.items() if ordinal in self._wanted}
        self._condemned = sorted(numbered.keys() - self._replicas.keys(), reverse=True)
        self._pods = numbered

    def fill(self) -> bool:
        """Create missing pods and replace finished ones, from the lowest ordinal."""
        for ordinal in self._wanted:
            pod = self._replicas.get(ordinal)
            if pod is None:
                pod = self._replicas[ordinal] = self._create(ordinal)
                if self._ordered:
                    return False
                continue
            if claims.has_ended(pod):
                # Its successor is created once it is deleted.
                if not claims.is_going(pod):
                    self._delete(pod)
                return False
            if self._ordered and not self._is_healthy(pod):
                return False
            self._identify(pod, ordinal)
            self._claims.update(pod, condemned=False)
        return True

    def shrink(self) -> bool:
        """Delete surplus pods, from the highest ordinal."""
        unhealthy = [
            ordinal
            for ordinal in sorted(self._pods, key=lambda number: (number not in self._wanted, number))
            if not self._is_healthy(self._pods[ordinal])
        ]
        for ordinal in self._condemned:
            pod = self._pods[ordinal]
            if claims.is_going(pod):
                if self._ordered:
                    return False
                continue
            if self._ordered and not self._is_healthy(pod) and ordinal != unhealthy[0]:
                return False
            self._claims.update(pod, condemned=True)
            self._delete(pod)
            if self._ordered:
                return False
        return True

    def roll(self) -> None:
        """Replace pods of other revisions, from the highest ordinal down to the partition."""
        name = self._history.newest["metadata"]["name"]
        for ordinal in reversed(self._wanted):
            if ordinal < self._partition:
                return
            pod = self._replicas[ordinal]
            outdated = pod["metadata"]["labels"].get(revisions.LABEL) != name
            if outdated and not claims.is_going(pod):
                self._delete(pod)
                return
            if not self._is_healthy(pod):
                return

    def _is_healthy(self, pod: Object) -> bool:
        return not claims.is_going(pod) and not claims.available_in(pod, self._ready_for)

    def _create(self, ordinal: int) -> Object:
        spec, metadata = self.set["spec"], self.set["metadata"]
        held = spec["updateStrategy"]["type"] == "RollingUpdate" and ordinal < self._partition
        revision = self._current if held else self._history.newest
        name = f"{metadata['name']}-{ordinal}"
        labels = {revisions.LABEL: revision["metadata"]["name"], **_identity(name, ordinal)}
        pod = claims.from_template(self.set, self._history.template(revision), name, **labels)
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        volumes = [template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or ()]
        if volumes:
            others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in volumes]
            claimed = [
                {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}} for volume in volumes
            ]
            pod["spec"]["volumes"] = others + claimed
        self._claims.create(name)
        created = self._controller.create(self._kind, metadata["namespace"], pod)
        self._record("Create", name)
        return created

    def _delete(self, pod: Object) -> None:
        self._controller.delete(self._kind, pod)
        self._record("Delete", pod["metadata"]["name"])

    def _record(self, verb: str, name: str) -> None:
        text = f"{verb.lower()} Pod {name} in StatefulSet {self.set['metadata']['name']} successful"
        self._controller.event(self.set, f"Successful{verb}", text)

    def _identify(self, pod: Object, ordinal: int) -> None:
        """Restore the identity labels of an adopted or modified pod."""
        metadata: dict[str, Any] = pod["metadata"]
        labels = metadata.setdefault("labels", {})
        expected = _identity(metadata["name"], ordinal)
        if not claims.is_going(pod) and not expected.items() <= labels.items():
            labels.update(expected)
            self._replicas[ordinal] = self._controller.update(self._kind, pod)


def _identity(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def _ordinal(stateful_set: Object, pod: Object) -> int | None:
    """Return a pod's ordinal; None if its name does not belong to the set."""
    match = re.fullmatch(r"(.+)-(0|[1-9][0-9]*)", pod["metadata"]["name"])
    return int(match[2]) if match and match[1] == stateful_set["metadata"]["name"] else None
