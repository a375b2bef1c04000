"""Conversion of stored objects to the requested version and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.sandbox.schema import structural

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.registry.registry import Kind
    from ctrlhost.sandbox.storage.store import Snapshot

EVENTS_GROUP = "events.k8s.io"
# Fields with other names in events.k8s.io than in the core group, where events are stored.
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_TO_CORE = {new: old for old, new in _EVENT_FIELDS.items()}


def is_stored_form(kind: Kind, snapshot: Snapshot) -> bool:
    """Return whether readers of `kind` get the stored bytes."""
    if kind.custom is not None:
        return snapshot.shape == kind.custom.marker
    return kind.group != EVENTS_GROUP


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
    return _renamed(obj, _EVENT_FIELDS)


def to_storage(kind: Kind, obj: Object) -> tuple[Object, object]:
    """Return the object in its storage version, with the marker of its schema."""
    if kind.custom is not None:
        stored = kind.custom.storage_version
        if stored == kind.version:
            return obj, kind.custom.marker
        return {**obj, "apiVersion": f"{kind.group}/{stored}"}, None
    if kind.group == EVENTS_GROUP:
        return {**_renamed(obj, _TO_CORE), "apiVersion": "v1"}, None
    return obj, None


def _renamed(obj: Object, names: dict[str, str]) -> Object:
    return {names.get(key, key): value for key, value in obj.items()}


def encode(obj: Any) -> bytes:
    """Encode as JSON; an object's apiVersion and kind come first."""
    if type(obj) is dict and "metadata" in obj and "apiVersion" in obj and "kind" in obj:
        obj = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": obj["metadata"], **obj}
    return msgspec.json.encode(obj)
