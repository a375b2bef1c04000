"""OpenAPI: one document for version 2, and a document per group version for version 3."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.api.swagger import Swagger, media_type
from ctrlhost_sandbox.encoding.negotiation import JSON
from ctrlhost_sandbox.http.messages import Request, Response
from ctrlhost_sandbox.registry.registry import Kind, content_hash
from ctrlhost_sandbox.schema.shapes import Shape, builtin, of_kind, types_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost_sandbox.context import ServerContext

_V1 = "v1"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PACKAGES = {
    "meta": _META,
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}
_WRITE_OPTIONS = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string", "force": "boolean"}
_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in _WRITE_OPTIONS.items()
]
_SCALARS: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "any": {"type": "object"},
}
_STRUCTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Quantity": ("io.k8s.apimachinery.pkg.api.resource", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr",
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
    "Time": (_META, {"type": "string", "format": "date-time"}),
    "MicroTime": (_META, {"type": "string", "format": "date-time"}),
    "FieldsV1": (_META, {"type": "object"}),
    "RawExtension": ("io.k8s.apimachinery.pkg.runtime", {"type": "object"}),
    "JSON": (_PACKAGES["apiextensions"], {}),
    "JSONSchemaPropsOrArray": (_PACKAGES["apiextensions"], {}),
    "JSONSchemaPropsOrBool": (_PACKAGES["apiextensions"], {}),
    "JSONSchemaPropsOrStringArray": (_PACKAGES["apiextensions"], {}),
}
"""Types without fields that have a schema of their own: package and schema."""
_METHODS = {"create": "post", "get": "get", "patch": "patch", "update": "put"}
_ROOT = {
    "apiVersion": {"type": "string", "description": "APIVersion defines the version of the object's schema."},
    "kind": {"type": "string", "description": "The kind of the object."},
}
_DESCRIPTIONS = {
    "meta.ObjectMeta": {"creationTimestamp": "CreationTimestamp is a timestamp: when the server stored the object."}
}


class OpenApi:
    """The paths below /openapi; documents are cached until the registry changes."""

    def __init__(self, context: ServerContext) -> None:
        """Describe the kinds of `context`."""
        self._context = context
        self._changes_seen = -1
        self._documents: dict[str, bytes] = {}
        self._hashes: dict[str, str] = {}
        version = context.options.version
        self._swagger = Swagger(lambda kinds: document(kinds, version), version)
        #: The documents of version 2 by media type.
        self._encoded: dict[str, bytes] = {}

    def answer(self, request: Request, rest: list[str]) -> Response | None:
        """Handle a path; None if it is unknown."""
        self._refresh()
        if rest == ["v2"]:
            return self._version_2(request)
        if not rest or rest[0] != "v3":
            return None
        if len(rest) == 1:
            return self._index(request)
        key = "/".join(rest[1:])
        if key not in self._hashes:
            return None
        wanted, actual = request.query.first("hash"), self._hash(key)
        if wanted and wanted != actual:
            location = f"/openapi/v3/{key}?hash={actual}"
            return Response(301, headers=[("Location", location), ("Cache-Control", "no-cache, private")])
        response = _tagged(request, actual, lambda: self._document(key))
        if wanted:
            response.headers += [("Cache-Control", "public, immutable"), ("Expires", "Thu, 31 Dec 2037 23:55:55 GMT")]
        return response

    def _version_2(self, request: Request) -> Response:
        media = media_type(request.headers.get("accept", ""))
        if not media:
            return Response(406, headers=[("Vary", "Accept")])
        # Both encodings have the hash of the first.
        response = _tagged(request, content_hash(self._document_2(JSON)), lambda: self._document_2(media))
        response.content_type = media
        return response

    def _document_2(self, media: str) -> bytes:
        if media not in self._encoded:
            self._encoded[media] = self._swagger.encode(map(self._kinds, self._hashes), media)
        return self._encoded[media]

    def _index(self, request: Request) -> Response:
        paths = {
            key: {"serverRelativeURL": f"/openapi/v3/{key}?hash={self._hash(key)}"} for key in sorted(self._hashes)
        }
        body = msgspec.json.encode({"paths": paths})
        return _tagged(request, content_hash(body), lambda: body)

    def _refresh(self) -> None:
        registry = self._context.registry
        if self._changes_seen != registry.changes:
            self._changes_seen = registry.changes
            self._encoded.clear()
            kinds = [kind for kind in registry if registry.is_listed(kind)]
            custom = {_key(kind) for kind in kinds if kind.custom is not None}
            self._documents = {key: text for key, text in self._documents.items() if key not in custom}
            # Documents of built-in groups never change, so they are made when asked for.
            self._hashes = {key: "" if key in custom else self._constant_hash(key) for key in map(_key, kinds)}

    def _constant_hash(self, key: str) -> str:
        return content_hash(f"{key} {self._context.options.version} {_types_hash()}".encode())

    def _hash(self, key: str) -> str:
        if not self._hashes[key]:
            self._hashes[key] = content_hash(self._document(key))
        return self._hashes[key]

    def _document(self, key: str) -> bytes:
        encoded = self._documents.get(key)
        if encoded is None:
            described = document(self._kinds(key), self._context.options.version)
            encoded = self._documents[key] = msgspec.json.encode(described)
        return encoded

    def _kinds(self, key: str) -> list[Kind]:
        registry = self._context.registry
        return [kind for kind in registry if _key(kind) == key and registry.is_listed(kind)]


@cache
def _types_hash() -> str:
    return content_hash(types_text())


def _tagged(request: Request, tag: str, body: Callable[[], bytes]) -> Response:
    """Respond with a body, or with 304 if the client has it."""
    headers = [("ETag", f'"{tag}"'), ("Vary", "Accept")]
    known = request.headers.get("if-none-match") == f'"{tag}"'
    return Response(304, headers=headers) if known else Response(200, body(), headers=headers)


def _key(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def document(kinds: list[Kind], version: str) -> dict[str, Any]:
    """Describe the kinds of one group version."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for kind in kinds:
        schemas[_schema_name(kind)] = _kind_schema(kind, schemas)
        _add_paths(kind, paths)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{version}"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema_name(kind: Kind) -> str:
    if kind.custom is not None:
        return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
    shape = of_kind(kind.group, kind.version, kind.kind)
    return _type_name(shape.name if shape is not None else f"unknown.{kind.kind}")


