"""Normalize objects as decoding into a Go server's types does.

Unknown fields and zero values of optional fields are dropped, structs that are always written are added, times and
quantities are put into canonical form. A JSON value of the wrong type is a 400, worded as by Go's decoder.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import Any

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.schema.shapes import Shape

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII)
#: As a real server shows it for an invalid quantity.
_QUANTITY_TEXT = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {power: suffix for suffix, power in _POWERS.items()}
_ZEROS = {"string": "", "integer": 0, "boolean": False, "bytes": "", "quantity": "0", "int-or-string": 0}
_INT64 = 2**63
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]", re.ASCII)
_INDEX = re.compile(r"\[\d+\]", re.ASCII)


class Undecodable(Failure):
    """A 400: a JSON value does not fit its field."""

    def __init__(self, why: str, restored: str = "") -> None:
        """Keep the decoder's text, and that of a strategic merge patch."""
        super().__init__(400, "BadRequest", why)
        self.why = why
        self.restored = restored or why

    def of(self, kind: str, version: str) -> Undecodable:
        """Add kind and version to the message."""
        self.message = f'{kind} in version "{version}" cannot be handled as a {kind}: {self.why}'
        return self


def conform(shape: Shape, value: dict[str, Any], kind: str, unknown: list[str]) -> dict[str, Any]:
    """Return the object in canonical form; append the paths of unknown fields to `unknown`."""
    return _object(shape, value, "", unknown, kind)


