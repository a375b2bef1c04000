"""Checks of the fields by which a CRD's objects can be selected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema.structural import Schema, additional, properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.status import Cause

_MOST = 8
_TYPES = ("string", "boolean", "integer")
#: A delimiter, a text in single quotes, or a name.
_TOKEN = re.compile(r"[.\[\]]|'.*?(?<!\\)'|'.*|[^.\[\]]+", re.DOTALL)


def causes(fields: Sequence[Mapping[str, str]], schema: Schema, where: str) -> Iterator[Cause]:
    """Check the selectable fields of a version against its schema."""
    known: set[tuple[str, ...]] = set()
    for index, item in enumerate(fields):
        field, text = f"{where}[{index}].jsonPath", item.get("jsonPath") or ""
        if not text:
            yield status.required(field)
            continue
        try:
            path, leaf = _resolved(text, schema)
        except ValueError as problem:
            yield status.invalid_value(field, text, f"is an invalid path: {problem}")
            continue
        if path[0] == "metadata":
            yield status.invalid_value(field, text, "must not point to fields in metadata")
        if leaf.get("type") not in _TYPES:
            allowed = "must point to a field of type string, boolean or integer"
            more = "Enum string fields and strings with formats are allowed."
            yield status.invalid_value(field, text, f"{allowed}. {more}")
        if path in known:
            yield status.duplicate(field, text)
        known.add(path)
    if len(known) > _MOST:
        yield status.too_many(where, len(known), _MOST)


def _resolved(text: str, schema: Schema) -> tuple[tuple[str, ...], Schema]:
    """Return the parts of a path and the schema that it leads to; ValueError if it is invalid or leads nowhere."""
    path: list[str] = []
    tokens = iter(_TOKEN.findall(text))
    for token in tokens:
        if token == "[":
            raise ValueError("array notation is not allowed")
        if token != ".":
            raise ValueError(f"expected [ or . but got: {token}")
        name = next(tokens, None)
        if name is None:
            raise ValueError("unexpected end of JSON path")
        below = properties(schema).get(name) if properties(schema) else additional(schema)
        if below is None:
            raise ValueError("does not refer to a valid field")
        schema = below
        path.append(name)
    return tuple(path), schema
