"""Objects to index, and index functions."""

from __future__ import annotations

from typing import Any

from ctrlhost.cache import (
    Object,
)


def thing(name: str, namespace: str = "", version: int | str = "", **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if version != "":
        metadata["resourceVersion"] = str(version)
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **fields}


def by_value(obj: Object) -> list[str]:
    return [obj["value"]]


def by_users(obj: Object) -> list[str]:
    return str(obj["users"]).split(",")


def names(objects: list[Object]) -> set[str]:
    assert len({obj.key for obj in objects}) == len(objects)
    return {obj.name for obj in objects}
