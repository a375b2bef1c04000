"""The checks of numbers in custom resources, in the steps and words of a real server's validator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.schema import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.schema.structural import Schema

_INT64 = 2**63
_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_LARGEST_FLOAT32 = 3.4028234663852886e38
#: Beyond it a float does not stand for one integer.
_LARGEST_EXACT = 2**53 - 1
_BOUNDS = (
    ("minimum", "exclusiveMinimum", "greater than", "Minimum boundary"),
    ("maximum", "exclusiveMaximum", "less than", "Maximum boundary"),
)


def as_decoded(value: float) -> float:
    """Return a number as Go's decoder leaves it: a float, if no int64 can hold it."""
    return value if -_INT64 <= value < _INT64 else float(value)


def is_whole(value: float) -> bool:
    """Return whether a float counts as an integer."""
    return value.is_integer() and abs(value) <= _LARGEST_EXACT


def unplaced(text: str) -> Cause:
    """Return the cause of a failed check that names its field only in the message."""
    return Cause("FieldValueInvalid", f'Invalid value: "": {text}', "<nil>")


def causes(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    """Check a number's range, `multipleOf` and bounds. An integer is compared with the integer part of a bound."""
    value = as_decoded(value)
    if text := _range_problem(schema, value, "Checked", path):
        yield unplaced(text)
    yield from _multiple_causes(schema, value, path)
    for name, exclusive, words, what in _BOUNDS:
        if (limit := schema.get(name)) is None:
            continue
        if text := _range_problem(schema, limit, what, path):
            yield unplaced(text)
            number, bound = float(value), float(limit)
        else:
            number, bound = value, int(limit) if type(value) is int else float(limit)
        beyond = number < bound if name == "minimum" else number > bound
        if beyond or (schema.get(exclusive) and number == bound):
            relation = words if schema.get(exclusive) else f"{words} or equal to"
            yield status.invalid_value(path, number, f"{path} in body should be {relation} {status.number(bound)}")


def _multiple_causes(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    factor = schema.get("multipleOf")
    if not factor:
        return
    if type(value) is int and int(factor):
        factor, fits = int(factor), value % int(factor) == 0
    else:
        quotient = 1 / factor * value if factor < 1 else value / factor
        fits = math.isfinite(quotient) and abs(quotient - round(quotient)) < 1e-9
    if not fits:
        text = f"{path} in body should be a multiple of {status.number(factor)}"
        yield status.invalid_value(path, value, text)


def _range_problem(schema: Schema, value: float, what: str, path: str) -> str:
    """Return why a value or a bound does not fit the schema's type and format; "" if it does."""
    kind, form = schema.get("type"), formats.effective(schema)
    if kind == "integer":
        least, most = _RANGES.get(form, (-_INT64, _INT64 - 1))
        fits = float(value).is_integer() and least <= value <= most
    elif kind == "number" and form == "float":
        fits = abs(value) <= _LARGEST_FLOAT32
    else:
        return ""
    if fits:
        return ""
    suffix = f"with format {form}" if form else "(default format)"
    return f"{what} value must be of type {kind} {suffix} in {path}"
