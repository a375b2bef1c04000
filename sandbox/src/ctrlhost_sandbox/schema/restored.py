"""Numbers of patched objects: Go converts them from maps, and not from JSON, so that they overflow silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost_sandbox.schema.shapes import Shape

_INT32, _INT64 = 2**32, 2**63


def restored(shape: Shape | None, value: Any) -> Any:
    """Return a copy of a value whose whole numbers fit their fields, as the conversion leaves them."""
    if shape is None:
        return value
    if type(value) is dict:
        return {key: restored(shape.child(key), item) for key, item in value.items()}
    if type(value) is list:
        return [restored(shape.element, item) for item in value]
    if shape.type != "integer" or type(value) not in (int, float) or value != value // 1:
        return value
    number = int(value) if -_INT64 <= value < _INT64 else -_INT64
    return (number + _INT32 // 2) % _INT32 - _INT32 // 2 if shape.name == "int32" else number
