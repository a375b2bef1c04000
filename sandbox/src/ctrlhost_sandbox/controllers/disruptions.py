"""PodDisruptionBudgets: how many of their pods are healthy, as upstream's disruption controller counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.api import scaling
from ctrlhost_sandbox.apimachinery import clock, times
from ctrlhost_sandbox.apimachinery.objects import is_true, share
from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.controllers import claims
from ctrlhost_sandbox.controllers.controller import Controller, Key, owner_of

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

TABLE = "policy/poddisruptionbudgets"
_SCALED = ("apps/replicasets", "apps/statefulsets", "apps/deployments", "replicationcontrollers")
_DELETION_SECONDS = 120.0
"""How long an evicted pod counts as disrupted if it is not deleted."""


class DisruptionController(Controller):
    """Keys are namespace and name of a budget."""

    name = "disruption"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed budget, those that select a changed pod, and all of a namespace with a changed scale."""
        latest = event.latest
        if table.name == TABLE:
            return [latest.key]
        if table.name != "pods" and table.name not in _SCALED:
            return []
        return [item.key for item in self.context.store.table(TABLE).list(latest.namespace)]

    def reconcile(self, key: Key) -> None:
        """Count the pods, and update the status."""
        budget = self.read(self.kind("policy", "PodDisruptionBudget"), *key)
        if budget is None:
            return
        selector = (budget.get("spec") or {}).get("selector")
        pods = self.listed(self.kind("", "Pod"), key[0])
        pods = [pod for pod in pods if match_selector(selector, pod["metadata"].get("labels") or {})]
        old = budget.get("status") or {}
        disrupted = self._disrupted(old.get("disruptedPods") or {}, pods, key)
        try:
            expected, wanted = self._expected(budget, pods)
        except LookupError as error:
            self._report(budget, {**old, "disruptionsAllowed": 0}, "SyncFailed", str(error.args[0]))
            return
        healthy = sum(
            not claims.is_going(pod) and pod["metadata"]["name"] not in disrupted and is_true(pod, "Ready")
            for pod in pods
        )
        allowed = max(healthy - wanted, 0) if expected else 0
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": wanted,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget["metadata"]["generation"],
            "conditions": old.get("conditions") or [],
            **({"disruptedPods": disrupted} if disrupted else {}),
        }
        self._report(budget, status, "SufficientPods" if allowed else "InsufficientPods")

    def _disrupted(self, known: dict[str, str], pods: list[Object], key: Key) -> dict[str, str]:
        """Return the pods that were evicted but are not being deleted yet, for a while."""
        disrupted: dict[str, str] = {}
        for pod in pods:
            since = known.get(pod["metadata"]["name"])
            if since is None or claims.is_going(pod):
                continue
            left = times.epoch(since) + _DELETION_SECONDS - clock.time()
            if left > 0:
                disrupted[pod["metadata"]["name"]] = since
                self.add_after(key, left)
        return disrupted

    def _expected(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """Return the expected and the wanted number of pods; LookupError if a pod's owner has no scale."""
        spec = budget.get("spec") or {}
        if "maxUnavailable" in spec:
            expected = self._scale(pods)
            return expected, max(expected - share(spec["maxUnavailable"], expected, up=True), 0)
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(pods)
        return expected, share(least, expected, up=True)

    def _scale(self, pods: list[Object]) -> int:
        """Return the sum of the replicas of the pods' owners."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = owner_of(pod)
            if owner is None or owner["uid"] in scales:
                continue
            controller = self._owner(owner, pod["metadata"]["namespace"])
            outer = None if controller is None else owner_of(controller)
            if owner["kind"] == "ReplicaSet" and outer is not None and outer["kind"] == "Deployment":
                owner, controller = outer, self._owner(outer, pod["metadata"]["namespace"])
            kind = None if controller is None else self._find_kind(owner)
            if controller is None or kind is None or kind.scale is None:
                raise LookupError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            scales[owner["uid"]] = scaling.scale_of(kind, controller)["spec"].get("replicas", 0)
        return sum(scales.values())

    def _owner(self, owner: dict[str, Any], namespace: str) -> Object | None:
        kind = self._find_kind(owner)
        obj = None if kind is None else self.read(kind, namespace, owner["name"])
        return obj if obj is not None and obj["metadata"]["uid"] == owner["uid"] else None

    def _find_kind(self, owner: dict[str, Any]) -> Any:
        group, _, version = owner["apiVersion"].rpartition("/")
        return self.context.registry.find_kind(group, version, owner["kind"])

    def _report(self, budget: Object, status: dict[str, Any], reason: str, message: str = "") -> None:
        value = "True" if reason == "SufficientPods" else "False"
        known = next(
            (condition for condition in status.get("conditions") or () if condition["type"] == "DisruptionAllowed"),
            None,
        )
        since = known["lastTransitionTime"] if known and known["status"] == value else times.now()
        new = {
            "type": "DisruptionAllowed",
            "status": value,
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        others = [condition for condition in status.get("conditions") or () if condition is not known]
        budget["status"] = {**status, "conditions": [*others, new]}
        self.update(self.kind("policy", "PodDisruptionBudget"), budget, "status")
