"""Objects in memory that a client reads and writes like those of an API server, for unit tests."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

import msgspec

from ctrlhost.client.dry_run import merged
from ctrlhost.conditions import timestamp
from ctrlhost.selectors import fields, labels
from ctrlhost.status.writes import target_of
from ctrlhost.testing.applied_fields import applied
from ctrlhost.testing.faults import status_body
from ctrlhost.transport.interface import HttpRequest, Response, Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock

#: Resource, namespace and name.
Key = tuple[str, str, str]

_JSON = {"content-type": "application/json"}


class _Refused(Exception):
    """A request that the store refuses, with the status of a server."""

    def __init__(self, code: int, reason: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.response = Response(code, _JSON, status_body(code, message, reason, details))


class ObjectStore(Transport):
    """Answers a client from a dictionary. For use by one thread.

    It checks no schema, sets no defaults, collects no garbage, and has no watches. An apply replaces lists as a whole.
    """

    def __init__(self, clock: Clock, on_change: Callable[[dict[str, Any], bool], None]) -> None:
        """Start empty; `on_change` gets each object that was written, and whether it still exists."""
        self._objects: dict[Key, dict[str, Any]] = {}
        self._clock = clock
        self._on_change = on_change
        self._version = 0

    def put(self, path: str, content: dict[str, Any]) -> None:
        """Store an object as it is, with uid, version and time if it has none."""
        self._write(_parsed(path)[0], copy.deepcopy(content))

    def send(self, request: HttpRequest) -> Response:
        """Return the answer of a server that has these objects."""
        if request.permit is not None and request.method != "GET":
            request.permit()
        try:
            answer, created = self._answer(request)
        except _Refused as refused:
            return refused.response
        return Response(201 if created else 200, _JSON, msgspec.json.encode(answer))

    async def send_async(self, request: HttpRequest) -> Response:
        """Do the same as `send`: nothing waits."""
        return self.send(request)

    def _answer(self, request: HttpRequest) -> tuple[dict[str, Any], bool]:
        key, subresource = _parsed(request.path)
        content = msgspec.json.decode(request.body) if request.body and request.method != "DELETE" else {}
        if request.method == "POST":
            return self._create(key, content), True
        if request.method == "GET" and not key[2]:
            return self._list(key, request), False
        known = self._objects.get(key)
        media_type = request.headers.get("Content-Type", "")
        if media_type.startswith("application/apply-patch"):
            manager = str((request.query or {}).get("fieldManager") or "")
            return self._write(key, applied(known or {}, content, manager)), known is None
        if known is None:
            # Without the name, the client would ask for the kind.
            raise _Refused(404, "NotFound", f'{key[0]} "{key[2]}" not found', name=key[2])
        if request.method == "GET":
            return known, False
        if request.method == "DELETE":
            return self._delete(key, known), False
        if request.method == "PATCH" and media_type != "application/merge-patch+json":
            raise _Refused(415, "UnsupportedMediaType", f"{media_type} is not supported without a server")
        version = (content.get("metadata") or {}).get("resourceVersion", known["metadata"]["resourceVersion"])
        if version != known["metadata"]["resourceVersion"]:
            raise _Refused(409, "Conflict", f'{key[0]} "{key[2]}" was changed by another writer')
        changed = merged(known, content) if request.method == "PATCH" else content
        return self._write(key, _part(known, changed, subresource)), False

    def _create(self, key: Key, content: dict[str, Any]) -> dict[str, Any]:
        metadata = dict(content.get("metadata") or {})
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', '')}{self._version:05}"
        key = (*key[:2], metadata["name"])
        if key in self._objects:
            raise _Refused(409, "AlreadyExists", f'{key[0]} "{key[2]}" already exists')
        return self._write(key, {**content, "metadata": metadata})

    def _list(self, key: Key, request: HttpRequest) -> dict[str, Any]:
        query = request.query or {}
        label_selector = labels.parse(str(query.get("labelSelector") or ""))
        field_selector = fields.parse(str(query.get("fieldSelector") or ""))
        items = [
            obj
            for (resource, namespace, _), obj in self._objects.items()
            if resource == key[0]
            and key[1] in ("", namespace)
            and labels.matches(label_selector, obj["metadata"].get("labels") or {})
            and all(requirement.matches(obj) for requirement in field_selector)
        ]
        return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _delete(self, key: Key, known: dict[str, Any]) -> dict[str, Any]:
        metadata = known["metadata"]
        if metadata.get("finalizers"):
            now = metadata.get("deletionTimestamp") or timestamp(self._clock)
            return self._write(key, {**known, "metadata": {**metadata, "deletionTimestamp": now}})
        self._on_change(self._objects.pop(key), False)
        return {"apiVersion": "v1", "kind": "Status", "status": "Success", "details": {"uid": metadata["uid"]}}

    def _write(self, key: Key, content: dict[str, Any]) -> dict[str, Any]:
        """Store an object, with a new version if it differs; return it as it is now.

        One that is being deleted goes with its last finalizer.
        """
        known = self._objects.get(key)
        if known == content:
            return known
        self._version += 1
        if known is None:
            set_once = {"uid": str(UUID(int=self._version)), "creationTimestamp": timestamp(self._clock)}
            set_once |= {"namespace": key[1]} if key[1] else {}
        else:
            set_once = {name: known["metadata"][name] for name in ("uid", "creationTimestamp")}
        metadata = {"generation": 1, **set_once, **content["metadata"], "resourceVersion": str(self._version)}
        if known is not None and known.get("spec") != content.get("spec"):
            metadata["generation"] = known["metadata"]["generation"] + 1
        obj = {**content, "metadata": metadata}
        exists = known is None or not metadata.get("deletionTimestamp") or bool(metadata.get("finalizers"))
        if exists:
            self._objects[key] = obj
        else:
            del self._objects[key]
        self._on_change(obj, exists)
        return obj


def _parsed(path: str) -> tuple[Key, str]:
    """Return what a path names, and the subresource; refuse anything but objects and their collections."""
    target = target_of(path)
    if target is None:
        raise _Refused(404, "NotFound", f"{path} is not served without a server")
    resource, _, subresource = target.resource.partition("/")
    if subresource not in ("", "status"):
        raise _Refused(400, "BadRequest", f"{path} is not served without a server")
    return (resource, unquote(target.namespace), unquote(target.name)), subresource


def _part(known: dict[str, Any], changed: dict[str, Any], subresource: str) -> dict[str, Any]:
    """Return an object of which the subresource has changed; a write without one may leave out the status."""
    if subresource:
        return {**known, "status": changed.get("status", {})}
    return {**({"status": known["status"]} if "status" in known else {}), **changed}
