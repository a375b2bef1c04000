"""Conversion of stored objects to the requested version and back."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.registry import autoscalers, events
from ctrlhost_sandbox.schema import structural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.registry.registry import CustomVersion, Kind
    from ctrlhost_sandbox.schema.structural import Schema
    from ctrlhost_sandbox.storage.store import Snapshot


@dataclass(frozen=True, slots=True)
class Edge:
    """The conversion of a version that is not the stored one; `shown` may change its argument."""

    serve: Callable[[Object], Object]
    store: Callable[[Object], Object]
    storage_version: str


_EDGES: dict[tuple[str, str], Edge] = {
    ("events.k8s.io", "v1"): Edge(events.serve, events.store, "v1"),
    ("autoscaling", "v1"): Edge(autoscalers.serve, autoscalers.store, "autoscaling/v2"),
}
"""By group and version. Every other built-in kind is stored as it is shown."""


def is_stored_form(kind: Kind, snapshot: Snapshot) -> bool:
    """Return whether readers of `kind` get the stored bytes."""
    if kind.custom is not None:
        return snapshot.shape == kind.custom.marker
    return (kind.group, kind.version) not in _EDGES


def is_outdated(kind: Kind, snapshot: Snapshot) -> bool:
    """Return whether the object is stored in another version than its kind is stored in by now."""
    if kind.custom is None or len(kind.custom.schemas) == 1:
        return False
    return bool(snapshot.decode()["apiVersion"] != f"{kind.group}/{kind.custom.storage_version}")


def raw(kind: Kind, snapshot: Snapshot) -> bytes:
    """Return the object as JSON in the version of `kind`."""
    if is_stored_form(kind, snapshot):
        return snapshot.raw
    return encode(load(kind, snapshot))


def load(kind: Kind, snapshot: Snapshot) -> Object:
    """Return the object as a new dict in the version of `kind`; a custom one is pruned and defaulted."""
    obj = snapshot.decode()
    if is_stored_form(kind, snapshot):
        return obj
    if kind.custom is not None:
        return _serve(kind, kind.custom, obj)
    obj["apiVersion"] = kind.api_version
    return _EDGES[kind.group, kind.version].serve(obj)


def _serve(kind: Kind, custom: CustomVersion, obj: Object) -> Object:
    """Convert a stored custom object, which may be changed: defaults come from the version it is stored in."""
    schema = _in_its_version(custom, obj)
    if custom.converter is not None and obj["apiVersion"] != kind.api_version:
        (obj,) = custom.converter.convert([obj], kind.api_version)
    obj["apiVersion"] = kind.api_version
    if schema is not custom.schema:
        structural.prune(custom.schema, obj)
    return obj


def _in_its_version(custom: CustomVersion, obj: Object) -> Schema:
    """Prune and default a custom object by the schema of the version that it is in, and return that schema."""
    schema = custom.schemas.get(obj["apiVersion"].rpartition("/")[2], custom.schema)
    structural.prune(schema, obj)
    structural.default(schema, obj)
    return schema


def prepare(kind: Kind, snapshots: Iterable[Snapshot]) -> None:
    """Convert stored objects together, where each would need a call of its own; `load` and `raw` find the results."""
    if kind.custom is None or kind.custom.converter is None:
        return
    stored = [snapshot.decode() for snapshot in snapshots]
    others = [obj for obj in stored if obj["apiVersion"] != kind.api_version]
    for obj in others:
        _in_its_version(kind.custom, obj)
    if others:
        kind.custom.converter.convert(others, kind.api_version)


def settled(kind: Kind, obj: Object, *, with_nulls: bool = False) -> Object:
    """Return an object that is about to be stored as its readers will get it: in another version it loses fields.

    `with_nulls` says that it may have nulls that its readers do not get.
    """
    if kind.custom is None:
        return obj
    if with_nulls:
        structural.default(kind.custom.schema, obj)
    _write_integers(obj)
    if kind.custom.storage_version == kind.version:
        return obj
    return _serve(kind, kind.custom, to_storage(kind, obj)[0])


def _write_integers(value: Any) -> None:
    """Replace each float without a fraction by its integer: a Go client cannot read `1.0` into an integer field."""
    pairs = value.items() if type(value) is dict else enumerate(value)
    for key, item in pairs:
        if type(item) is float:
            if item.is_integer() and abs(item) < 2**63:
                value[key] = int(item)
        elif type(item) in (dict, list):
            _write_integers(item)


def to_storage(kind: Kind, obj: Object) -> tuple[Object, object]:
    """Return the object in its storage version, with the marker of its schema."""
    if kind.custom is not None:
        stored = kind.custom.storage_version
        if stored == kind.version:
            return obj, kind.custom.marker
        converted = {key: obj[key] if key == "metadata" else copy.deepcopy(obj[key]) for key in obj}
        if kind.custom.converter is not None:
            (converted,) = kind.custom.converter.convert([obj], f"{kind.group}/{stored}")
        converted["apiVersion"] = f"{kind.group}/{stored}"
        structural.prune(kind.custom.schemas[stored], converted)
        return converted, None
    edge = _EDGES.get((kind.group, kind.version))
    if edge is not None:
        return {**edge.store(obj), "apiVersion": edge.storage_version}, None
    return obj, None


def encode(obj: Any) -> bytes:
    """Encode as JSON; an object's apiVersion and kind come first."""
    if type(obj) is dict and "metadata" in obj and "apiVersion" in obj and "kind" in obj:
        obj = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": obj["metadata"], **obj}
    return msgspec.json.encode(obj)
