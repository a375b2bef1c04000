"""Events of events.k8s.io, which are stored as those of the core group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_STORED = {new: old for old, new in _FIELDS.items()}


def serve(obj: Object) -> Object:
    """Return a stored Event with the names of events.k8s.io."""
    return {_FIELDS.get(key, key): value for key, value in obj.items()}


def store(obj: Object) -> Object:
    """Return an Event with the names of the core group."""
    return {_STORED.get(key, key): value for key, value in obj.items()}
