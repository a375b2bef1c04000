"""OpenAPI v2: one document for all kinds, derived from the documents of version 3.

As in a real server, what version 2 cannot express is left out (`oneOf`, `nullable` and so on), and a field that keeps
unknown fields has no type, so that clients do not refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from ctrlhost_sandbox.encoding import swagger
from ctrlhost_sandbox.encoding.negotiation import JSON, clauses
from ctrlhost_sandbox.registry.registry import Kind
from ctrlhost_sandbox.schema.structural import PRESERVE

_V3 = "#/components/schemas/"
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_GVK = "x-kubernetes-group-version-kind"
Schema = Mapping[str, Any]
Describe = Callable[[list[Kind]], Mapping[str, Any]]


def media_type(header: str) -> str:
    """Return the media type for an Accept header; "" if none of its types is available."""
    if not header:
        return JSON
    for media, _ in clauses(header):
        if media in (JSON, "application/*", "*/*"):
            return JSON
        if media in swagger.MEDIA_TYPES:
            return swagger.CONTENT_TYPE
    return ""


class Swagger:
    """The document. What one group version adds is kept until its kinds change."""

    def __init__(self, describe: Describe, version: str) -> None:
        """Convert what `describe` returns for the kinds of a group version."""
        self._describe = describe
        self._head = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": f"v{version}"}}
        self._parts: dict[tuple[Kind, ...], _Part] = {}

    def encode(self, groups: Iterable[list[Kind]], media: str) -> bytes:
        """Return the document of the kinds of these group versions as JSON or protobuf."""
        known = self._parts
        self._parts = {key: known.get(key) or _Part(self._describe(list(key))) for key in map(tuple, groups)}
        paths: dict[str, Any] = {}
        definitions: dict[str, Any] = {}
        for part in self._parts.values():
            more = (part.paths, part.definitions) if media == JSON else part.messages
            paths |= more[0]
            definitions |= more[1]
        if media == JSON:
            return msgspec.json.encode({**self._head, "paths": paths, "definitions": definitions})
        return swagger.document(self._head, paths.values(), definitions.values())


class _Part:
    """What the kinds of one group version add to the document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Convert a document of version 3."""
        schemas = document["components"]["schemas"].items()
        self.paths = {path: _raw(_path(item)) for path, item in document["paths"].items()}
        self.definitions = {name: _raw(_definition(schema)) for name, schema in schemas}

    @cached_property
    def messages(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The paths and definitions in protobuf."""
        parts = []
        for kind, values in (("PathItem", self.paths), ("Schema", self.definitions)):
            parts.append({name: swagger.entry(kind, name, msgspec.json.decode(raw)) for name, raw in values.items()})
        return parts[0], parts[1]


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _path(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the operations of a path; parameters have their type in themselves."""
    operations = {}
    for action, operation in item.items():
        parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
        operations[action] = {**operation, "parameters": parameters} if parameters else operation
    return operations


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in parameter.items() if key != "schema"}
    return {**rest, **parameter.get("schema", {})}


def _definition(schema: Schema) -> Schema:
    """Convert the schema of a type or a kind."""
    if not schema.get(PRESERVE):
        return _converted(schema)
    # kubectl refuses unknown fields beside declared ones.
    return {"type": "object"} | {key: schema[key] for key in (_GVK,) if key in schema}


def _converted(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {**schema, "$ref": schema["$ref"].replace(_V3, "#/definitions/")}
    if reference := _only_reference(schema):
        rest = {key: value for key, value in schema.items() if key not in ("allOf", "default")}
        return {**rest, "$ref": reference.replace(_V3, "#/definitions/")}
    if any(choice.get("type") == "string" for choice in schema.get("oneOf") or ()):
        # A type with several forms, such as a quantity, is a string of some format.
        return {**{key: value for key, value in schema.items() if key != "oneOf"}, "type": "string"}
    converted = {key: value for key, value in schema.items() if key not in _JUNCTORS}
    nullable, kept = converted.pop("nullable", False), converted.get(PRESERVE)
    if nullable or kept:
        converted = {key: value for key, value in converted.items() if key not in ("items", "properties")}
    if (
        nullable
        or (kept and converted.get("type") == "object")
        or (converted.get("type") == "array" and "items" not in converted)
    ):
        converted.pop("type", None)
    _convert_children(converted)
    return converted


def _only_reference(schema: Schema) -> str:
    """Return the reference behind a field with a default, which version 3 wraps; "" for other schemas."""
    parts: Sequence[Schema] = schema.get("allOf") or ()
    return str(parts[0].get("$ref", "")) if len(parts) == 1 else ""


def _convert_children(schema: dict[str, Any]) -> None:
    """Convert the schemas below one; a field that may be null cannot be required."""
    optional: set[str] = set()
    if "properties" in schema:
        optional = {name for name, child in schema["properties"].items() if child.get("nullable")}
        schema["properties"] = {name: _converted(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(child := schema.get(key), Mapping):
            if key == "additionalProperties" and child.get("nullable"):
                optional.update(schema.get("required") or ())
            schema[key] = _converted(child)
    if needed := [name for name in schema.get("required") or () if name not in optional]:
        schema["required"] = needed
    else:
        schema.pop("required", None)
