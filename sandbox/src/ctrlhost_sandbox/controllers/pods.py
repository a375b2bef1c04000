"""A scheduler and a kubelet that run nothing: pods are bound, start, become ready and stop after the chosen delays.

Each can be disabled: then another client binds the pods, or writes their status.
"""

from __future__ import annotations

import ipaddress
import itertools
from typing import TYPE_CHECKING

from ctrlhost_sandbox.api import subresources
from ctrlhost_sandbox.apimachinery import clock
from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.controllers import containers, placement, volumes
from ctrlhost_sandbox.controllers.controller import Controller, Key

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.storage.store import Event, Table


class PodController(Controller):
    """Keys are namespace and name."""

    name, parts = "kubelet", frozenset({"scheduler", "kubelet"})

    def __init__(self, context: ServerContext) -> None:
        """Create empty allocations of addresses."""
        super().__init__(context)
        self._since: dict[tuple[str, str], float] = {}
        self._addresses: dict[str, str] = {}
        self._serials = itertools.count()

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed pod, and the unscheduled pods for a changed node or claim."""
        if table.name in ("nodes", volumes.CLAIMS):
            pods = self.context.store.table("pods").list(event.latest.namespace or None)
            return [pod.key for pod in pods if b'"nodeName"' not in pod.raw]
        if table.name != "pods":
            return []
        if event.new is None:
            self._addresses.pop(event.latest.uid, None)
        return [event.latest.key]

    def reconcile(self, key: Key) -> None:
        """Advance a pod by one step, or enqueue it for when the step is due."""
        kind = self.kind("", "Pod")
        pod = self.read(kind, *key)
        if pod is None:
            return
        spec, status = pod["spec"], pod["status"]
        options = self.context.options
        if not spec.get("nodeName"):
            if "scheduler" in options.controllers:
                self._schedule(pod)
        elif "kubelet" not in options.controllers:
            return
        elif "deletionTimestamp" in pod["metadata"]:
            grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
            left = grace or status.get("phase") in ("Pending", "Running")
            if left and self._due(pod, "stop", min(grace, options.pod_stop_delay), key):
                self._stop(pod)
        elif status.get("phase") == "Pending":
            if self._due(pod, "start", options.pod_start_delay, key):
                self._start(pod)
        elif status.get("phase") == "Running":
            self._run(pod, key)

    def _due(self, pod: Object, step: str, delay: float, key: Key) -> bool:
        """Return whether a step's delay is over; if not, enqueue the key for then."""
        mark = (pod["metadata"]["uid"], step)
        began = self._since.setdefault(mark, clock.now())
        left = began + delay - clock.now()
        if left > 0.001:
            self.add_after(key, left)
            return False
        self._since.pop(mark, None)
        return True

    def _schedule(self, pod: Object) -> None:
        if pod["spec"].get("schedulerName", "default-scheduler") != "default-scheduler":
            return
        if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("schedulingGates"):
            return
        if not self._has_volumes(pod):
            return
        for node in self.listed(self.kind("", "Node")):
            cordoned = (node.get("spec") or {}).get("unschedulable") and not placement.tolerates_cordon(pod["spec"])
            if not cordoned and placement.selects(pod["spec"], node):
                namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
                operation = self.operation("create", self.kind("", "Pod"), namespace, name)
                subresources.bind(self.context, operation, node["metadata"]["name"])
                text = f"Successfully assigned {namespace}/{name} to {node['metadata']['name']}"
                self.event(pod, "Scheduled", text, "default-scheduler")
                return

    def _has_volumes(self, pod: Object) -> bool:
        """Return whether all claims of a pod are bound, unless no controller binds them."""
        if "persistentvolume" not in self.context.options.controllers:
            return True
        kind, namespace = self.kind("", "PersistentVolumeClaim"), pod["metadata"]["namespace"]
        stored = [self.read(kind, namespace, name) for name in volumes.claims_of(pod)]
        return all(claim is not None and claim["status"].get("phase") == "Bound" for claim in stored)

    def _address(self, uid: str) -> str:
        """Return a pod's address, allocated if missing; freed ones are reused last."""
        if uid not in self._addresses:
            network, taken = ipaddress.ip_network(self.context.options.pod_cidr), set(self._addresses.values())
            offsets = (serial % (network.num_addresses - 2) + 1 for serial in self._serials)
            addresses = (str(network[offset]) for offset in offsets)
            self._addresses[uid] = next(address for address in addresses if address not in taken)
        return self._addresses[uid]

    def _start(self, pod: Object) -> None:
        containers.start(pod, self._address(pod["metadata"]["uid"]))
        if not containers.has_readiness_probe(pod):
            containers.set_ready(pod, ready=_should_be_ready(pod))
        self._write(pod)
        for item in pod["spec"]["containers"]:
            self.event(pod, "Started", f"Started container {item['name']}", "kubelet")

    def _run(self, pod: Object, key: Key) -> None:
        """Advance a running pod: it becomes ready or unready, and may end."""
        options = self.context.options
        if containers.is_waiting(pod):
            if self._due(pod, "restart", _restart_delay(containers.restarts(pod)), key):
                containers.restart(pod)
                self._write(pod)
            return
        wanted = _should_be_ready(pod)
        changes = wanted is not is_true(pod, "Ready")
        if changes and (not wanted or self._due(pod, "ready", options.pod_ready_delay, key)):
            containers.set_ready(pod, ready=wanted)
            self._write(pod)
        elif containers.ends(pod):
            seconds = containers.number(pod, containers.RUN_ANNOTATION, options.pod_run_delay)
            if self._due(pod, "run", seconds, key):
                self._end(pod)

    def _end(self, pod: Object) -> None:
        code = int(containers.number(pod, containers.EXIT_CODE_ANNOTATION, 0))
        if code and pod["spec"]["restartPolicy"] == "OnFailure":
            containers.crash(pod, code)
        else:
            containers.end(pod, code)
        self._write(pod)

    def _stop(self, pod: Object) -> None:
        """Finish a deletion. A pod with finalizers stays, so it shows how its containers ended."""
        metadata = pod["metadata"]
        if metadata.get("finalizers") and pod["status"].get("phase") in ("Pending", "Running"):
            containers.end(pod, containers.TERMINATED)
            self._write(pod)
        self.delete(self.kind("", "Pod"), pod, grace=0)

    def _write(self, pod: Object) -> None:
        self.update(self.kind("", "Pod"), pod, "status")


def _should_be_ready(pod: Object) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return not containers.is_held(pod) and all(is_true(pod, gate["conditionType"]) for gate in gates)


def _restart_delay(restarts: int) -> float:
    """Return the back-off of a kubelet: none for the first restart, then doubled from ten seconds to five minutes."""
    return min(10.0 * 2 ** min(restarts - 1, 5), 300.0) if restarts else 0.0
