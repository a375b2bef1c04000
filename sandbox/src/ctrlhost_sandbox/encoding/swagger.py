"""OpenAPI v2 documents in protobuf: the messages of gnostic's `openapi.v2`, which Kubernetes' clients decode."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MEDIA_TYPES = frozenset(
    f"application/com.github.proto-openapi.spec.v2{separator}v1.0+protobuf" for separator in ("@", ".")
)
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def document(head: Mapping[str, Any], paths: Iterable[bytes], definitions: Iterable[bytes]) -> bytes:
    """Encode a document from its first members and the entries of its paths and definitions."""
    parts = (_message("Document", head), _field(8, b"".join(paths)), _field(9, b"".join(definitions)))
    return b"".join(parts)


def entry(kind: str, name: str, value: Mapping[str, Any]) -> bytes:
    """Encode a path (`PathItem`) or a definition (`Schema`) for `document`.

    Members that the messages do not have are left out; extensions (`x-`) are kept.
    """
    return _field(2 if kind == "PathItem" else 1, _named(name, _message(kind, value)))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    value &= 0xFFFFFFFFFFFFFFFF
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(number: int, payload: bytes) -> bytes:
    return b"".join((_varint(number << 3 | 2), _varint(len(payload)), payload))


def _message(name: str, value: Mapping[str, Any]) -> bytes:
    members = _MESSAGES[name]
    parts: list[bytes] = []
    for key, item in value.items():
        member = members.get("x-" if key.startswith("x-") else key)
        if member is None:
            continue
        number, kind = member
        if key.startswith("x-"):
            parts.append(_field(number, _named(key, _any(item))))
        else:
            parts += _encoded(number, kind, item)
    return b"".join(parts)


def _encoded(number: int, kind: str, value: Any) -> list[bytes]:
    """Encode a member: a scalar, a message, `[kind]` for a list, or `{kind}` for a map with entries in field 1."""
    if kind == "flag":
        return [_varint(number << 3) + b"\1"] if value else []
    if kind == "integer":
        return [_varint(number << 3) + _varint(int(value))]
    if kind == "number":
        return [_varint(number << 3 | 1) + struct.pack("<d", value)]
    if kind.startswith("["):
        return [part for item in value for part in _encoded(number, kind[1:-1], item)]
    return [_field(number, _payload(kind, value))]


def _payload(kind: str, value: Any) -> bytes:
    if kind == "text":
        return str(value).encode()
    if kind == "any":
        return _any(value)
    if kind.startswith("{"):
        return b"".join(_field(1, _named(key, _payload(kind[1:-1], item))) for key, item in value.items())
    if kind == "types":
        return b"".join(_field(1, text.encode()) for text in ([value] if isinstance(value, str) else value))
    if kind == "additional" and isinstance(value, bool):
        return b"\x10\1" if value else b"\x10\0"
    if kind in ("items", "additional", "schema", "response"):
        # A choice whose first alternative is the message that Kubernetes uses.
        return _field(1, _message("Response" if kind == "response" else "Schema", value))
    if kind == "parameter":
        return _field(1, _parameter(value))
    return _message(kind, value)


def _parameter(value: Mapping[str, Any]) -> bytes:
    if value["in"] == "body":
        return _field(1, _message("BodyParameter", value))
    number, name = (3, "QueryParameter") if value["in"] == "query" else (4, "PathParameter")
    return _field(2, _field(number, _message(name, value)))


def _named(name: str, value: bytes) -> bytes:
    return _field(1, name.encode()) + _field(2, value)


def _any(value: Any) -> bytes:
    # The field is for YAML, of which JSON is a part.
    return _field(2, msgspec.json.encode(value))


_PARAMETER = {"required": (1, "flag"), "in": (2, "text"), "description": (3, "text"), "name": (4, "text")}
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Document": {"swagger": (1, "text"), "info": (2, "Info")},
    "Info": {"title": (1, "text"), "version": (2, "text")},
    "PathItem": {
        "get": (2, "Operation"),
        "put": (3, "Operation"),
        "post": (4, "Operation"),
        "delete": (5, "Operation"),
        "patch": (8, "Operation"),
        "parameters": (9, "[parameter]"),
        "x-": (10, "any"),
    },
    "Operation": {
        "tags": (1, "[text]"),
        "description": (3, "text"),
        "operationId": (5, "text"),
        "produces": (6, "[text]"),
        "consumes": (7, "[text]"),
        "parameters": (8, "[parameter]"),
        "responses": (9, "{response}"),
        "x-": (13, "any"),
    },
    "BodyParameter": {
        "description": (1, "text"),
        "name": (2, "text"),
        "in": (3, "text"),
        "required": (4, "flag"),
        "schema": (5, "Schema"),
        "x-": (6, "any"),
    },
    "QueryParameter": {**_PARAMETER, "type": (6, "text"), "format": (7, "text"), "uniqueItems": (20, "flag")},
    "PathParameter": {**_PARAMETER, "type": (5, "text"), "format": (6, "text"), "uniqueItems": (19, "flag")},
    "Response": {"description": (1, "text"), "schema": (2, "schema")},
    "Schema": {
        "$ref": (1, "text"),
        "format": (2, "text"),
        "title": (3, "text"),
        "description": (4, "text"),
        "default": (5, "any"),
        "multipleOf": (6, "number"),
        "maximum": (7, "number"),
        "exclusiveMaximum": (8, "flag"),
        "minimum": (9, "number"),
        "exclusiveMinimum": (10, "flag"),
        "maxLength": (11, "integer"),
        "minLength": (12, "integer"),
        "pattern": (13, "text"),
        "maxItems": (14, "integer"),
        "minItems": (15, "integer"),
        "uniqueItems": (16, "flag"),
        "maxProperties": (17, "integer"),
        "minProperties": (18, "integer"),
        "required": (19, "[text]"),
        "enum": (20, "[any]"),
        "additionalProperties": (21, "additional"),
        "type": (22, "types"),
        "items": (23, "items"),
        "allOf": (24, "[Schema]"),
        "properties": (25, "{Schema}"),
        "readOnly": (27, "flag"),
        "example": (30, "any"),
        "x-": (31, "any"),
    },
}
