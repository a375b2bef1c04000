"""The schema of a kind's objects with all types inlined, as the checker of expressions takes it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.schema.shapes import Shape, builtin, of_kind

if TYPE_CHECKING:
    from ctrlhost_sandbox.schema.structural import Schema

_ANY = {"type": "any"}
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
}


@lru_cache(maxsize=256)
def of_builtin(group: str, version: str, kind: str) -> str | None:
    """Return the schema of a built-in kind as JSON; None for an unknown one."""
    shape = of_kind(group, version, kind)
    return None if shape is None else msgspec.json.encode(_whole(_schema(shape, ()))).decode()


def of_custom(schema: Schema) -> str:
    """Return the schema of a custom kind as JSON, with all metadata."""
    properties = {**(schema.get("properties") or {}), "metadata": _schema(builtin("meta.ObjectMeta"), ())}
    return msgspec.json.encode(_whole({**schema, "type": "object", "properties": properties})).decode()


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with its type."""
    names = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    return {**schema, "properties": {**names, **schema.get("properties", {})}}


def _schema(shape: Shape, above: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a shape below those named `above`; a type within itself is any value."""
    if shape.type == "object":
        if shape.name in above:
            return _ANY
        inner = (*above, shape.name)
        return {"type": "object", "properties": {name: _schema(child, inner) for name, child in shape.fields.items()}}
    if shape.element is not None:
        element = _schema(shape.element, above)
        if shape.type == "map":
            return {"type": "object", "additionalProperties": element}
        return {"type": "array", "items": element, "x-kubernetes-list-type": "atomic"}
    return _SCALARS.get(shape.type, _ANY)
