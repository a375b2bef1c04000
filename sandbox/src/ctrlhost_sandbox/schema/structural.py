"""Pruning and defaulting by the structural schema of a CRD version."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ctrlhost_sandbox.schema import embedded
from ctrlhost_sandbox.schema.shapes import ANY, Shape, builtin

Schema = Mapping[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
VALIDATIONS = "x-kubernetes-validations"
_NO_SCHEMA: Schema = {PRESERVE: True}
_IDENTITY = ("apiVersion", "kind", "metadata")


def properties(schema: Schema) -> Mapping[str, Schema]:
    """Return the declared properties."""
    members: Mapping[str, Schema] = schema.get("properties") or {}
    return members


def additional(schema: Schema) -> Schema | None:
    """Return the schema of undeclared properties; None if they are not allowed."""
    rest = schema.get("additionalProperties")
    if isinstance(rest, Mapping):
        return rest
    return _NO_SCHEMA if rest is True else None


def shape_of(schema: Schema) -> Shape:
    """Return the shape for field tracking and strict decoding."""
    kind = schema.get("type")
    if schema.get(INT_OR_STRING):
        return Shape("int-or-string")
    if kind == "object":
        fields = {name: shape_of(child) for name, child in properties(schema).items()}
        values = additional(schema)
        atomic = schema.get("x-kubernetes-map-type") == "atomic"
        if values is not None and not fields:
            return Shape("map", element=shape_of(values), atomic=atomic)
        if schema.get(EMBEDDED):
            fields = {**fields, "apiVersion": ANY, "kind": ANY, "metadata": builtin("meta.ObjectMeta")}
        return Shape("object", fields=fields, atomic=atomic, open=bool(schema.get(PRESERVE)))
    if kind == "array":
        items = schema.get("items")
        element, below = (shape_of(items), properties(items)) if isinstance(items, Mapping) else (ANY, {})
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        defaults = {key: below[key]["default"] for key in keys if "default" in below.get(key, ())}
        list_type = schema.get("x-kubernetes-list-type") or "atomic"
        return Shape("array", element=element, list_type=list_type, keys=keys, key_defaults=defaults)
    if kind in ("string", "integer", "number", "boolean"):
        return Shape(kind)
    return ANY


def prune(schema: Schema, value: Any, unknown: list[str] | None = None) -> None:
    """Remove unknown fields from a custom resource, in place; its root is always an object."""
    _prune(schema, value, "", unknown, resource=True)


def has_unknown(schema: Schema, value: Any) -> bool:
    """Return whether a value has fields that pruning would remove. Those in the metadata of objects do not count."""
    if type(value) is list:
        items = schema.get("items")
        return isinstance(items, Mapping) and any(has_unknown(items, item) for item in value)
    if type(value) is not dict:
        return False
    declared, rest = properties(schema), additional(schema)
    for name, item in value.items():
        if schema.get(EMBEDDED) and name in _IDENTITY:
            continue
        child = declared.get(name, rest)
        if (child is None and not schema.get(PRESERVE)) or (child is not None and has_unknown(child, item)):
            return True
    return False


def _prune(schema: Schema, value: Any, path: str, unknown: list[str] | None, *, resource: bool) -> None:
    if type(value) is list:
        items = schema.get("items")
        child = items if isinstance(items, Mapping) else _NO_SCHEMA
        for index, item in enumerate(value):
            if type(item) in (dict, list):
                _prune(child, item, f"{path}[{index}]", unknown, resource=bool(child.get(EMBEDDED)))
        return
    if type(value) is not dict:
        return
    declared, rest, keep = properties(schema), additional(schema), schema.get(PRESERVE)
    # A real server prunes embedded metadata after everything else.
    for name in sorted(value, key="metadata".__eq__):
        if resource and name in _IDENTITY:
            # The root's metadata is normalized elsewhere.
            if path:
                value[name] = embedded.conform_member(name, value[name], path, unknown)
            continue
        where = f"{path}.{name}" if path else name
        member = declared.get(name, rest)
        if member is None:
            if keep:
                continue
            del value[name]
            if unknown is not None:
                unknown.append(where)
        elif type(value[name]) in (dict, list):
            _prune(member, value[name], where, unknown, resource=bool(member.get(EMBEDDED)))


def default(schema: Schema, value: Any, *, keep_nulls: bool = False) -> None:
    """Set defaults, in place, and drop nulls that are not allowed, unless they are kept for validation to refuse."""
    if type(value) is list:
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, item in enumerate(value):
                if item is None and "default" in items and not items.get("nullable"):
                    value[index] = _default_of(items)
                default(items, value[index], keep_nulls=keep_nulls)
        return
    if type(value) is not dict:
        return
    declared, rest = properties(schema), additional(schema)
    for name, child in declared.items():
        if value.get(name) is None and not (name in value and child.get("nullable")):
            if "default" in child:
                value[name] = _default_of(child, name if schema.get(EMBEDDED) else "")
            elif name in value and not keep_nulls:
                del value[name]
        if name in value:
            default(child, value[name], keep_nulls=keep_nulls)
    if rest is not None:
        for name in list(value):
            if name in declared:
                continue
            if value[name] is None and not rest.get("nullable") and rest is not _NO_SCHEMA:
                if "default" in rest:
                    value[name] = _default_of(rest)
                elif not keep_nulls:
                    del value[name]
                    continue
            default(rest, value[name], keep_nulls=keep_nulls)


def _default_of(schema: Schema, member: str = "") -> Any:
    """Return the default of a schema, in which metadata may have unknown fields; `member` names one of an object."""
    value = copy.deepcopy(schema["default"])
    if member in _IDENTITY:
        return embedded.conform_member(member, value, "", None)
    _prune(schema, value, ".", None, resource=bool(schema.get(EMBEDDED)))
    return value


def children(schema: Schema) -> list[Schema]:
    """Return the direct children of a schema."""
    below = list(properties(schema).values())
    for key in ("items", "additionalProperties", "not"):
        part = schema.get(key)
        if isinstance(part, Mapping):
            below.append(part)
    for key in ("allOf", "anyOf", "oneOf"):
        below += [item for item in schema.get(key) or () if isinstance(item, Mapping)]
    return below
