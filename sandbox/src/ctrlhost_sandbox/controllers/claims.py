"""The pods of owners: adopted by labels, held by an owner reference, created from a template."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import clock, times
from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.controllers.controller import controller_of
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.controllers.controller import Controller, Key
    from ctrlhost_sandbox.storage.store import Event, Table


def touched(controller: Controller, owners: str, table: Table, event: Event) -> list[Key]:
    """Return the keys of the owners affected by an event on their table or on a pod."""
    if table.name == owners:
        return [event.latest.key]
    if table.name != "pods":
        return []
    uids = {uid for state in (event.old, event.new) if state is not None for uid in state.owners}
    candidates = controller.context.store.table(owners).list(event.latest.namespace)
    mine: list[Key] = [candidate.key for candidate in candidates if candidate.uid in uids]
    # A pod without a controller may be adopted by any owner that selects it.
    return mine if mine or uids else [candidate.key for candidate in candidates]


def owned(controller: Controller, owner: Object) -> list[Object]:
    """Return the pods that `owner` controls."""
    metadata = owner["metadata"]
    pods = controller.context.store.table("pods").list(metadata["namespace"])
    mine = [pod.decode() for pod in pods if metadata["uid"] in pod.owners]
    return [pod for pod in mine if controller_of(pod) == metadata["uid"]]


def claim(
    controller: Controller, owner: Object, fits: Callable[[Object], bool] = lambda _: True, finalizer: str = ""
) -> list[Object]:
    """Return the pods that `owner` controls, after adopting matching ones and releasing the others.

    Adopted pods get the finalizer, released ones lose it.
    """
    kind, metadata, selector = controller.kind("", "Pod"), owner["metadata"], owner["spec"]["selector"]
    mine = []
    for snapshot in controller.context.store.table("pods").list(metadata["namespace"]):
        selected = match_selector(selector, snapshot.labels)
        if not selected and metadata["uid"] not in snapshot.owners:
            continue
        pod = snapshot.decode()
        holder, going = controller_of(pod), is_going(pod)
        references = pod["metadata"].get("ownerReferences") or []
        if holder == metadata["uid"] and (selected or going):
            mine.append(pod)
        elif holder == metadata["uid"]:
            pod["metadata"]["ownerReferences"] = [reference for reference in references if reference["uid"] != holder]
            _set_finalizer(pod, finalizer, wanted=False)
            controller.update(kind, pod)
        elif holder is None and selected and not going and fits(pod):
            pod["metadata"]["ownerReferences"] = [*references, meta.owner_reference(owner)]
            _set_finalizer(pod, finalizer, wanted=True)
            mine.append(controller.update(kind, pod))
    return mine


def _set_finalizer(pod: Object, name: str, *, wanted: bool) -> None:
    if name:
        others = [finalizer for finalizer in pod["metadata"].get("finalizers") or () if finalizer != name]
        pod["metadata"]["finalizers"] = [*others, name] if wanted else others


def from_template(owner: Object, template: Any, name: str, **labels: str) -> Object:
    """Return a pod for `owner`; a name that ends in a dash is a prefix."""
    template = copy.deepcopy(template)
    metadata = template.get("metadata") or {}
    own = {
        "generateName" if name.endswith("-") else "name": name,
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": [meta.owner_reference(owner)],
    }
    if owner["kind"] == "StatefulSet":
        own["generateName"] = f"{owner['metadata']['name']}-"
    if metadata.get("finalizers"):
        own["finalizers"] = metadata["finalizers"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]}


def create(controller: Controller, owner: Object, pod: Object) -> Object:
    """Create a pod for `owner`, and record it."""
    stored = controller.create(controller.kind("", "Pod"), owner["metadata"]["namespace"], pod)
    controller.event(owner, "SuccessfulCreate", f"Created pod: {stored['metadata']['name']}")
    return stored


def delete(controller: Controller, owner: Object, pod: Object) -> None:
    """Delete a pod of `owner`, and record it."""
    controller.delete(controller.kind("", "Pod"), pod)
    controller.event(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def is_going(pod: Object) -> bool:
    """Return whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def has_ended(pod: Object) -> bool:
    """Return whether the pod has finished."""
    return pod["status"].get("phase") in ("Failed", "Succeeded")


def runs(pod: Object) -> bool:
    """Return whether the pod is running and ready."""
    return pod["status"].get("phase") == "Running" and is_true(pod, "Ready")


def available_in(pod: Object, seconds: int) -> float:
    """Return the seconds until a pod has been ready for that long: 0 if it has, infinite if it is not ready."""
    if not runs(pod):
        return float("inf")
    if not seconds:
        return 0.0
    since = next(item for item in pod["status"]["conditions"] if item["type"] == "Ready").get("lastTransitionTime")
    # Times of conditions have whole seconds, so a pod may seem up to one second older than it is.
    return 0.0 if not since else max(times.epoch(since) + seconds - clock.time(), 0.0)