def _type_name(name: str) -> str:
    package, _, kind = name.partition(".")
    name, _, version = package.partition("/")
    return f"{_PACKAGES.get(package, f'io.k8s.api.{name}.{version or _V1}')}.{kind}"


def _kind_schema(kind: Kind, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind.custom is not None:
        reference = _reference(builtin("meta.ObjectMeta"), schemas)
        metadata = {"allOf": [{"$ref": reference}], "description": "Standard object's metadata."}
        declared = {**_ROOT, **(kind.custom.schema.get("properties") or {}), "metadata": metadata}
        schema = {**kind.custom.schema, "properties": declared}
    else:
        shape = of_kind(kind.group, kind.version, kind.kind)
        schema = _struct(shape, schemas) if shape is not None else {"type": "object", "properties": {}}
        schema["properties"] = {**_ROOT, **schema["properties"]}
    described = {**schema, "x-kubernetes-group-version-kind": [_gvk(kind)]}
    if kind.custom is not None and kind.field_selectors:
        paths = [{"fieldPath": name} for name in kind.field_selectors]
        described["x-kubernetes-selectable-fields"] = paths
    return described


def _reference(shape: Shape, schemas: dict[str, Any]) -> str:
    """Return a reference to a type's schema, which is added if missing."""
    name = _type_name(shape.name)
    if name not in schemas:
        schemas[name] = {}
        schemas[name] = _struct(shape, schemas)
    return f"#/components/schemas/{name}"


def _struct(shape: Shape, schemas: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if shape.fields:
        schema["properties"] = fields = {name: _field(child, schemas) for name, child in shape.fields.items()}
        for name, text in _DESCRIPTIONS.get(shape.name, {}).items():
            # Beside a reference, a description has no effect.
            fields[name] = {"allOf": [fields[name]], "description": text}
    if needed := sorted(name for name, child in shape.fields.items() if child.required):
        schema["required"] = needed
    if shape.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _field(shape: Shape, schemas: dict[str, Any]) -> dict[str, Any]:
    if shape.type == "object":
        reference = {"$ref": _reference(shape, schemas)}
        return {"allOf": [reference], "default": {}} if shape.value_struct else reference
    if shape.type == "map":
        values = {"type": "object", "additionalProperties": _field(shape.element or Shape("any"), schemas)}
        return {**values, "x-kubernetes-map-type": "atomic"} if shape.atomic else values
    if shape.type == "array":
        schema: dict[str, Any] = {"type": "array", "items": _field(shape.element or Shape("any"), schemas)}
        if shape.keys:
            schema["x-kubernetes-list-map-keys"] = list(shape.keys)
        schema["x-kubernetes-list-type"] = shape.list_type
        if shape.merge_key:
            schema["x-kubernetes-patch-merge-key"] = shape.merge_key
        if shape.merge_key or shape.merge_scalars:
            schema["x-kubernetes-patch-strategy"] = "merge"
        return schema
    if shape.name in _STRUCTS:
        package, known = _STRUCTS[shape.name]
        name = f"{package}.{shape.name}"
        schemas[name] = dict(known)
        return {"$ref": f"#/components/schemas/{name}"}
    scalar = dict(_SCALARS.get(shape.type, {}))
    if shape.name == "int32":
        scalar["format"] = "int32"
    if shape.enum:
        scalar["enum"] = list(shape.enum)
    return scalar


def _operation(kind: Kind, action: str) -> dict[str, Any]:
    operation = {"responses": {"200": {"description": "OK"}}, "x-kubernetes-action": action}
    operation |= {"x-kubernetes-group-version-kind": _gvk(kind)}
    return operation if action in ("get", "list") else {**operation, "parameters": _WRITE_PARAMETERS}


def _add_paths(kind: Kind, paths: dict[str, Any]) -> None:
    root = f"/{_key(kind)}/"
    collection = root + ("namespaces/{namespace}/" if kind.namespaced else "") + kind.plural
    if kind.virtual:
        paths[root + kind.plural] = {"post": _operation(kind, "post")}
        return
    paths[collection] = {"get": _operation(kind, "list"), "post": _operation(kind, "post")}
    if "deletecollection" in kind.verbs:
        paths[collection]["delete"] = _operation(kind, "deletecollection")
    actions = {action: _operation(kind, action) for action in ("get", "put", "patch")}
    paths[f"{collection}/{{name}}"] = {**actions, "delete": _operation(kind, "delete")}
    if kind.has_status:
        paths[f"{collection}/{{name}}/status"] = actions
    if kind.scale is not None:
        gvk = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        scaled = {action: {**entry, "x-kubernetes-group-version-kind": gvk} for action, entry in actions.items()}
        paths[f"{collection}/{{name}}/scale"] = scaled
    for sub in kind.subresources:
        methods = {_METHODS[verb] for verb in sub.verbs if verb in _METHODS}
        path = f"{collection}/{{name}}/{sub.name}"
        paths.setdefault(path, {method: _operation(kind, method) for method in sorted(methods)})
