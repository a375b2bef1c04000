"""Checks of the defaults in a CRD's schemas: each is pruned, and fits its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema import embedded
from ctrlhost_sandbox.schema.normalize import Undecodable
from ctrlhost_sandbox.schema.structural import EMBEDDED, Schema, has_unknown, properties
from ctrlhost_sandbox.schema.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.status import Cause

_WHOLE = "<nil>"
"""The field of a cause about a whole value, as a real server names it."""
_IDENTITY = ("apiVersion", "kind", "metadata")
_VALID = {"apiVersion": "validation/v1", "kind": "Validation"}


def causes(schema: Schema, field: str) -> Iterator[Cause]:
    """Check the defaults of a structural schema; those below `additionalProperties` are left alone."""
    yield from _node({**schema, EMBEDDED: True}, field, None)


def _node(schema: Schema, field: str, path: tuple[str, ...] | None) -> Iterator[Cause]:
    """Check a schema; `path` leads to it from its object, if it is within that object's identity."""
    if schema.get(EMBEDDED):
        path = None
    if (value := schema.get("default")) is not None:
        yield from _default_causes(schema, value, f"{field}.default", path)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _node(items, f"{field}.items", None if path is None else (*path, ""))
    for name, child in properties(schema).items():
        below = None if path is None else (*path, name)
        if schema.get(EMBEDDED) and name in _IDENTITY:
            below = (name,)
        yield from _node(child, f"{field}.properties[{name}]", below)


def _default_causes(schema: Schema, value: Any, field: str, path: tuple[str, ...] | None) -> Iterator[Cause]:
    if path is not None:
        if problem := _identity_problem(value, path):
            yield status.invalid_value(field, value, f"must result in valid metadata: {problem}")
            return
    elif has_unknown(schema, value):
        yield status.invalid_value(field, value, "must not have unknown fields")
    for cause in validate(schema, value):
        below = "" if cause.field in ("", _WHOLE) else f".{cause.field}"
        yield replace(cause, field=f"{field}{below}")


def _identity_problem(value: Any, path: tuple[str, ...]) -> str:
    """Return why an object with this default in its identity is invalid."""
    for name in reversed(path):
        value = {name: value} if name else [value]
    obj = {**_VALID, **value}
    try:
        obj = {name: embedded.conform_member(name, item, "", None) for name, item in obj.items()}
    except Undecodable as error:
        return error.why.removeprefix(".")
    problems = [f"{cause.field.removeprefix('.')}: {cause.message}" for cause in embedded.causes(obj, "")]
    return status.joined(problems) if problems else ""
