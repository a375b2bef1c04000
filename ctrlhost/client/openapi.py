"""Which operations of an API server can be tried without effect, by its OpenAPI v3 documents.

An aggregated API server may ignore the parameter `dryRun` and persist what it gets.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.errors import ApiError, TransportError
from ctrlhost.transport.interface import HttpRequest
from ctrlhost.transport.responses import error_from_response
from ctrlhost.typed_json import decode, prepare

if TYPE_CHECKING:
    from ctrlhost.transport.interface import Transport
    from ctrlhost.transport.steps import Steps

#: Seconds after which a document may be read again that lacks an operation; that of a new kind comes a bit later.
_AGAIN_AFTER = 10.0
_TIMEOUT = 30.0


class _Parameter(msgspec.Struct):
    name: str = ""
    ref: str = msgspec.field(default="", name="$ref")


class _Operation(msgspec.Struct):
    parameters: list[_Parameter] = []


class _PathItem(msgspec.Struct):
    parameters: list[_Parameter] = []
    post: _Operation | None = None
    put: _Operation | None = None
    patch: _Operation | None = None
    delete: _Operation | None = None


class _Components(msgspec.Struct):
    parameters: dict[str, _Parameter] = {}


class _Document(msgspec.Struct):
    paths: dict[str, _PathItem] = {}
    components: _Components = msgspec.field(default_factory=_Components)


prepare(_Document)


class DryRunSupport:
    """Knows the operations with the parameter `dryRun`; asks the server once per group and version. Thread-safe."""

    def __init__(self, transport: Transport) -> None:
        """Read the documents through `transport`, when they are needed."""
        self._transport = transport
        self._lock = threading.Lock()
        #: By `/api/VERSION` or `/apis/GROUP/VERSION`: the operations, and when they were read, by `time.monotonic`.
        self._known: dict[str, tuple[frozenset[tuple[str, str]], float]] = {}

    def has(self, group_version: str, method: str, template: str) -> Steps[bool]:
        """Return whether an operation can be tried; `template` is its path with `{namespace}` and `{name}`.

        TransportError, and ApiError for 429 and 5xx, if the server cannot say.
        """
        operation = (method.lower(), template)
        with self._lock:
            known, read_at = self._known.get(group_version, (frozenset(), -_AGAIN_AFTER))
        if operation in known or time.monotonic() < read_at + _AGAIN_AFTER:
            return operation in known
        operations = yield from self._read(f"/openapi/v3{group_version}")
        with self._lock:
            self._known[group_version] = operations, time.monotonic()
        return operation in operations

    def _read(self, path: str) -> Steps[frozenset[tuple[str, str]]]:
        headers = {"Accept": "application/json"}
        response = yield from self._transport.steps(HttpRequest("GET", path, headers=headers, timeout=_TIMEOUT))
        if response.status != 200:
            error = error_from_response(response, f"GET {path}")
            if isinstance(error, ApiError) and (error.status == 429 or error.status >= 500):
                raise error
            # Not served, or not allowed to be read.
            return frozenset()
        try:
            document: _Document = decode(response.body, _Document)
        except msgspec.DecodeError as error:
            raise TransportError(f"GET {path}: the response is not an OpenAPI document: {error}") from error
        return frozenset(_operations(document))


def _operations(document: _Document) -> Any:
    """Yield the operations with the parameter, as method and path."""
    for path, item in document.paths.items():
        for method in ("post", "put", "patch", "delete"):
            operation: _Operation | None = getattr(item, method)
            if operation is None:
                continue
            for parameter in (*item.parameters, *operation.parameters):
                referred = document.components.parameters.get(parameter.ref.rpartition("/")[2])
                if "dryRun" in (parameter.name, referred.name if referred is not None else ""):
                    yield method, path
                    break
