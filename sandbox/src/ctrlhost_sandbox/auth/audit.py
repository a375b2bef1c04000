"""The audit log of writes: a bounded list for tests, and a file of audit events."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.errors import SandboxError
from ctrlhost_sandbox.http.messages import READ_VERBS, Response

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost_sandbox.http.messages import Attributes, Request, Stream

_log = logging.getLogger("ctrlhost_sandbox.audit")
MAX_RECORDS = 10_000
MAX_BYTES = 16 * 1024 * 1024
_BLOCK = 256 * 1024
#: Groups of reviews, which are POSTed but write nothing.
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One write request, whether or not it was allowed and succeeded."""

    monotonic: float
    """When the request was received, by `time.monotonic`, which all processes of a machine share."""
    time: float
    """The same in seconds since the epoch."""
    duration: float
    """Seconds until the response was ready."""
    user: str
    impersonator: str
    """The user who impersonated `user`; empty without impersonation."""
    user_agent: str
    verb: str
    """`create`, `update`, `patch`, `delete` or `deletecollection`."""
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    """The object's name, for a create the resulting one."""
    code: int
    dry_run: bool
    body: bytes
    """The body as received."""


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_named = msgspec.json.Decoder(_Named)


class _BodyArena:
    """Bodies in large blocks: single allocations would fragment the memory between long-lived objects."""

    def __init__(self) -> None:
        self._block = bytearray()
        self._used = 0

    def put(self, body: bytes) -> tuple[bytearray, int, int]:
        """Copy a body; return its block, which is freed with its last reference, and its start and end."""
        start, end = self._used, self._used + len(body)
        if end > len(self._block):
            self._block = bytearray(max(_BLOCK, len(body)))
            start, end = 0, len(body)
        self._block[start:end] = body
        self._used = end
        return self._block, start, end


class Audit:
    """The newest writes. Only the server's thread adds; any thread may read."""

    def __init__(self, file: Path | None = None) -> None:
        """Keep the newest records in memory; append every request to `file`, if any, readable by its owner only."""
        self._lock = threading.Lock()
        self._records: deque[tuple[AuditRecord, bytearray, int, int]] = deque()
        self._bodies = _BodyArena()
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._name = file
        self._lost = 0
        if file is not None:
            try:
                descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                raise SandboxError(f"cannot open the audit log {file}: {error.strerror}") from error
            self._file = os.fdopen(descriptor, "ab", buffering=0)

    def records(self) -> list[AuditRecord]:
        """Return the recorded writes, in the order of their responses."""
        with self._lock:
            kept = list(self._records)
        return [replace(record, body=bytes(block[start:end])) for record, block, start, end in kept]

    def close(self) -> None:
        """Close the file; the records stay."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, request: Request, answer: Response | Stream, audit_id: str) -> None:
        """Record a request and its response."""
        attributes = request.attributes
        if attributes is None:
            return
        reads = attributes.verb in READ_VERBS or not attributes.resource or attributes.group in _REVIEWS
        if reads and self._file is None:
            return
        now = time.monotonic()
        received = time.time() - (now - request.received)
        name = attributes.name
        code = answer.status if isinstance(answer, Response) else 200
        if not name and code == 201 and isinstance(answer, Response):
            with contextlib.suppress(msgspec.MsgspecError):
                name = _named.decode(answer.body).metadata.name
        if not reads:
            user, impersonator = request.user, request.impersonator
            record = AuditRecord(
                request.received,
                received,
                now - request.received,
                "" if user is None else user.name,
                "" if impersonator is None else impersonator.name,
                request.headers.get("user-agent", ""),
                attributes.verb,
                attributes.group,
                attributes.version,
                attributes.resource,
                attributes.subresource,
                attributes.namespace,
                name,
                code,
                bool(request.query.first("dryRun")),
                b"",
            )
            self._keep(record, request.body)
        if self._file is not None:
            stage = "ResponseComplete" if isinstance(answer, Response) else "ResponseStarted"
            self._write(_event(request, attributes, name, code, stage, received, audit_id))

    def _write(self, event: dict[str, Any]) -> None:
        """Append a line, whole or not at all; one that cannot be written is counted, and the next ones are tried."""
        assert self._file is not None
        line = msgspec.json.encode(event) + b"\n"
        try:
            size = os.fstat(self._file.fileno()).st_size
            if self._file.write(line) != len(line):
                self._file.truncate(size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if not self._lost:
                _log.error("audit log %s: cannot write: %s; events are lost until it can", self._name, error)
            self._lost += 1
        else:
            if self._lost:
                _log.warning("audit log %s: writing again; %d events were lost", self._name, self._lost)
            self._lost = 0

    def _keep(self, record: AuditRecord, body: bytes) -> None:
        with self._lock:
            self._records.append((record, *self._bodies.put(body)))
            self._bytes += len(body)
            while len(self._records) > MAX_RECORDS or self._bytes > MAX_BYTES:
                _, _, start, end = self._records.popleft()
                self._bytes -= end - start


def _event(
    request: Request, attributes: Attributes, name: str, code: int, stage: str, received: float, audit_id: str
) -> dict[str, Any]:
    """Return the request as an event of audit.k8s.io/v1, at level Metadata: bodies may hold secrets."""
    asker = request.impersonator or request.user
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": audit_id,
        "stage": stage,
        "requestURI": request.target,
        "verb": attributes.verb,
        "user": asker.as_dict() if asker is not None else {},
    }
    if request.impersonator is not None and request.user is not None:
        event["impersonatedUser"] = request.user.as_dict()
    event["userAgent"] = request.headers.get("user-agent", "")
    if attributes.resource:
        reference = {
            "resource": attributes.resource,
            "namespace": attributes.namespace,
            "name": name,
            "apiGroup": attributes.group,
            "apiVersion": attributes.version,
            "subresource": attributes.subresource,
        }
        event["objectRef"] = {key: value for key, value in reference.items() if value}
    event["responseStatus"] = {"metadata": {}, "code": code}
    event["requestReceivedTimestamp"] = times.micro(received)
    event["stageTimestamp"] = times.micro()
    event["annotations"] = dict(request.annotations)
    return event
