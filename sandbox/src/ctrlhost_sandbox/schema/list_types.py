"""The items of sets and of lists with keys, which must differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema.structural import Schema, additional, properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.status import Cause

_TYPE = "x-kubernetes-list-type"


def causes(schema: Schema, value: Any) -> list[Cause]:
    """Check the lists in an object; a real server checks all of them, also those that have not changed."""
    return list(_causes(schema, value, "")) if _has_types(schema) else []


def key(item: Any, keys: Sequence[str]) -> str:
    """Return the identity of an item by its keys."""
    return msgspec.json.encode([item.get(name) if type(item) is dict else None for name in keys]).decode()


def _has_types(schema: Schema) -> bool:
    """Return whether there is anything to check below a schema."""
    if schema.get(_TYPE) in ("set", "map"):
        return True
    below = [*properties(schema).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(isinstance(child, Mapping) and _has_types(child) for child in below)


def _causes(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if type(value) is dict:
        declared, rest = properties(schema), additional(schema)
        for name, item in value.items():
            if (child := declared.get(name, rest)) is not None:
                yield from _causes(child, item, f"{path}.{name}" if path else name)
    elif type(value) is list:
        yield from _list_causes(schema, value, path)
        if isinstance(items := schema.get("items"), Mapping):
            for index, item in enumerate(value):
                yield from _causes(items, item, f"{path}[{index}]")


def _list_causes(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    kind, keys = schema.get(_TYPE), schema.get("x-kubernetes-list-map-keys") or ()
    stray = next((at for at, item in enumerate(value) if kind == "map" and type(item) not in (dict, type(None))), None)
    if stray is not None:
        text = "must be an object for an array of list-type map"
        yield status.invalid_value(f"{path}[{stray}]", value[stray], text)
    elif kind in ("set", "map"):
        seen: dict[str, int] = {}
        for index, item in enumerate(value):
            identity = key(item, keys) if kind == "map" else msgspec.json.encode(item, order="sorted").decode()
            seen[identity] = seen.get(identity, 0) + 1
            if seen[identity] == 2:
                duplicate = {name: item[name] for name in keys if name in (item or ())} if kind == "map" else item
                yield status.duplicate(f"{path}[{index}]", duplicate)
