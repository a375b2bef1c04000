"""A scheduler and a kubelet that run nothing: pods are bound, start, become ready and stop after the chosen delays.

Each can be disabled: then another client binds the pods, or writes their status.
"""

from __future__ import annotations

import ipaddress
import itertools
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.api import subresources
from ctrlhost.sandbox.apimachinery import clock, times
from ctrlhost.sandbox.apimachinery.objects import is_true
from ctrlhost.sandbox.controllers import placement
from ctrlhost.sandbox.controllers.controller import Controller, Key
from ctrlhost.sandbox.registry import meta

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.storage.store import Event, Table

READY_ANNOTATION = "sandbox.ctrlhost.dev/ready"
"""`false` keeps a pod from becoming ready."""


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
        """Return a changed pod, and all unscheduled pods for a changed node."""
        if table.name == "nodes":
            pods = self.context.store.table("pods").list()
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
            if not pod["metadata"].get("finalizers"):
                grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
                if self._due(pod, "stop", min(grace, options.pod_stop_delay), key):
                    self.delete(kind, pod, grace=0)
        elif status.get("phase") == "Pending":
            if self._due(pod, "start", options.pod_start_delay, key):
                self._start(pod)
        elif status.get("phase") == "Running":
            gates = pod["spec"].get("readinessGates") or ()
            wanted = not _is_held(pod) and all(is_true(pod, gate["conditionType"]) for gate in gates)
            changes = wanted is not is_true(pod, "Ready")
            if changes and (not wanted or self._due(pod, "ready", options.pod_ready_delay, key)):
                self._set_ready(pod, ready=wanted)

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
        for node in self.listed(self.kind("", "Node")):
            cordoned = (node.get("spec") or {}).get("unschedulable") and not placement.tolerates_cordon(pod["spec"])
            if not cordoned and placement.selects(pod["spec"], node):
                namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
                operation = self.operation("create", self.kind("", "Pod"), namespace, name)
                subresources.bind(self.context, operation, node["metadata"]["name"])
                text = f"Successfully assigned {namespace}/{name} to {node['metadata']['name']}"
                self.event(pod, "Scheduled", text, "default-scheduler")
                return

    def _address(self, uid: str) -> str:
        """Return a pod's address, allocated if missing; freed ones are reused last."""
        if uid not in self._addresses:
            network, taken = ipaddress.ip_network(self.context.options.pod_cidr), set(self._addresses.values())
            offsets = (serial % (network.num_addresses - 2) + 1 for serial in self._serials)
            addresses = (str(network[offset]) for offset in offsets)
            self._addresses[uid] = next(address for address in addresses if address not in taken)
        return self._addresses[uid]

    def _start(self, pod: Object) -> None:
        now = times.now()
        address = self._address(pod["metadata"]["uid"])
        status = pod["status"]
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
            _set_condition(status, name, value=True)
        for name in ("ContainersReady", "Ready"):
            _set_condition(status, name, value=False)
        self.update(self.kind("", "Pod"), pod, "status")
        for item in pod["spec"]["containers"]:
            self.event(pod, "Started", f"Started container {item['name']}", "kubelet")

    def _set_ready(self, pod: Object, *, ready: bool) -> None:
        status = pod["status"]
        held = _is_held(pod)
        for item in status.get("containerStatuses") or ():
            item["ready"] = not held
        _set_condition(status, "ContainersReady", value=not held)
        _set_condition(status, "Ready", value=ready)
        self.update(self.kind("", "Pod"), pod, "status")


def _is_held(pod: Object) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(READY_ANNOTATION) == "false"


def _set_condition(status: Any, name: str, *, value: bool) -> None:
    text = "True" if value else "False"
    conditions = status.setdefault("conditions", [])
    for item in conditions:
        if item["type"] == name:
            if item["status"] != text:
                item.update(status=text, lastTransitionTime=times.now())
            return
    conditions.append({"type": name, "status": text, "lastProbeTime": None, "lastTransitionTime": times.now()})
