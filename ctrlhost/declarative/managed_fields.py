"""Who owns which fields of an object: the entries of `metadata.managedFields`.

An entry has a tree of names: `f:NAME` for a field, `k:{…}` for an item of a list by its keys, `v:…` for one of a set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The metadata that is taken over from another manager: not owners and finalizers, which others rely on.
_TAKEN_METADATA = frozenset({".", "f:labels", "f:annotations"})


def is_applied_by(obj: Mapping[str, Any], manager: str) -> bool:
    """Return whether a manager has applied the object; anybody can write an annotation."""
    return any(_is_of(entry, manager) for entry in _entries(obj))


def taken_over(obj: Mapping[str, Any], wanted: dict[str, Any], manager: str) -> list[dict[str, Any]] | None:
    """Return the entries with the fields of those who wrote what is `wanted` as the manager's; None for no change.

    As client-go's `csaupgrade` does: else what they set and is not wanted would stay theirs, and in the object.
    Those who applied, and who wrote nothing of it, keep theirs.
    """
    entries = _entries(obj)
    compared = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
    former = [
        entry
        for entry in entries
        if entry.get("operation") == "Update"
        and not entry.get("subresource")
        and entry.get("apiVersion") == wanted["apiVersion"]
        and _share(compared, entry.get("fieldsV1"))
    ]
    if not former:
        return None
    own = next((entry for entry in entries if _is_of(entry, manager)), None)
    fields: dict[str, Any] = {} if own is None else own["fieldsV1"]
    for entry in former:
        fields = _merged(fields, _without_status(entry["fieldsV1"]))
    kept = [entry for entry in entries if entry not in former and entry is not own]
    own = own or {**former[0], "manager": manager, "operation": "Apply"}
    return [*kept, {**own, "fieldsV1": fields}]


def released(
    obj: Mapping[str, Any], managed: dict[str, Any], full: dict[str, Any], manager: str
) -> list[dict[str, Any]] | None:
    """Return the entries without what of `full` is not `managed` as the manager's; None for no change.

    ValueError if that is within a list that is replaced as a whole.
    """
    entries, changed = [], False
    for entry in _entries(obj):
        fields = entry.get("fieldsV1")
        if _is_of(entry, manager):
            fields = _released(fields, managed, full, "")
            changed = changed or fields != entry.get("fieldsV1")
        entries.append({**entry, "fieldsV1": fields})
    return entries if changed else None


def _entries(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list((obj.get("metadata") or {}).get("managedFields") or ())


def _is_of(entry: Mapping[str, Any], manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "") == (manager, "Apply", "")


def _share(wanted: Any, fields: Any) -> bool:
    """Return whether somebody owns a part of what is wanted."""
    if not (isinstance(wanted, dict) and fields):
        # A list, a scalar, or an object that is owned as a whole.
        return True
    return any(f"f:{name}" in fields and _share(value, fields[f"f:{name}"]) for name, value in wanted.items())


def _without_status(fields: dict[str, Any]) -> dict[str, Any]:
    kept = {name: below for name, below in fields.items() if name != "f:status"}
    if metadata := kept.get("f:metadata"):
        kept["f:metadata"] = {name: below for name, below in metadata.items() if name in _TAKEN_METADATA}
    return kept


def _merged(fields: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    return {
        **fields,
        **{name: _merged(fields[name], below) if name in fields else below for name, below in others.items()},
    }


def _released(fields: Any, managed: Any, full: Any, path: str) -> Any:
    """Return the part of an entry below a value, without what is not managed of it."""
    if managed == full:
        return fields
    if not fields:
        raise ValueError(f"{path.lstrip('.')} is replaced as a whole: no part of it can be unmanaged")
    kept = dict(fields)
    if isinstance(full, dict):
        for name, value in full.items():
            field = f"f:{name}"
            if name not in managed:
                kept.pop(field, None)
            elif field in kept:
                kept[field] = _released(kept[field], managed[name], value, f"{path}.{name}")
        return kept
    for position, item in enumerate(full):
        for name in fields:
            if name.startswith("k:") and _has_key(item, name):
                kept[name] = _released(kept[name], managed[position], item, f"{path}[{position}]")
    return kept


def _has_key(item: Any, name: str) -> bool:
    key = msgspec.json.decode(name[2:])
    return isinstance(item, dict) and all(item.get(field, value) == value for field, value in key.items())
