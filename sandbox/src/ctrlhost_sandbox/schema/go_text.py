"""JSON values and types as a Go server's messages show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from ctrlhost_sandbox.schema.shapes import Shape

_FOUND = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
_PLAIN = {str: "string", bool: "bool", float: "float64"}
_RESTORED = {dict: "map", list: "slice", **_PLAIN}
_DECODED = {dict: "map[string]interface {}", list: "[]interface {}", type(None): "<nil>", **_PLAIN}
_SCALARS = frozenset({"string", "bool", "int32", "int64", "float64"})


def show(value: Any) -> str:
    """Format a value like Go's `%v`: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{show(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def pointed(value: Any) -> str:
    """Format a value like Go's `%v` of a pointer to a struct that holds it."""
    return f"&{{{show(value)}}}"


def syntax(value: Any) -> str:
    """Format a value like Go's `%#v`: `map[string]interface {}{"a":1}`."""
    if isinstance(value, dict):
        return f"{go_type(value)}{{{', '.join(f'{syntax(key)}:{syntax(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"{go_type(value)}{{{', '.join(map(syntax, value))}}}"
    return msgspec.json.encode(value).decode() if isinstance(value, str) else show(value)


def json_kind(value: Any) -> str:
    """Return the name of a value's type in Go's JSON decoder."""
    return _FOUND.get(type(value), "number")


def go_type(value: Any) -> str:
    """Return the Go type of a decoded value, as `%T` shows it."""
    return _DECODED.get(type(value), "int64")


def type_of(shape: Shape) -> str:
    """Return the Go type of a field."""
    if shape.type in ("array", "map"):
        element = type_of(shape.element) if shape.element is not None else "interface {}"
        return f"[]{element}" if shape.type == "array" else f"map[string]{element}"
    short = shape.name.rpartition(".")[2] or shape.type
    if shape.type == "object":
        return f"v1.{short}"
    return short if short in _SCALARS else {"bytes": "[]uint8"}.get(shape.type, short)


def not_restored(value: Any, shape: Shape) -> str:
    """Return why a value of a strategic merge patch does not fit its field."""
    kind = _RESTORED.get(type(value), "int64")
    if shape.type in ("map", "array"):
        return f"cannot restore {'map' if shape.type == 'map' else 'slice'} from {kind}"
    if shape.type == "object":
        return f"cannot restore struct from: {kind}"
    wanted = type_of(shape)
    if kind in ("int64", "float64") and wanted != "bool":
        return f"cannot convert {kind} to {wanted}"
    return f"unrecognized type: {wanted}"
