"""Objects that are generated from the schema of a CRD's version, and what a server keeps of an object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMATS = {
    "byte": "YQ==",
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "duration": "1h",
    "email": "ann@example.com",
    "hostname": "a.example",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://a.example/",
    "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
}
#: What patterns of strings often match.
_TEXTS = ("text-{}", "{}", "{}s", "{}Mi", "{}m", "{}x{}", "a.example:{}", "a", "A", "v1.{}.0")
#: Members whose values are those of every object.
_OF_OBJECTS = ("apiVersion", "kind", "metadata")


def generated(schema: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return an object with a value for each field for which one is found; another number, other values."""
    properties = schema.get("properties") or {}
    return {
        name: value
        for name, property_ in properties.items()
        if name not in _OF_OBJECTS and (value := _value(property_, number)) is not None
    }


def pruned(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return what a server keeps of a value: the fields that the schema has."""
    if isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        kept = {}
        for name, member in value.items():
            if name in properties:
                kept[name] = pruned(member, properties[name])
            elif others:
                kept[name] = pruned(member, others if isinstance(others, dict) else {})
        return kept
    if isinstance(value, list):
        return [pruned(item, schema.get("items") or {}) for item in value]
    return value


def _value(schema: Mapping[str, Any], number: int) -> Any:
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    if schema.get("x-kubernetes-int-or-string"):
        return number + 1
    match schema.get("type"):
        case "object":
            return _object(schema, number)
        case "array":
            item = _value(schema.get("items") or {}, number)
            return None if item is None else [item] * max(1, schema.get("minItems", 1))
        case "string":
            return _text(schema, number)
        case "integer" | "number":
            least = schema.get("minimum", 0)
            return min(least + number + 1, schema.get("maximum", least + number + 1))
        case "boolean":
            # The opposite of what the server sets.
            return not schema.get("default", False)
    return None


def _object(schema: Mapping[str, Any], number: int) -> dict[str, Any]:
    members = {name: _value(member, number) for name, member in (schema.get("properties") or {}).items()}
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        members[f"key-{number}"] = _value(others, number)
    elif not members and (others or schema.get("x-kubernetes-preserve-unknown-fields")):
        members[f"key-{number}"] = f"text-{number}"
    return {name: value for name, value in members.items() if value is not None}


def _text(schema: Mapping[str, Any], number: int) -> str | None:
    if (known := _FORMATS.get(schema.get("format", ""))) is not None:
        return known
    pattern = schema.get("pattern", "")
    for text in _TEXTS:
        value = text.format(number + 1, number + 2).ljust(schema.get("minLength", 0), "x")
        try:
            if len(value) <= schema.get("maxLength", len(value)) and re.search(pattern, value):
                return value
        except re.error:
            return None
    return None