def _object(shape: Shape, value: Any, path: str, unknown: list[str], kind: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise _mismatch(value, path, shape, kind)
    result: dict[str, Any] = {}
    fields = shape.fields
    # Messages name the struct of the field.
    kind = shape.name.rpartition(".")[2] or kind
    for name, item in value.items():
        child = fields.get(name)
        where = f"{path}.{name}" if path else name
        if child is None:
            if shape.open or (not path and name in ("apiVersion", "kind")):
                result[name] = item
            else:
                unknown.append(where)
            continue
        if item is None:
            continue
        clean = _value(child, item, where, unknown, kind)
        if clean is not None:
            result[name] = clean
    for name, child in fields.items():
        if name not in result:
            if child.value_struct:
                result[name] = _object(child, {}, name, unknown, kind)
            elif child.type == "quantity" and not child.pointer:
                result[name] = "0"
            elif child.written and child.type in ("integer", "boolean", "string"):
                result[name] = _ZEROS[child.type]
    return result


def _value(shape: Shape, value: Any, path: str, unknown: list[str], kind: str) -> Any:
    """Return the canonical value; None if it is omitted."""
    what = shape.type
    kept = shape.pointer or shape.written
    if what == "object":
        return _object(shape, value, path, unknown, kind)
    if what == "string":
        if type(value) is not str:
            raise _mismatch(value, path, shape, kind)
        return value if value or kept else None
    if what == "any":
        return value
    if what == "map":
        return _map(shape, value, path, unknown, kind)
    if what == "array":
        if type(value) is not list:
            raise _mismatch(value, path, shape, kind)
        if not value:
            return None
        element = shape.element or Shape("any")
        return [_item(element, item, f"{path}[{index}]", unknown, kind) for index, item in enumerate(value)]
    if what == "boolean":
        if type(value) is not bool:
            raise _mismatch(value, path, shape, kind)
        return value if value or kept else None
    if what == "integer":
        return _integer(shape, value, path, kind, kept=kept)
    return _special(shape, value, path, kind)


def _map(shape: Shape, value: Any, path: str, unknown: list[str], kind: str) -> Any:
    if type(value) is not dict:
        raise _mismatch(value, path, shape, kind)
    if not value:
        return None
    element = shape.element or Shape("any")
    if element.type == "string":
        for item in value.values():
            if type(item) is not str and item is not None:
                raise _mismatch(item, path, element, kind)
        return {key: item or "" for key, item in value.items()}
    return {key: _item(element, item, f"{path}.{key}", unknown, kind) for key, item in value.items()}


def _item(shape: Shape, value: Any, path: str, unknown: list[str], kind: str) -> Any:
    """Return the canonical element of a list or map; elements are never omitted."""
    if value is None:
        return {} if shape.type == "object" else _ZEROS.get(shape.type)
    clean = _value(shape, value, path, unknown, kind)
    return value if clean is None else clean


def _integer(shape: Shape, value: Any, path: str, kind: str, *, kept: bool) -> Any:
    if type(value) is float and value.is_integer() and abs(value) < _INT64:
        value = int(value)
    limit = 2**31 if shape.name == "int32" else _INT64
    if type(value) is not int or not -limit <= value < limit:
        raise _mismatch(value, path, shape, kind)
    return value if value or kept else None


def _special(shape: Shape, value: Any, path: str, kind: str) -> Any:
    what = shape.type
    if what == "int-or-string":
        if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
            return value
        raise _mismatch(value, path, shape, kind)
    if what == "number":
        if type(value) not in (int, float):
            raise _mismatch(value, path, shape, kind)
        return value
    if what == "quantity":
        text = str(value) if type(value) in (int, float) else value
        if type(text) is not str or len(text) > 64 or not _QUANTITY.fullmatch(text):
            raise Undecodable(f"quantities must match the regular expression '{_QUANTITY_TEXT}'")
        return quantity(text)
    numbers = what == "bytes" and type(value) is list
    if numbers and all(item is None or (type(item) is int and 0 <= item < 256) for item in value):
        return base64.b64encode(bytes(item or 0 for item in value)).decode()
    if type(value) is not str:
        raise _mismatch(value, path, shape, kind)
    if what == "bytes":
        value = value.replace("\n", "").replace("\r", "")
        try:
            base64.b64decode(value, validate=True)
        except ValueError as error:
            invalid = _NOT_BASE64.search(value)
            at = invalid.start() if invalid else len(value) // 4 * 4
            raise Undecodable(f"illegal base64 data at input byte {at}") from error
        return value
    micros = what == "microtime"
    try:
        return times.canonical(value, micros=micros)
    except ValueError as error:
        raise Undecodable(times.problem(value, micros=micros)) from error


def quantity(text: str) -> str:
    """Format a quantity with the largest decimal or binary suffix that leaves no fraction."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return text
    sign, digits, exponent, suffix = match.groups(default="")
    if exponent or suffix.endswith("i"):
        return text
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    number, power = int((whole or "0") + fraction), _POWERS[suffix] - len(fraction)
    if not number:
        return "0"
    while power % 3 or power < -9:
        number, power = number * 10, power - 1
        if power < -9:
            return text
    while number % 1000 == 0 and power < 18:
        number, power = number // 1000, power + 3
    return f"{sign.replace('+', '')}{number}{_SUFFIXES.get(power, '')}"


def amount(text: str) -> Decimal:
    """Return the number that a quantity stands for."""
    match = _QUANTITY.fullmatch(text)
    assert match is not None
    sign, digits, exponent, suffix = match.groups(default="")
    number = Decimal(f"{sign}{digits}{exponent}")
    if suffix.endswith("i"):
        return number * Decimal(1024 ** ("KMGTPE".index(suffix[0]) + 1))
    return number.scaleb(_POWERS[suffix])


def is_whole(text: str) -> bool:
    """Return whether a quantity is an integer, however large."""
    number = amount(text)
    return number == number.to_integral_value()


def _mismatch(value: Any, path: str, shape: Shape, kind: str) -> Undecodable:
    where, wanted = _INDEX.sub("", path), go_text.type_of(shape)
    why = f"json: cannot unmarshal {go_text.json_kind(value)} into Go struct field {kind}.{where} of type {wanted}"
    return Undecodable(why, go_text.not_restored(value, shape))
