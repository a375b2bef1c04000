"""The Deployment controller: roll-outs over ReplicaSets."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.objects import share
from ctrlhost_sandbox.controllers.controller import Controller, Key, controller_of
from ctrlhost_sandbox.controllers.revisions import template_hash
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


class DeploymentController(Controller):
    """Keys are namespace and name of a Deployment."""

    name = "deployment"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed Deployment, and those of a namespace with a changed set."""
        if table.name == "apps/replicasets":
            deployments = self.context.store.table("apps/deployments").list(event.latest.namespace)
            return [deployment.key for deployment in deployments]
        return [event.latest.key] if table.name == "apps/deployments" else []

    def reconcile(self, key: Key) -> None:
        """Roll towards the set of the current template, within the strategy's bounds."""
        kind = self.kind("apps", "Deployment")
        deployment = self.read(kind, *key)
        if deployment is None or "deletionTimestamp" in deployment["metadata"]:
            return
        sets = self._sets(deployment)
        name = f"{key[1]}-{template_hash(deployment['spec']['template'])}"
        current = next((replica_set for replica_set in sets if replica_set["metadata"]["name"] == name), None)
        older = [replica_set for replica_set in sets if replica_set["metadata"]["name"] != name]
        if not deployment["spec"].get("paused"):
            current = self._current(deployment, name, current, sets)
            self._roll(deployment, current, older)
        elif current is not None:
            self._scale(current, deployment["spec"].get("replicas", 1))
        self._report(kind, key)

    def _sets(self, deployment: Object) -> list[Object]:
        metadata = deployment["metadata"]
        sets = self.listed(self.kind("apps", "ReplicaSet"), metadata["namespace"])
        return [replica_set for replica_set in sets if controller_of(replica_set) == metadata["uid"]]

    def _current(self, deployment: Object, name: str, current: Object | None, sets: list[Object]) -> Object:
        """Return the set of the current template, with the newest revision."""
        newest = max((_revision(replica_set) for replica_set in sets), default=0)
        kind = self.kind("apps", "ReplicaSet")
        if current is None:
            current = self.create(kind, deployment["metadata"]["namespace"], self._make(deployment, name, newest + 1))
        elif _revision(current) < newest:
            current["metadata"].setdefault("annotations", {})[REVISION] = str(newest + 1)
            current = self.update(kind, current)
        annotations = deployment["metadata"].get("annotations") or {}
        revision = str(_revision(current))
        if annotations.get(REVISION) != revision:
            deployment["metadata"]["annotations"] = {**annotations, REVISION: revision}
            # A status write does not raise the generation.
            deployment.update(self.update(self.kind("apps", "Deployment"), deployment, "status"))
        return current

    def _make(self, deployment: Object, name: str, revision: int) -> Object:
        template = copy.deepcopy(deployment["spec"]["template"])
        suffix = name.rpartition("-")[2]
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[HASH_LABEL] = suffix
        selector = copy.deepcopy(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})[HASH_LABEL] = suffix
        metadata = {
            "name": name,
            "labels": labels,
            "annotations": {REVISION: str(revision)},
            "ownerReferences": [meta.owner_reference(deployment)],
        }
        spec = {"replicas": 0, "selector": selector, "template": template}
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}

    def _roll(self, deployment: Object, current: Object, older: list[Object]) -> None:
        spec = deployment["spec"]
        wanted = spec.get("replicas", 1)
        others = sum(replica_set["spec"].get("replicas", 0) for replica_set in older)
        if spec["strategy"]["type"] == "Recreate":
            existing = _sum(older, "replicas")
            for replica_set in older:
                self._scale(replica_set, 0)
            if not existing:
                self._scale(current, wanted)
            return
        rolling = spec["strategy"].get("rollingUpdate") or {}
        surge = share(rolling.get("maxSurge", 1), wanted, up=True)
        unavailable = share(rolling.get("maxUnavailable", 0), wanted, up=False)
        if not surge and not unavailable:
            unavailable = 1
        self._scale(current, max(min(wanted, wanted + surge - others), 0))
        # Unavailable pods may be deleted at any time, available ones only down to the bound.
        spare = _sum([current, *older], "availableReplicas") - (wanted - unavailable)
        for replica_set in sorted(older, key=_revision):
            replicas = replica_set["spec"].get("replicas", 0)
            idle = max(replicas - _sum([replica_set], "availableReplicas"), 0)
            step = min(replicas, idle + max(spare, 0))
            spare -= max(step - idle, 0)
            self._scale(replica_set, replicas - step)
        self._forget(older, spec.get("revisionHistoryLimit", 10))

    def _scale(self, replica_set: Object, replicas: int) -> None:
        if replica_set["spec"].get("replicas", 0) != replicas:
            replica_set["spec"]["replicas"] = replicas
            replica_set.update(self.update(self.kind("apps", "ReplicaSet"), replica_set))

    def _forget(self, older: list[Object], limit: int) -> None:
        empty = [
            replica_set
            for replica_set in older
            if not replica_set["spec"].get("replicas") and not _sum([replica_set], "replicas")
        ]
        for replica_set in sorted(empty, key=_revision)[: max(len(empty) - limit, 0)]:
            self.delete(self.kind("apps", "ReplicaSet"), replica_set)

    def _report(self, kind: Any, key: Key) -> None:
        deployment = self.read(kind, *key)
        if deployment is None:
            return
        sets = self._sets(deployment)
        name = f"{key[1]}-{template_hash(deployment['spec']['template'])}"
        total = {field: _sum(sets, field) for field in ("replicas", "readyReplicas", "availableReplicas")}
        updated = _sum([replica_set for replica_set in sets if replica_set["metadata"]["name"] == name], "replicas")
        wanted = deployment["spec"].get("replicas", 1)
        missing = max(wanted - total["availableReplicas"], 0)
        desired = sum(replica_set["spec"].get("replicas", 0) for replica_set in sets)
        rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
        allowed = share(rolling.get("maxUnavailable", 0), wanted, up=False)
        unavailable = max(desired - total["availableReplicas"], 0)
        status = {**total, "updatedReplicas": updated, "unavailableReplicas": unavailable}
        done = updated == wanted == total["replicas"] and not missing
        before = {item["type"]: item for item in (deployment.get("status") or {}).get("conditions") or ()}
        good = missing <= allowed
        paused = deployment["spec"].get("paused")
        conditions = [
            _condition(
                before,
                "Available",
                "True" if good else "False",
                "MinimumReplicasAvailable" if good else "MinimumReplicasUnavailable",
                f"Deployment {'has' if good else 'does not have'} minimum availability.",
            ),
            _condition(before, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
            if paused
            else _condition(
                before,
                "Progressing",
                "True",
                "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
                f'ReplicaSet "{name}" {"has successfully progressed" if done else "is progressing"}.',
            ),
        ]
        if paused and not before:
            conditions.reverse()
        deployment["status"] = {
            **{field: value for field, value in status.items() if value},
            "terminatingReplicas": _sum(sets, "terminatingReplicas"),
            "observedGeneration": deployment["metadata"]["generation"],
            "conditions": _in_order(before, conditions),
        }
        self.update(kind, deployment, "status")


def _in_order(before: dict[str, Any], conditions: list[Object]) -> list[Object]:
    """Keep the order of conditions, with changed ones at the end."""

    def place(condition: Object) -> int:
        old = before.get(condition["type"])
        if old is None or any(old[field] != condition[field] for field in ("status", "reason")):
            return len(before)
        return list(before).index(condition["type"])

    return sorted(conditions, key=place)


def _sum(sets: list[Object], field: str) -> int:
    return sum((replica_set.get("status") or {}).get(field, 0) for replica_set in sets)


def _revision(replica_set: Object) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _condition(before: dict[str, Any], name: str, value: str, reason: str, message: str) -> dict[str, Any]:
    known = before.get(name)
    now = times.now()
    entry = {"type": name, "status": value, "reason": reason, "message": message}
    if known and all(known.get(key) == entry[key] for key in entry):
        return dict(known)
    since = known["lastTransitionTime"] if known and known["status"] == value else now
    return {**entry, "lastUpdateTime": now, "lastTransitionTime": since}
