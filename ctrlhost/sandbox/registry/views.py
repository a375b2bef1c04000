"""Conversion of stored objects to the requested version and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.sandbox.registry import autoscalers, events
from ctrlhost.sandbox.schema import structural

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.registry.registry import Kind
    from ctrlhost.sandbox.storage.store import Snapshot


@dataclass(frozen=True, slots=True)
class Edge:
    """The conversion of a version that is not the stored one; `shown` may change its argument."""

    shown: Callable[[Object], Object]
    stored: Callable[[Object], Object]
    storage_version: str


_EDGES: dict[tuple[str, str], Edge] = {
    ("events.k8s.io", "v1"): Edge(events.shown, events.stored, "v1"),
    ("autoscaling", "v1"): Edge(autoscalers.shown, autoscalers.stored, "autoscaling/v2"),
}
"""By group and version. Every other built-in kind is stored as it is shown."""


def is_stored_form(kind: Kind, snapshot: Snapshot) -> bool:
    """Return whether readers of `kind` get the stored bytes."""
    if kind.custom is not None:
        return snapshot.shape == kind.custom.marker
    return (kind.group, kind.version) not in _EDGES


def raw(kind: Kind, snapshot: Snapshot) -> bytes:
    """Return the object as JSON in the version of `kind`."""
    if is_stored_form(kind, snapshot):
        return snapshot.raw
    return encode(load(kind, snapshot))


def load(kind: Kind, snapshot: Snapshot) -> Object:
    """Return the object as a new dict in the version of `kind`, pruned and defaulted by the current schema."""
    obj = snapshot.decode()
    if is_stored_form(kind, snapshot):
        return obj
    obj["apiVersion"] = kind.api_version
    if kind.custom is not None:
        structural.prune(kind.custom.schema, obj)
        structural.default(kind.custom.schema, obj)
        return obj
    return _EDGES[kind.group, kind.version].shown(obj)


def to_storage(kind: Kind, obj: Object) -> tuple[Object, object]:
    """Return the object in its storage version, with the marker of its schema."""
    if kind.custom is not None:
        stored = kind.custom.storage_version
        if stored == kind.version:
            return obj, kind.custom.marker
        return {**obj, "apiVersion": f"{kind.group}/{stored}"}, None
    edge = _EDGES.get((kind.group, kind.version))
    if edge is not None:
        return {**edge.stored(obj), "apiVersion": edge.storage_version}, None
    return obj, None


def encode(obj: Any) -> bytes:
    """Encode as JSON; an object's apiVersion and kind come first."""
    if type(obj) is dict and "metadata" in obj and "apiVersion" in obj and "kind" in obj:
        obj = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": obj["metadata"], **obj}
    return msgspec.json.encode(obj)
