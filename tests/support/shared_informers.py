"""Input and output of a shared informer, for tests of its engine."""

from __future__ import annotations

import json
from typing import Any

from ctrlhost import Request
from ctrlhost.cache import (
    DeletedFinalStateUnknown,
    Listener,
    Object,
    SharedInformer,
)
from ctrlhost.workqueue import WorkQueue


def pod(name: str, version: int = 1, *, uid: str = "", **metadata: Any) -> dict[str, Any]:
    spec = metadata.pop("spec", {"v": version})
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def relist(informer: SharedInformer, *pods: dict[str, Any], version: int = 1) -> None:
    informer.begin_list()
    body = {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(pods)}
    informer.feed_list(json.dumps(body).encode())
    informer.replace(informer.end_page().resource_version)
    informer.process()


def watch(informer: SharedInformer, kind: str, *pods: dict[str, Any], process: bool = True) -> None:
    for obj in pods:
        informer.feed_watch(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
    if process:
        informer.process()


def deliver(added: Listener | int) -> None:
    """Do what the thread of a plugin does with what `enqueue_to` returned for functions in Python."""
    while not isinstance(added, int) and added.deliver():
        pass


def delivered(listener: Listener) -> list[tuple[Any, ...]]:
    """Return events as `("add", "a1", True)`, `("update", "a1", "a2")`, `("delete", "a2")`, `("gone", "a2")`."""
    events: list[tuple[Any, ...]] = []
    while batch := listener.next(timeout=0):
        for kind, old, new, initial in batch:
            if kind == "add":
                events.append(("add", named(new), initial))
            elif kind == "update":
                events.append(("update", named(old), named(new)))
            elif isinstance(old, DeletedFinalStateUnknown):
                events.append(("gone", named(old.object)))
            else:
                events.append(("delete", named(old)))
    return events


def named(obj: Any) -> str:
    assert isinstance(obj, Object)
    return f"{obj.name}{obj.resource_version}"


def queued(queue: WorkQueue) -> list[tuple[str, str, int]]:
    """Empty a queue and return name, namespace and priority of each item, in order."""
    requests = []
    while len(queue):
        request, priority = queue.get_with_priority(timeout=0)
        assert isinstance(request, Request)
        requests.append((request.name, request.namespace, priority))
        queue.done(request)
    return requests
