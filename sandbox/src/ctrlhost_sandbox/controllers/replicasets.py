"""The controllers of ReplicaSets and ReplicationControllers: the number of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.controllers import claims
from ctrlhost_sandbox.controllers.controller import Controller, Key

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table


class ReplicaSetController(Controller):
    """Keys are namespace and name of a ReplicaSet."""

    name = "replicaset"
    owners = ("apps", "ReplicaSet", "apps/replicasets")
    """The group, kind and table."""

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed set, and the sets affected by a changed pod."""
        return claims.touched(self, self.owners[2], table, event)

    def reconcile(self, key: Key) -> None:
        """Create or delete pods to match the replicas, and update the status."""
        replica_set = self.read(self.kind(*self.owners[:2]), *key)
        if replica_set is None or "deletionTimestamp" in replica_set["metadata"]:
            return
        mine = self._claim(replica_set)
        living = [pod for pod in mine if not claims.is_going(pod) and not claims.has_ended(pod)]
        wanted = replica_set["spec"].get("replicas", 1)
        for _ in range(wanted - len(living)):
            pod = claims.from_template(replica_set, replica_set["spec"]["template"], f"{key[1]}-")
            living.append(claims.create(self, replica_set, pod))
        # Delete the youngest that are not ready first.
        living.sort(key=lambda pod: (not is_true(pod, "Ready"), pod["metadata"]["creationTimestamp"]), reverse=True)
        surplus = max(len(living) - wanted, 0)
        for pod in living[:surplus]:
            claims.delete(self, replica_set, pod)
        self._report(replica_set, living[surplus:])

    def _claim(self, replica_set: Object) -> list[Object]:
        return claims.claim(self, replica_set)

    def _report(self, replica_set: Object, pods: list[Object]) -> None:
        ready = sum(is_true(pod, "Ready") for pod in pods)
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": replica_set["metadata"]["generation"],
        }
        kept = {"replicas", "observedGeneration"}
        replica_set["status"] = {key: value for key, value in status.items() if value or key in kept}
        self.update(self.kind(*self.owners[:2]), replica_set, "status")


class ReplicationControllerController(ReplicaSetController):
    """Keys are namespace and name of a ReplicationController, whose selector is a map of labels."""

    name = "replicationcontroller"
    owners = ("", "ReplicationController", "replicationcontrollers")

    def _claim(self, replica_set: Object) -> list[Object]:
        labels = {"matchLabels": replica_set["spec"]["selector"]}
        return claims.claim(self, {**replica_set, "spec": {**replica_set["spec"], "selector": labels}})
