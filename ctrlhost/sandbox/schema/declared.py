"""Fields of an applied configuration that its schema does not declare."""

from __future__ import annotations

from typing import Any

from ctrlhost.sandbox.schema.fieldset import dotted, element_of, is_keyed
from ctrlhost.sandbox.schema.shapes import ANY, Shape

_TYPE = ("apiVersion", "kind")


def undeclared(shape: Shape, obj: dict[str, Any]) -> list[str]:
    """Return the paths of the fields that are not declared, such as `.spec.containers[name="c"].odd`, in order."""
    found: list[str] = []
    _check(shape, {key: value for key, value in obj.items() if key not in _TYPE}, "", found)
    return sorted(found)


def _check(shape: Shape, value: Any, path: str, found: list[str]) -> None:
    if shape.type == "any":
        return
    if type(value) is dict and shape.type in ("object", "map"):
        for key, item in value.items():
            child = shape.child(key)
            if child is None:
                found.append(f"{path}.{key}")
            else:
                _check(child, item, f"{path}.{key}", found)
    elif type(value) is list and shape.type == "array":
        element = shape.element or ANY
        for index, item in enumerate(value):
            where = dotted((element_of(shape, item),)) if is_keyed(shape) else f"[{index}]"
            _check(element, item, f"{path}{where}", found)
