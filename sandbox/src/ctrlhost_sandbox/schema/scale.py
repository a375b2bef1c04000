"""Checks of the fields of a custom object that its scale sub-resource shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema import go_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.status import Cause

_MAX_REPLICAS = 2**31 - 1


def causes(obj: Any, path: Sequence[str], wanted: type[int | str]) -> Iterator[Cause]:
    """Check a number of replicas, or the text of a selector; a missing field is valid."""
    field, value, expected = f".{'.'.join(path)}", obj, "map[string]interface{}"
    for name in path:
        if type(value) is not dict:
            break
        if name not in value:
            return
        value = value[name]
    else:
        expected = "int64" if wanted is int else "string"
    if type(value) is not wanted:
        if value is None and expected.startswith("map"):
            return
        text = f"{field} accessor error: {go_text.show(value)} is of the type {go_text.go_type(value)}"
        yield status.invalid_value(field, wanted(), f"{text}, expected {expected}")
    elif isinstance(value, int) and value < 0:
        yield status.invalid_value(field, value, "should be a non-negative integer")
    elif isinstance(value, int) and value > _MAX_REPLICAS:
        yield status.invalid_value(field, value, f"should be less than or equal to {_MAX_REPLICAS}")
