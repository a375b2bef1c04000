"""What is there from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox import controllers, crd_lifecycle, writes
from ctrlhost.sandbox.call import Call, Object

if TYPE_CHECKING:
    from ctrlhost.sandbox.engine import Engine

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NODE = "sandbox-node"
_MANAGER = "sandbox"


def plant(engine: Engine, port: int) -> None:
    """Create what is missing of it, and start what keeps the server's own affairs going."""
    for name in NAMESPACES:
        _create(engine, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    crd_lifecycle.serve(engine)
    crd_lifecycle.watch_objects(engine)
    engine.loop.call_soon(crd_lifecycle.advance, engine)
    controllers.start(engine)


def _create(engine: Engine, obj: Object, namespace: str = "") -> None:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = engine.registry.find_kind(group, version, obj["kind"])
    assert kind is not None
    if engine.store.table(kind.table).get(namespace, obj["metadata"]["name"]) is None:
        writes.create(engine, Call("create", kind, namespace, manager=_MANAGER), obj)
