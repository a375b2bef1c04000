"""The schemas of kinds, by the server's OpenAPI v3 documents: which lists are atomic, and which values quantities."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.client.builtin_kinds import BUILTIN_KINDS
from ctrlhost.errors import CtrlhostError
from ctrlhost.transport.interface import HttpRequest
from ctrlhost.typed_json import decode, prepare

if TYPE_CHECKING:
    from ctrlhost.transport.interface import Transport
    from ctrlhost.transport.steps import Steps

#: Seconds for which the schemas of a custom kind are used: its CustomResourceDefinition may change.
_KEPT = 600.0
#: Seconds after which a document may be read again that the server did not answer, or that lacks a kind.
_AGAIN_AFTER = 10.0
_TIMEOUT = 30.0
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@dataclass(slots=True, eq=False)
class Schema:
    """The schema of a value. One without fields and element is that of a scalar, or of anything."""

    fields: dict[str, Schema] = field(default_factory=dict)
    #: The defaults of fields.
    defaults: dict[str, Any] = field(default_factory=dict)
    #: That of the values of a map, or of the items of a list.
    values: Schema | None = None
    items: Schema | None = None
    #: `atomic`, `set` or `map`, and the fields that identify the items of a `map`.
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    #: Whether an object is replaced as a whole.
    atomic: bool = False
    quantity: bool = False
    #: Whether the server leaves out empty texts, lists and maps, as it does with fields of built-in kinds.
    omits_empty: bool = False


class _Document(msgspec.Struct):
    components: _Components | None = None


class _Components(msgspec.Struct):
    schemas: dict[str, _Described] = {}


class _KindName(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Described(msgspec.Struct):
    ref: str = msgspec.field(default="", name="$ref")
    all_of: list[_Described] = msgspec.field(default_factory=list, name="allOf")
    properties: dict[str, _Described] = {}
    values: _Described | bool | None = msgspec.field(default=None, name="additionalProperties")
    items: _Described | None = None
    default: Any = None
    list_type: str = msgspec.field(default="atomic", name="x-kubernetes-list-type")
    keys: tuple[str, ...] = msgspec.field(default=(), name="x-kubernetes-list-map-keys")
    map_type: str = msgspec.field(default="", name="x-kubernetes-map-type")
    kinds: list[_KindName] = msgspec.field(default_factory=list, name="x-kubernetes-group-version-kind")


prepare(_Document)


class KindSchemas:
    """The schemas of the kinds of one server, read once per group and version. Callable from any thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        #: By apiVersion: the schemas by kind, and until when they are used, by `time.monotonic`.
        self._known: dict[str, tuple[dict[str, Schema], float]] = {}

    def known(self, api_version: str, kind: str) -> Schema | None:
        """Return the schema of a kind if it was read, else None."""
        schemas, until = self._known.get(api_version, ({}, 0.0))
        return schemas.get(kind) if time.monotonic() < until else None

    def read(self, transport: Transport, api_version: str, kind: str) -> Steps[Schema | None]:
        """Return the schema of a kind; None if the server does not tell, which is asked again after 10 seconds."""
        schemas, until = self._known.get(api_version, ({}, 0.0))
        if time.monotonic() >= until:
            schemas = yield from _read(transport, api_version)
            kept = float("inf") if api_version in BUILTIN_KINDS else _KEPT
            until = time.monotonic() + (kept if kind in schemas else _AGAIN_AFTER)
            with self._lock:
                self._known[api_version] = schemas, until
        return schemas.get(kind)


def _read(transport: Transport, api_version: str) -> Steps[dict[str, Schema]]:
    path = f"/openapi/v3/{'apis' if '/' in api_version else 'api'}/{api_version}"
    request = HttpRequest("GET", path, headers={"Accept": "application/json"}, timeout=_TIMEOUT)
    try:
        response = yield from transport.steps(request)
        document: _Document = decode(response.body, _Document)
    except (CtrlhostError, msgspec.DecodeError):
        return {}
    return _Reader(document, omits_empty=api_version in BUILTIN_KINDS).kinds(api_version)


class _Reader:
    """Makes schemas of one document; types that several kinds use are made once."""

    def __init__(self, document: _Document, *, omits_empty: bool) -> None:
        self._described = document.components.schemas if document.components is not None else {}
        self._omits_empty = omits_empty
        self._types: dict[str, Schema] = {}

    def kinds(self, api_version: str) -> dict[str, Schema]:
        group, _, version = api_version.rpartition("/")
        return {
            kind.kind: self._type(name)
            for name, described in self._described.items()
            for kind in described.kinds
            if (kind.group, kind.version) == (group, version) and name.endswith(f".{kind.kind}")
        }

    def _type(self, name: str) -> Schema:
        schema = self._types.get(name)
        if schema is None:
            # Types may contain themselves.
            schema = self._types[name] = Schema(quantity=name == _QUANTITY, omits_empty=self._omits_empty)
            if (described := self._described.get(name)) is not None:
                self._complete(schema, described)
        return schema

    def _schema(self, described: _Described) -> Schema:
        referred = described.ref or (described.all_of[0].ref if len(described.all_of) == 1 else "")
        if referred:
            return self._type(referred.rpartition("/")[2])
        schema = Schema(omits_empty=self._omits_empty)
        self._complete(schema, described)
        return schema

    def _complete(self, schema: Schema, described: _Described) -> None:
        for name, below in described.properties.items():
            schema.fields[name] = self._schema(below)
            if below.default is not None:
                schema.defaults[name] = below.default
        if isinstance(described.values, _Described):
            schema.values = self._schema(described.values)
        if described.items is not None:
            schema.items = self._schema(described.items)
        schema.list_type, schema.keys = described.list_type, described.keys
        schema.atomic = described.map_type == "atomic"
