"""Checks of a CRD's schemas: the keywords that are allowed, the structure, and the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.crds import schema_defaults, structure
from ctrlhost_sandbox.schema.patterns import pattern_causes
from ctrlhost_sandbox.schema.structural import EMBEDDED, PRESERVE, Schema, properties

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.status import Cause

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REFUSED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_JUNCTORS = ("allOf", "oneOf", "anyOf")
_IDENTITY = ("apiVersion", "kind", "metadata")
_LIST_TYPE, _LIST_KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
#: The keywords at the root of a schema with the subresource `status`, as Go names them in messages.
_WITH_STATUS = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    PRESERVE: "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
#: Keywords that come before the type, where a real server stops at the first that is not allowed.
_BEFORE_TYPE = ("id", "$ref")


def causes(schema: Schema, field: str, *, has_status: bool) -> Iterator[Cause]:
    """Check the root schema of a version; with the subresource `status`, its root has fewer keywords."""
    if has_status:
        yield from _status_causes(schema, field)
    if schema.get("nullable"):
        yield status.forbidden_field(f"{field}.nullable", "nullable cannot be true at the root")
    yield from _node(schema, field, _Place(is_root=True))
    if structure.is_convertible(schema):
        structural = [*structure.causes(schema, field), *pattern_causes(schema, field)]
        # Defaults are checked by the schema, so that must be valid.
        yield from structural or schema_defaults.causes(schema, field)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands: at the root, within an object's identity, or where no defaults are allowed and why."""

    is_root: bool = False
    in_identity: bool = False
    no_defaults: str = ""


def _status_causes(schema: Schema, field: str) -> Iterator[Cause]:
    """Check the keywords at the root beside the subresource `status`; a real server names the first only."""
    kind, more = schema.get("type"), [name for name, value in schema.items() if value and name not in _WITH_STATUS]
    if kind and kind != "object" and not any(name in _BEFORE_TYPE for name in more):
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield status.invalid_value(f"{field}.type", kind, text)
    elif more:
        allowed = " ".join(_WITH_STATUS.values())
        text = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield status.invalid_value(field, schema, text)


def _node(schema: Schema, field: str, place: _Place) -> Iterator[Cause]:
    yield from _keyword_causes(schema, field, place)
    yield from _collection_causes(schema, field)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _map_causes(schema, items, field)
        yield from _key_causes(schema, items, field)
    elif schema.get(_LIST_TYPE) == "map":
        yield from _map_causes(schema, None, field)
    for child, where, below in _parts(schema, field, place):
        yield from _node(child, where, below)


def _parts(schema: Schema, field: str, place: _Place) -> Iterator[tuple[Schema, str, _Place]]:
    """Yield each schema in a schema, its field and its place."""
    place = replace(place, is_root=False) if (is_root := place.is_root) else place
    if isinstance(rest := schema.get("additionalProperties"), Mapping):
        why = "inside additionalProperties applying to object metadata"
        yield rest, f"{field}.additionalProperties", replace(place, no_defaults=why) if place.in_identity else place
    for name, child in properties(schema).items():
        below = place
        if (is_root or schema.get(EMBEDDED)) and name in _IDENTITY:
            below = replace(
                place, in_identity=True, no_defaults=f"in top-level {name}" if is_root else place.no_defaults
            )
        yield child, f"{field}.properties[{name}]", below
    for name in ("items", "not"):
        if isinstance(part := schema.get(name), Mapping):
            yield part, f"{field}.{name}", place
    for name in (*_JUNCTORS, "items"):
        parts = schema.get(name)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            yield part, f"{field}.{name}[{index}]", place
    for name in ("definitions", "dependencies"):
        for key, part in (schema.get(name) or {}).items():
            if isinstance(part, Mapping):
                yield part, f"{field}.{name}[{key}]", place


