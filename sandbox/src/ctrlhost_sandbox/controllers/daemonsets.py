"""DaemonSets: a pod on each matching node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.objects import share
from ctrlhost_sandbox.controllers import claims, placement, revisions
from ctrlhost_sandbox.controllers.controller import Controller, Key

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController(Controller):
    """Keys are namespace and name of a DaemonSet."""

    name = "daemonset"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed set, the set of a changed pod, and all sets for a changed node."""
        if table.name == "nodes":
            return [item.key for item in self.context.store.table("apps/daemonsets").list()]
        return claims.touched(self, "apps/daemonsets", table, event)

    def reconcile(self, key: Key) -> None:
        """Create missing pods, delete surplus ones, roll, and update the status."""
        kind = self.kind("apps", "DaemonSet")
        daemon_set = self.read(kind, *key)
        if daemon_set is None or "deletionTimestamp" in daemon_set["metadata"]:
            return
        history = revisions.History(self, daemon_set)
        nodes = [
            node["metadata"]["name"]
            for node in self.listed(self.kind("", "Node"))
            if placement.selects(daemon_set["spec"]["template"]["spec"], node)
        ]
        self._place(daemon_set, history, nodes, claims.claim(self, daemon_set))
        if daemon_set["spec"]["updateStrategy"]["type"] == "RollingUpdate":
            self._roll(daemon_set, history, nodes)
        left = claims.owned(self, daemon_set)
        self._report(daemon_set, history, nodes, left)
        hashes = {pod["metadata"]["labels"].get(revisions.LABEL, "") for pod in left}
        name = daemon_set["metadata"]["name"]
        history.forget({f"{name}-{digest}" for digest in hashes} | {history.newest["metadata"]["name"]})
        seconds = daemon_set["spec"].get("minReadySeconds", 0)
        waits = [wait for pod in left if 0 < (wait := claims.available_in(pod, seconds)) < float("inf")]
        if waits:
            self.add_after(key, min(waits))

    def _place(self, daemon_set: Object, history: revisions.History, nodes: list[str], pods: list[Object]) -> None:
        seen: set[str] = set()
        for pod in sorted(pods, key=lambda pod: (not claims.runs(pod), pod["metadata"]["creationTimestamp"])):
            node = placement.node_of(pod)
            # The successor of a pod that is going is created once it is deleted.
            if not claims.is_going(pod) and (node not in nodes or node in seen or claims.has_ended(pod)):
                claims.delete(self, daemon_set, pod)
            seen.add(node)
        for node in nodes:
            if node not in seen:
                self._create(daemon_set, history, node)

    def _roll(self, daemon_set: Object, history: revisions.History, nodes: list[str]) -> None:
        rolling = daemon_set["spec"]["updateStrategy"].get("rollingUpdate") or {}
        spare = max(share(rolling.get("maxUnavailable", 1), len(nodes), up=True), 1)
        newest = revisions.hash_of(history.newest["metadata"]["name"])
        seconds = daemon_set["spec"].get("minReadySeconds", 0)
        pods = claims.owned(self, daemon_set)
        down = [pod for pod in pods if claims.is_going(pod) or claims.available_in(pod, seconds)]
        old = [pod for pod in pods if pod["metadata"]["labels"].get(revisions.LABEL) != newest]
        spare -= len(down)
        for pod in old:
            # Unavailable pods may be replaced at once.
            if claims.is_going(pod) or (pod not in down and spare <= 0):
                continue
            spare -= pod not in down
            claims.delete(self, daemon_set, pod)

    def _create(self, daemon_set: Object, history: revisions.History, node: str) -> None:
        label = revisions.hash_of(history.newest["metadata"]["name"])
        name = f"{daemon_set['metadata']['name']}-"
        pod = claims.from_template(daemon_set, daemon_set["spec"]["template"], name, **{revisions.LABEL: label})
        placement.pin(pod, node)
        tolerations: list[Any] = pod["spec"].setdefault("tolerations", [])
        for trouble, effect in _TOLERATED:
            tolerations.append({"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": effect})
        claims.create(self, daemon_set, pod)

    def _report(self, daemon_set: Object, history: revisions.History, nodes: list[str], pods: list[Object]) -> None:
        newest = revisions.hash_of(history.newest["metadata"]["name"])
        seconds = daemon_set["spec"].get("minReadySeconds", 0)
        placed = [pod for pod in pods if pod["spec"].get("nodeName") in nodes]
        available = sum(not claims.available_in(pod, seconds) for pod in placed)
        optional = {
            "updatedNumberScheduled": sum(pod["metadata"]["labels"].get(revisions.LABEL) == newest for pod in placed),
            "numberAvailable": available,
            "numberUnavailable": len(nodes) - available,
        }
        daemon_set["status"] = {
            "currentNumberScheduled": len({pod["spec"]["nodeName"] for pod in placed}),
            "numberMisscheduled": len(pods) - len(placed) - sum(not pod["spec"].get("nodeName") for pod in pods),
            "desiredNumberScheduled": len(nodes),
            "numberReady": sum(map(claims.runs, placed)),
            "observedGeneration": daemon_set["metadata"]["generation"],
            **{name: count for name, count in optional.items() if count},
        }
        self.update(self.kind("apps", "DaemonSet"), daemon_set, "status")
