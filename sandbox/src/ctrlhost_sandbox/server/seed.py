"""The initial objects."""

from __future__ import annotations

import ipaddress
import platform
from typing import TYPE_CHECKING

from ctrlhost_sandbox import controllers
from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.controllers.aggregation import AggregationController
from ctrlhost_sandbox.controllers.crds import CrdController
from ctrlhost_sandbox.controllers.namespaces import INITIAL
from ctrlhost_sandbox.kinds.persistent_volumes import DEFAULT_CLASS
from ctrlhost_sandbox.kinds.services import hold
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.server import cluster_objects, default_roles
from ctrlhost_sandbox.verbs import writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.storage.store import Snapshot

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NODE = "sandbox-node"
_ON_NODES = ("daemonset", "kubelet", "scheduler")
"""The controllers for which there is a node: a control plane alone has none."""
STORAGE_CLASS = "standard"
_MANAGER = "sandbox"
_INITIAL = frozenset(
    {
        *(("namespaces", "", name) for name in NAMESPACES),
        ("nodes", "", NODE),
        ("storage.k8s.io/storageclasses", "", STORAGE_CLASS),
        ("services", "default", "kubernetes"),
        ("discovery.k8s.io/endpointslices", "default", "kubernetes"),
    }
)

_CLUSTER_TABLES = frozenset(
    {
        *("networking.k8s.io/servicecidrs", "scheduling.k8s.io/priorityclasses"),
        *("flowcontrol.apiserver.k8s.io/flowschemas", "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"),
    }
)


def create_objects(context: ServerContext, port: int) -> None:
    """Create missing initial objects, and start the controllers."""
    for snapshot in context.store.table("services").list():
        hold(context, snapshot.decode())
    for name in NAMESPACES:
        _create(context, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    if not context.options.controllers.isdisjoint(_ON_NODES):
        _node(context)
    _kubernetes(context, port)
    if "persistentvolume" in context.options.controllers:
        _create(context, _storage_class())
    for obj in cluster_objects.objects(context):
        _create(context, obj)
    if context.authorizer is not None:
        for obj in default_roles.objects():
            _create(context, obj)
        AggregationController(context).start()
    CrdController(context).start()
    controllers.start(context)


def is_initial(context: ServerContext, table: str, snapshot: Snapshot) -> bool:
    """Return whether an object is an initial one."""
    inside, name = snapshot.namespace, snapshot.name
    if inside in NAMESPACES and INITIAL.get(table) == name:
        return True
    if table.startswith("rbac.") and not inside:
        return context.authorizer is not None and b"rbac-defaults" in snapshot.raw
    if table in _CLUSTER_TABLES:
        return any(name == obj["metadata"]["name"] for obj in cluster_objects.objects(context))
    return (table, inside, name) in _INITIAL


def _create(
    context: ServerContext, obj: Object, namespace: str = "", correct: Callable[[Object], None] | None = None
) -> Object | None:
    """Create an object and return it; None if it exists, and then `correct` mends what changes between runs."""
    kind, name = context.registry.builtin(obj["apiVersion"].rpartition("/")[0], obj["kind"]), obj["metadata"]["name"]
    snapshot = context.store.table(kind.table).get(namespace, name)
    if snapshot is None:
        return writes.create(context, Operation("create", kind, namespace, manager=_MANAGER), obj).obj
    if correct is not None:
        stored = snapshot.decode()
        correct(stored)
        writes.update(context, Operation("update", kind, namespace, name, manager=_MANAGER), stored)
    return None


def _node(context: ServerContext) -> None:
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    metadata = {"name": NODE, "labels": labels}
    node = _create(context, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}})
    if node is None:
        return
    now = times.now()
    release = f"v{context.options.version}"
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "1000"}
    node["status"] = {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": NODE}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
                "reason": "KubeletReady",
                "message": "the sandbox's node is always ready",
            }
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": node["metadata"]["uid"],
            "containerRuntimeVersion": "sandbox://1",
            "kernelVersion": platform.release() or "unknown",
            "kubeProxyVersion": release,
            "kubeletVersion": release,
            "machineID": node["metadata"]["uid"].replace("-", ""),
            "operatingSystem": "linux",
            "osImage": "ctrlhost sandbox",
            "systemUUID": node["metadata"]["uid"],
        },
    }
    kind = context.registry.builtin("", "Node")
    writes.update(context, Operation("update", kind, "", NODE, "status", manager=_MANAGER), node)


def _storage_class() -> Object:
    """Return the default class, whose volumes are simulated like those of any other."""
    metadata = {"name": STORAGE_CLASS, "annotations": {DEFAULT_CLASS: "true"}}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}
    return {**head, "provisioner": "sandbox.ctrlhost.dev/simulated"}


def _kubernetes(context: ServerContext, port: int) -> None:
    """Create the Service of the API server."""
    first = ipaddress.ip_network(context.options.service_cidr)[1]
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {"ports": ports, "clusterIP": str(first), "type": "ClusterIP"},
    }
    _create(context, service, "default", lambda obj: obj["spec"]["ports"][0].update(targetPort=port))
    slice_labels = {"kubernetes.io/service-name": "kubernetes"}
    endpoint_slice = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "labels": slice_labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    _create(context, endpoint_slice, "default", lambda obj: obj["ports"][0].update(port=port))
