"""The rules of structural schemas: each field is declared once, outside of all logic, and has a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema.structural import EMBEDDED, INT_OR_STRING, PRESERVE, VALIDATIONS, Schema, properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.status import Cause

_UNCONVERTIBLE = ("id", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
_JUNCTORS = ("anyOf", "allOf", "oneOf")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
#: What a schema within logic must not have, and the words for it.
_NOT_IN_LOGIC = {
    "type": "must be empty",
    "additionalProperties": "must be undefined",
    "default": "must be undefined",
    "title": "must be empty",
    "description": "must be empty",
    "nullable": "must be false",
    PRESERVE: "must be false",
    EMBEDDED: "must be false",
    INT_OR_STRING: "must be false",
    "x-kubernetes-list-map-keys": "must be empty",
    "x-kubernetes-list-type": "must be undefined",
    "x-kubernetes-map-type": "must be undefined",
    VALIDATIONS: "must be empty",
}
_SET_EVEN_IF_FALSE = ("additionalProperties", "default")
_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"


def is_convertible(schema: Schema) -> bool:
    """Return whether all of a schema has a structural form, so that its structure can be checked."""
    if any(map(schema.get, _UNCONVERTIBLE)) or (isinstance(schema.get("items"), list) and schema["items"]):
        return False
    return all(map(is_convertible, _parts(schema)))


def _parts(schema: Schema) -> Iterator[Schema]:
    yield from properties(schema).values()
    for name in ("items", "additionalProperties", "not"):
        if isinstance(part := schema.get(name), Mapping):
            yield part
    for name in _JUNCTORS:
        yield from schema.get(name) or ()


def causes(schema: Schema, field: str) -> Iterator[Cause]:
    """Check the root schema of a version."""
    yield from _node(schema, field, _ROOT)
    yield from _incomplete(schema, schema, field, field)


def _node(schema: Schema, field: str, level: str) -> Iterator[Cause]:
    kind, items, rest = schema.get("type") or "", schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, Mapping):
        yield from _node(items, f"{field}.items", _ITEM)
    elif kind == "array":
        yield status.required(f"{field}.items", "must be specified")
    for name, child in properties(schema).items():
        yield from _node(child, f"{field}.properties[{name}]", _FIELD)
    if rest is not None and level is _ROOT:
        yield status.forbidden_field(f"{field}.additionalProperties", "must not be used at the root")
    if isinstance(rest, Mapping):
        yield from _node(rest, f"{field}.additionalProperties", _FIELD)
    for name in (PRESERVE, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(name):
            text = f"must be false if {INT_OR_STRING} is true"
            yield status.invalid_value(f"{field}.{name}", True, text)
    first: Schema = next(iter(schema.get("allOf") or []), {})
    spelt_out, first_spelt_out = (part.get("anyOf") == _INT_OR_STRING for part in (schema, first))
    yield from _logic(schema, field, spelt_out=spelt_out, first_spelt_out=first_spelt_out)
    yield from _type_causes(schema, field, kind, level)
    if schema.get(EMBEDDED):
        yield from _embedded_causes(schema, field)
    yield from _identity_causes(schema, field, level)


def _type_causes(schema: Schema, field: str, kind: str, level: str) -> Iterator[Cause]:
    if schema.get(EMBEDDED) and kind != "object":
        text = f"must be object if {EMBEDDED} is true"
        yield status.invalid_value(f"{field}.type", kind, text) if kind else status.required(f"{field}.type", text)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield status.required(f"{field}.type", f"must not be empty {level}")
    if level is _ROOT and kind not in ("", "object"):
        yield status.invalid_value(f"{field}.type", kind, "must be object at the root")


def _embedded_causes(schema: Schema, field: str) -> Iterator[Cause]:
    if schema.get("additionalProperties") is not None:
        text = f"must not be used if {EMBEDDED} is set"
        yield status.forbidden_field(f"{field}.additionalProperties", text)
    if not schema.get(PRESERVE) and not properties(schema):
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield status.required(f"{field}.properties", text)


def _identity_causes(schema: Schema, field: str, level: str) -> Iterator[Cause]:
    """Check what an object, the root's or an embedded one, declares about its apiVersion, kind and metadata."""
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        declared, where = properties(schema).get(name), f"{field}.properties[{name}]"
        if declared is None or not (level is _ROOT or schema.get(EMBEDDED)):
            continue
        if declared.get("type") != wanted:
            yield status.invalid_value(f"{where}.type", declared.get("type") or "", f"must be {wanted}")
        if name == "metadata" and level is _ROOT and _declares_more_than_names(declared):
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield status.forbidden_field(where, text)


def _declares_more_than_names(metadata: Schema) -> bool:
    more = {name for name, value in metadata.items() if value and name not in ("type", "default")}
    return bool(more - {"properties"} or set(properties(metadata)) - {"name", "generateName"})


def _logic(schema: Schema, field: str, *, spelt_out: bool, first_spelt_out: bool) -> Iterator[Cause]:
    """Check the parts of a schema's logic.

    The flags say where `anyOf` spells out int-or-string, which may name types: in the schema or its first `allOf`.
    """
    for index, part in enumerate([] if spelt_out else schema.get("anyOf") or []):
        yield from _nested(part, f"{field}.anyOf[{index}]")
    for index, part in enumerate(schema.get("allOf") or []):
        yield from _nested(part, f"{field}.allOf[{index}]", spelt_out=first_spelt_out and not index)
    for index, part in enumerate(schema.get("oneOf") or []):
        yield from _nested(part, f"{field}.oneOf[{index}]")
    if isinstance(part := schema.get("not"), Mapping):
        yield from _nested(part, f"{field}.not")


def _nested(schema: Schema, field: str, *, spelt_out: bool = False) -> Iterator[Cause]:
    """Check a schema within logic: it may constrain fields, but not declare them."""
    yield from _logic(schema, field, spelt_out=spelt_out, first_spelt_out=False)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _nested(items, f"{field}.items")
    for name, child in properties(schema).items():
        yield from _nested(child, f"{field}.properties[{name}]")
    for name, words in _NOT_IN_LOGIC.items():
        value = schema.get(name)
        if value or (value is not None and name in _SET_EVEN_IF_FALSE):
            yield status.forbidden_field(f"{field}.{name}", f"{words} to be structural")
    if "metadata" in properties(schema):
        yield status.forbidden_field(f"{field}.properties[metadata]", "must not be specified in a nested context")


def _incomplete(schema: Schema, outer: Schema | None, place: str, field: str) -> Iterator[Cause]:
    """Check that what logic constrains at `field` is declared at `place`."""
    for part, where in _logic_parts(schema, field):
        yield from _undeclared(part, outer, place, where)


def _logic_parts(schema: Schema, field: str) -> Iterator[tuple[Schema, str]]:
    if isinstance(part := schema.get("not"), Mapping):
        yield part, f"{field}.not"
    for name in _JUNCTORS:
        for index, part in enumerate(schema.get(name) or []):
            yield part, f"{field}.{name}[{index}]"


def _undeclared(part: Schema, outer: Schema | None, place: str, field: str) -> Iterator[Cause]:
    if outer is None:
        yield status.required(place, f"because it is defined in {field}")
        return
    yield from _incomplete(part, outer, place, field)
    if isinstance(items := part.get("items"), Mapping):
        below: Any = outer.get("items")
        below = below if isinstance(below, Mapping) else None
        yield from _undeclared(items, below, f"{place}.items", f"{field}.items")
    for name, child in properties(part).items():
        below = properties(outer).get(name)
        yield from _undeclared(child, below, f"{place}.properties[{name}]", f"{field}.properties[{name}]")
