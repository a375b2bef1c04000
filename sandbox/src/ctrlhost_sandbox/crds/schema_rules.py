"""Checks of a CRD's schemas: the rules of structural schemas."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema.patterns import pattern_causes
from ctrlhost_sandbox.schema.structural import (
    EMBEDDED,
    INT_OR_STRING,
    PRESERVE,
    VALIDATIONS,
    Schema,
    additional,
    properties,
    prune,
)
from ctrlhost_sandbox.schema.validation import validate

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.status import Cause

MAX_DEPTH = 60
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REFUSED = ("$ref", "$schema", "definitions", "dependencies", "id", "patternProperties", "additionalItems")
_NOT_IN_LOGIC = ("type", "default", "nullable", "description", "additionalProperties")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_NOT_WITH_STATUS = (*_JUNCTORS, "not", "enum", "default", "nullable", "minProperties", "maxProperties", EMBEDDED)
_ROOT = "<nil>"
"""The field of a cause about a whole value, as a real server names it."""
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def causes(schema: Schema, field: str, *, has_status: bool) -> Iterator[Cause]:
    """Check the root schema of a version; with the subresource `status`, its root has fewer keywords."""
    kind = schema.get("type")
    if has_status and kind and kind != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield status.invalid_value(f"{field}.type", kind, text)
    elif has_status and (name := next(filter(schema.get, _NOT_WITH_STATUS), "")):
        text = f"{name} is not allowed at the root of the schema if the status subresource is enabled"
        yield status.invalid_value(field, schema, text)
    if not kind:
        yield status.required(f"{field}.type", "must not be empty at the root")
    elif kind != "object":
        yield status.invalid_value(f"{field}.type", kind, "must be object at the root")
    if schema.get("nullable"):
        yield status.forbidden_field(f"{field}.nullable", "nullable cannot be true at the root")
    if "additionalProperties" in schema:
        yield status.forbidden_field(f"{field}.additionalProperties", "must not be used at the root")
    if set(properties(properties(schema).get("metadata") or {})) - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield status.forbidden_field(f"{field}.properties[metadata]", text)
    patterns = pattern_causes(schema, field)
    yield from patterns
    # Defaults are checked against the patterns, so those must be valid.
    if not patterns:
        yield from _logic_causes(schema, schema, field)
        yield from _node(schema, field, 0)


def _node(schema: Schema, field: str, depth: int) -> Iterator[Cause]:
    if depth > MAX_DEPTH:
        yield status.invalid_value(field, depth, f"the schema is nested deeper than {MAX_DEPTH} levels")
        return
    yield from _keyword_causes(schema, field)
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield status.not_supported(f"{field}.type", kind, _TYPES)
    if not kind and depth and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield status.required(f"{field}.type", "must not be empty for specified object fields")
    if kind and schema.get(INT_OR_STRING):
        yield status.invalid_value(f"{field}.type", kind, f"must be empty if {INT_OR_STRING} is true")
    yield from _list_causes(schema, field)
    yield from _default_causes(schema, field)
    for name, child in properties(schema).items():
        yield from _node(child, f"{field}.properties[{name}]", depth + 1)
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield from _node(items, f"{field}.items", depth + 1)
    elif isinstance(items, list):
        yield status.forbidden_field(f"{field}.items", "items must be a schema object and not an array")
    elif kind == "array":
        yield status.required(f"{field}.items", "must be specified")
    rest = schema.get("additionalProperties")
    if isinstance(rest, Mapping):
        yield from _node(rest, f"{field}.additionalProperties", depth + 1)


def _keyword_causes(schema: Schema, field: str) -> Iterator[Cause]:
    for name in filter(schema.get, _REFUSED):
        yield status.forbidden_field(f"{field}.{name}", f"{name} is not supported")
    for name in (*_JUNCTORS, "not"):
        parts = schema.get(name) or []
        for index, part in enumerate(parts if name in _JUNCTORS else [parts]):
            if isinstance(part, Mapping) and part.get(VALIDATIONS):
                where = f"{field}.{name}[{index}]" if name in _JUNCTORS else f"{field}.{name}"
                yield status.forbidden_field(f"{where}.{VALIDATIONS}", "must be empty to be structural")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield status.forbidden_field(f"{field}.uniqueItems", text)
    if properties(schema) and "additionalProperties" in schema:
        text = "additionalProperties and properties are mutual exclusive"
        yield status.forbidden_field(f"{field}.additionalProperties", text)
    if schema.get(PRESERVE) is False:
        yield status.invalid_value(f"{field}.{PRESERVE}", False, "must be true or undefined")
    if schema.get(EMBEDDED) and schema.get("type") != "object":
        yield status.invalid_value(f"{field}.type", schema.get("type", ""), f"must be object if {EMBEDDED} is true")


def _list_causes(schema: Schema, field: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if kind is None:
        return
    if kind not in ("atomic", "set", "map"):
        yield status.not_supported(f"{field}.x-kubernetes-list-type", kind, ("atomic", "set", "map"))
        return
    if schema.get("type") != "array":
        yield status.invalid_value(f"{field}.type", schema.get("type", ""), "must be array if list-type is specified")
        return
    items: Any = schema.get("items")
    items = items if isinstance(items, Mapping) else {}
    if kind != "atomic" and items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        yield status.forbidden_field(f"{field}.items.nullable", text)
    if kind == "map":
        if not keys:
            text = "must not be empty if x-kubernetes-list-type is map"
            yield status.required(f"{field}.x-kubernetes-list-map-keys", text)
        for key in keys:
            child = properties(items).get(key)
            if child is None:
                text = "entries must all be names of item properties"
                yield status.invalid_value(f"{field}.x-kubernetes-list-map-keys", keys, text)
                continue
            path = f"{field}.items.properties[{key}]"
            if child.get("type") in ("array", "object"):
                text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield status.invalid_value(f"{path}.type", items.get("type", ""), text)
            if child.get("nullable"):
                text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
                yield status.forbidden_field(f"{path}.nullable", text)
            if key not in (items.get("required") or ()) and "default" not in child:
                text = "a property in x-kubernetes-list-map-keys must have a default or be required"
                yield status.required(f"{path}.default", text)
    elif kind == "set":
        marks = (items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type"))
        if items.get("type") in ("array", "object") and "atomic" not in marks:
            yield status.forbidden_field(f"{field}.items", "items of a set must be scalar or atomic")


def _default_causes(schema: Schema, field: str) -> Iterator[Cause]:
    value = schema.get("default")
    if value is None:
        return
    unknown: list[str] = []
    if isinstance(value, (dict, list)):
        prune({"type": "object", "properties": {"value": schema}}, {"value": copy.deepcopy(value)}, unknown)
    if unknown:
        yield status.invalid_value(f"{field}.default", value, "must not have unknown fields")
    for cause in validate(schema, value):
        below = "" if cause.field in ("", _ROOT) else f".{cause.field}"
        yield replace(cause, field=f"{field}.default{below}")


def _logic_causes(schema: Schema, outer: Schema, field: str) -> Iterator[Cause]:
    """Check the contents of allOf, anyOf, oneOf and not: they may refine fields, but not declare them."""
    for name in _JUNCTORS:
        parts = schema.get(name) or []
        if schema.get(INT_OR_STRING) and [dict(part) for part in parts] == _INT_OR_STRING:
            continue
        for index, part in enumerate(parts):
            yield from _refinement(part, outer, f"{field}.{name}[{index}]", schema)
    if isinstance(schema.get("not"), Mapping):
        yield from _refinement(schema["not"], outer, f"{field}.not", schema)


def _refinement(part: Schema, outer: Schema | None, field: str, parent: Schema) -> Iterator[Cause]:
    for name in _NOT_IN_LOGIC:
        if name in part and not (parent.get(INT_OR_STRING) and name == "type"):
            yield status.forbidden_field(f"{field}.{name}", "must be undefined to be structural")
    for name, child in properties(part).items():
        declared = None if outer is None else properties(outer).get(name, additional(outer))
        if declared is None and outer is not None and not outer.get(PRESERVE):
            text = f"because it is defined in {field}.properties[{name}]"
            yield status.required(f"{field.partition('.')[0]}.properties[{name}]", text)
        yield from _refinement(child, declared, f"{field}.properties[{name}]", parent)
    items = part.get("items")
    if isinstance(items, Mapping):
        below = (outer or {}).get("items")
        yield from _refinement(items, below if isinstance(below, Mapping) else None, f"{field}.items", parent)
    for name in _JUNCTORS:
        for index, inner in enumerate(part.get(name) or ()):
            yield from _refinement(inner, outer, f"{field}.{name}[{index}]", parent)
