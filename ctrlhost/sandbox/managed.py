"""Who manages which field."""

from __future__ import annotations

from typing import Any

from ctrlhost.sandbox.call import Call, Object


def track_create(call: Call, obj: Object) -> None:
    """Note that the creator manages every field of a new object."""
    obj["metadata"].pop("managedFields", None)


def track_update(call: Call, obj: Object, old: Object, sent: Any) -> None:
    """Note that the writer manages the fields that it changed."""


def unchanged(obj: Object, old: Object) -> bool:
    """Tell whether a write changed nothing, the times in managedFields aside."""
    if obj.keys() != old.keys() or any(obj[key] != old[key] for key in obj if key != "metadata"):
        return False
    left, right = dict(obj["metadata"]), dict(old["metadata"])
    return _timeless(left.pop("managedFields", None)) == _timeless(right.pop("managedFields", None)) and left == right


def _timeless(entries: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries or ()]
