"""The changes that patches make to an object, as a server makes them, but without the schema of its kind."""

from __future__ import annotations

from typing import Any

from ctrlhost.client.dry_run import merged

#: Metadata that an apply does not own.
_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"})


def applied(live: dict[str, Any], content: dict[str, Any], manager: str) -> dict[str, Any]:
    """Return an object after a forced apply, without what the manager has applied before and leaves out now.

    Lists are replaced as a whole.
    """
    entries = live.get("metadata", {}).get("managedFields", [])
    own = [entry for entry in entries if (entry["manager"], entry["operation"]) == (manager, "Apply")]
    others = [entry for entry in entries if entry not in own]
    fields = _fields({name: part for name, part in content.items() if name not in ("apiVersion", "kind")})
    fields["f:metadata"] = {
        name: part for name, part in fields.get("f:metadata", {}).items() if name.removeprefix("f:") not in _IDENTITY
    }
    for entry in own:
        live = _without(live, entry["fieldsV1"], fields)
    result = merged(live, content)
    entry = {"manager": manager, "operation": "Apply", "apiVersion": content["apiVersion"], "fieldsV1": fields}
    return {**result, "metadata": {**result["metadata"], "managedFields": [*others, entry]}}


def _fields(value: Any) -> Any:
    """Return the names of the fields of a value, as entries of `managedFields` have them."""
    return {f"f:{name}": _fields(part) for name, part in value.items()} if isinstance(value, dict) else {}


def _without(value: Any, former: dict[str, Any], fields: dict[str, Any]) -> Any:
    """Return a value without what is in `former` only."""
    if not (isinstance(value, dict) and former):
        return value
    kept = {name: part for name, part in value.items() if f"f:{name}" not in former or f"f:{name}" in fields}
    return {
        name: _without(part, former.get(f"f:{name}", {}), fields.get(f"f:{name}", {})) for name, part in kept.items()
    }