def _keyword_causes(schema: Schema, field: str, place: _Place) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield status.not_supported(f"{field}.type", kind, _TYPES)
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield status.forbidden_field(f"{field}.type", text)
    if schema.get("default") is not None and place.no_defaults:
        yield status.forbidden_field(f"{field}.default", f"must not be set {place.no_defaults}")
    for name in filter(schema.get, _REFUSED):
        yield status.forbidden_field(f"{field}.{name}", f"{name} is not supported")
    if isinstance(items := schema.get("items"), list) and items:
        yield status.forbidden_field(f"{field}.items", "items must be a schema object and not an array")
    if place.in_identity and schema.get(EMBEDDED):
        yield status.forbidden_field(f"{field}.{EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield status.forbidden_field(f"{field}.uniqueItems", text)
    if properties(schema) and schema.get("additionalProperties") not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        yield status.forbidden_field(f"{field}.additionalProperties", text)
    if schema.get(PRESERVE) is False:
        yield status.invalid_value(f"{field}.{PRESERVE}", False, "must be true or undefined")


def _collection_causes(schema: Schema, field: str) -> Iterator[Cause]:
    """Check the types of lists and maps."""
    kind, map_type, list_type = (schema.get(name) for name in ("type", _MAP_TYPE, _LIST_TYPE))
    for name, value, wanted in ((_MAP_TYPE, map_type, "object"), (_LIST_TYPE, list_type, "array")):
        if value is not None and kind != wanted:
            text = f"must be {wanted} if {name} is specified"
            yield status.invalid_value(f"{field}.type", kind, text) if kind else status.required(f"{field}.type", text)
    if map_type not in (None, "atomic", "granular"):
        yield status.not_supported(f"{field}.{_MAP_TYPE}", map_type, ("atomic", "granular"))
    if list_type not in (None, "atomic", "set", "map"):
        yield status.not_supported(f"{field}.{_LIST_TYPE}", list_type, ("atomic", "set", "map"))
    if list_type == "set" and kind == "array" and isinstance(items := schema.get("items"), Mapping):
        marks = {"array": _LIST_TYPE, "object": _MAP_TYPE}
        mark = marks.get(items.get("type") or "", "")
        if mark and items.get(mark) not in ("atomic", *((None,) if mark == _LIST_TYPE else ())):
            # A real server shows the type of a list for that of a map too.
            text = f"must be atomic as item of a list with {_LIST_TYPE}=set"
            yield status.invalid_value(f"{field}.items.{mark}", items.get(_LIST_TYPE), text)
    if schema.get(_LIST_KEYS) and list_type != "map":
        where, text = f"{field}.{_LIST_TYPE}", f"must be map if {_LIST_KEYS} is non-empty"
        yield status.required(where, text) if list_type is None else status.invalid_value(where, list_type, text)


def _map_causes(schema: Schema, items: Schema | None, field: str) -> Iterator[Cause]:
    """Check a list with keys."""
    if schema.get(_LIST_TYPE) != "map":
        return
    keys, where = schema.get(_LIST_KEYS) or [], f"{field}.{_LIST_KEYS}"
    if not keys:
        yield status.required(where, f"must not be empty if {_LIST_TYPE} is map")
    if items is None:
        if several := schema.get("items"):
            text = f"must only have a single schema if {_LIST_TYPE} is map"
            yield status.invalid_value(f"{field}.items", several, text)
        else:
            yield status.required(f"{field}.items", f"must have a schema if {_LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST_TYPE} is map"
        yield status.invalid_value(f"{field}.items.type", items.get("type") or "", text)
        return
    for index, key in enumerate(keys):
        if (child := properties(items).get(key)) is None:
            yield status.invalid_value(where, keys, "entries must all be names of item properties")
        elif child.get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield status.invalid_value(f"{field}.items.properties[{key}].type", items["type"], text)
        if key in keys[:index]:
            yield status.invalid_value(where, keys, "must not contain duplicate entries")


def _key_causes(schema: Schema, items: Schema, field: str) -> Iterator[Cause]:
    """Check that the items of a list with identities, and their keys, are never null or missing."""
    kind: Any = schema.get(_LIST_TYPE)
    if kind not in ("set", "map"):
        return
    if items.get("nullable"):
        yield status.forbidden_field(f"{field}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is {kind}")
    for key in (schema.get(_LIST_KEYS) or []) if kind == "map" else []:
        child, where = properties(items).get(key), f"{field}.items.properties[{key}]"
        if child is None:
            continue
        must = f"this property is in {_LIST_KEYS}, so it"
        if key not in (items.get("required") or ()) and child.get("default") is None:
            yield status.required(f"{where}.default", f"{must} must have a default or be a required property")
        if child.get("nullable"):
            yield status.forbidden_field(f"{where}.nullable", f"{must} cannot be nullable")
