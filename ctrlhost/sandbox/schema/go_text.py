"""How a Go server shows values of JSON in its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.sandbox.schema.shapes import Shape

_FOUND = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
_RESTORED = {dict: "map", list: "slice", str: "string", bool: "bool", float: "float64"}
_SCALARS = frozenset({"string", "bool", "int32", "int64", "float64"})


def shown(value: Any) -> str:
    """Write a value as `%v` does: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{shown(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(shown, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def json_kind(value: Any) -> str:
    """Name a value as Go's JSON decoder does."""
    return _FOUND.get(type(value), "number")


def type_of(shape: Shape) -> str:
    """Name the Go type of a field."""
    if shape.type == "array":
        return "[]" + (type_of(shape.element) if shape.element is not None else "interface {}")
    if shape.type == "map":
        return "map[string]" + (type_of(shape.element) if shape.element is not None else "interface {}")
    short = shape.name.rpartition(".")[2] or shape.type
    if shape.type == "object":
        return f"v1.{short}"
    return short if short in _SCALARS else {"bytes": "[]uint8"}.get(shape.type, short)


def not_restored(value: Any, shape: Shape) -> str:
    """Say why a strategic merge patch brought a value that its field can not take."""
    found = _RESTORED.get(type(value), "int64")
    if shape.type in ("map", "array"):
        return f"cannot restore {'map' if shape.type == 'map' else 'slice'} from {found}"
    if shape.type == "object":
        return f"cannot restore struct from: {found}"
    wanted = type_of(shape)
    if found in ("int64", "float64") and wanted != "bool":
        return f"cannot convert {found} to {wanted}"
    return f"unrecognized type: {wanted}"
