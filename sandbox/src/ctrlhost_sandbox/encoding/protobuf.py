"""Request bodies in protobuf, as kubectl and client-go send them for built-in kinds."""

from __future__ import annotations

import base64
import datetime as dt
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.status import bad_request
from ctrlhost_sandbox.schema.normalize import conform
from ctrlhost_sandbox.schema.shapes import Shape, builtin, of_kind

MAGIC = b"k8s\0"
MAX_DEPTH = 100
Fields = Iterator[tuple[int, int, Any]]


class Malformed(Exception):
    """The bytes are not a valid message."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("truncated or overlong varint")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def fields(data: bytes) -> Fields:
    """Split a message into (field number, wire type, value)."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
            if len(value) != size:
                raise Malformed("truncated fixed-size number")
        elif wire == 2:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise Malformed("field longer than its message")
            value, at = data[at : at + size], at + size
        else:
            raise Malformed(f"unknown wire type {wire}")
        if not number:
            raise Malformed("field number 0")
        yield number, wire, value


def decode(body: bytes) -> dict[str, Any]:
    """Decode an enveloped object; 400 if it is invalid, KeyError if its kind is not built in."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        api_version = kind = ""
        raw = encoding = b""
        for number, wire, value in fields(body[4:]):
            if wire != 2:
                continue
            if number == 1:
                for member, _, text in fields(value):
                    if member == 1:
                        api_version = _text(text)
                    elif member == 2:
                        kind = _text(text)
            elif number == 2:
                raw = value
            elif number == 3:
                encoding = value
        group, _, version = api_version.rpartition("/")
        shape = builtin("meta.DeleteOptions") if kind == "DeleteOptions" else of_kind(group, version, kind)
        if shape is None or encoding:
            raise KeyError(kind)
        return {"apiVersion": api_version, "kind": kind, **_message(shape, raw, 0)}
    except (Malformed, ValueError, struct.error) as error:
        raise bad_request(f"unable to decode the protobuf message: {error}") from error


def _bytes(value: Any, what: str = "message") -> bytes:
    if type(value) is not bytes:
        raise Malformed(f"wrong wire type for a {what}")
    return value


def _text(value: Any) -> str:
    return _bytes(value, "string").decode("utf-8", "replace")


def _message(shape: Shape, data: bytes, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise Malformed("messages nested too deeply")
    by_number = {child.number: (name, child) for name, child in _own(shape).items()}
    result: dict[str, Any] = {}
    for number, wire, value in fields(data):
        if number in shape.inlined:
            result.update(_message(shape.inlined[number], _bytes(value), depth + 1))
            continue
        found = by_number.get(number)
        if found is None:
            continue
        name, child = found
        if child.type == "array":
            element = child.element or Shape("any")
            items = result.setdefault(name, [])
            if wire == 2 and element.type in ("integer", "boolean", "number"):
                items += _packed(element, value)
            else:
                items.append(_value(element, wire, value, depth))
        elif child.type == "map":
            key, item = _entry(child.element or Shape("any"), _bytes(value), depth)
            result.setdefault(name, {})[key] = item
        else:
            result[name] = _value(child, wire, value, depth)
    return result


def _own(shape: Shape) -> dict[str, Shape]:
    """Return the message's own fields: inlined members have the numbers of another message."""
    if not shape.inlined:
        return shape.fields
    foreign = {name for inner in shape.inlined.values() for name in inner.fields}
    return {name: child for name, child in shape.fields.items() if name not in foreign}


def _packed(element: Shape, data: bytes) -> list[Any]:
    items = []
    at = 0
    while at < len(data):
        number, at = _varint(data, at)
        items.append(_value(element, 0, number, 0))
    return items


def _entry(element: Shape, data: bytes, depth: int) -> tuple[str, Any]:
    key, item = "", _zero(element)
    for number, wire, value in fields(data):
        if number == 1:
            key = _text(value)
        elif number == 2:
            item = _value(element, wire, value, depth)
    return key, item


def _zero(shape: Shape) -> Any:
    return {"integer": 0, "boolean": False, "number": 0.0, "object": {}, "quantity": "0"}.get(shape.type, "")


def _value(shape: Shape, wire: int, value: Any, depth: int) -> Any:
    if shape.type in ("integer", "boolean"):
        if wire != 0:
            raise Malformed("wrong wire type for a number")
        return bool(value) if shape.type == "boolean" else _signed(value)
    if shape.type == "number":
        if wire != 1:
            raise Malformed("wrong wire type for a double")
        return struct.unpack("<d", value)[0]
    data = _bytes(value)
    if shape.type == "object":
        return _message(shape, data, depth + 1)
    if shape.type == "string":
        return _duration(data) if shape.name == "Duration" else _text(data)
    if shape.type == "array":
        # A list in a map, such as a user's extra: a message whose field 1 repeats.
        return [_value(shape.element or Shape("any"), kind, item, depth) for _, kind, item in fields(data)]
    return _SPECIAL[shape.type if shape.type != "any" else shape.name](data)


def _members(data: bytes) -> dict[int, Any]:
    return {number: value for number, _, value in fields(data)}


def _signed(value: Any) -> int:
    if type(value) is not int:
        raise Malformed("wrong wire type for a number")
    return value - 2**64 if value >= 2**63 else value


def _time(data: bytes, *, micros: bool = False) -> str | None:
    found = _members(data)
    if not found:
        return None
    seconds, nanos = _signed(found.get(1, 0)), _signed(found.get(2, 0))
    if not -62135596800 <= seconds < 253402300800 or not 0 <= nanos < 10**9:
        raise Malformed("time out of range")
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds, microseconds=nanos // 1000)
    return times.formatted(moment, micros=micros)


def _duration(data: bytes) -> str:
    return f"{_signed(_members(data).get(1, 0)) / 1e9:g}s"


def _int_or_string(data: bytes) -> int | str:
    found = _members(data)
    return _text(found.get(3, b"")) if found.get(1) == 1 else _signed(found.get(2, 0))


def _raw_json(data: bytes) -> Any:
    text = _members(data).get(1, b"")
    try:
        return msgspec.json.decode(_bytes(text)) if text else None
    except msgspec.DecodeError as error:
        raise Malformed("invalid JSON in a raw field") from error


def _schema(data: bytes) -> Any:
    shape = builtin("apiextensions.JSONSchemaProps")
    # Drop the zeros that Go writes here: fields that may hold one of several forms are not normalized later.
    return conform(shape, _message(shape, data, 1), "JSONSchemaProps", [])


def _schema_or_list(data: bytes) -> Any:
    parts = [(number, _schema(_bytes(value))) for number, _, value in fields(data)]
    listed = [schema for number, schema in parts if number == 2]
    return listed or (parts[0][1] if parts else {})


def _schema_or_bool(data: bytes) -> Any:
    found = _members(data)
    return _schema(_bytes(found[2])) if 2 in found else bool(found.get(1, 0))


def _schema_or_strings(data: bytes) -> Any:
    parts = list(fields(data))
    texts = [_text(value) for number, _, value in parts if number == 2]
    return texts or next((_schema(_bytes(value)) for number, _, value in parts if number == 1), {})


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "time": _time,
    "microtime": lambda data: _time(data, micros=True),
    "int-or-string": _int_or_string,
    "quantity": lambda data: _text(_members(data).get(1, b"")),
    "bytes": lambda data: base64.b64encode(data).decode(),
    "FieldsV1": _raw_json,
    "RawExtension": _raw_json,
    "JSON": _raw_json,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": _schema_or_strings,
}
