"""The endpoints for tests, under /sandbox/v1/: advance, compact, reset, fault, stats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from ctrlhost_sandbox.apimachinery.status import REASONS, Failure, bad_request
from ctrlhost_sandbox.http.messages import Request, Response
from ctrlhost_sandbox.kinds import strategy_of
from ctrlhost_sandbox.server import seed

if TYPE_CHECKING:
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.messages import Attributes

_MAX_FAULTS = 1000
MAX_ADVANCE = 1e9
T = TypeVar("T")


class Fault(msgspec.Struct, forbid_unknown_fields=True):
    """Requests to fail; an empty verb or resource matches any."""

    code: int
    verb: str = ""
    resource: str = ""
    times: int = 1
    retryAfterSeconds: int = 1  # noqa: N815 - named as in a Status
    """For 429 and 503 only."""


class Advance(msgspec.Struct, forbid_unknown_fields=True):
    """How far to advance the clock."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_ADVANCE)]


class Admin:
    """Handles the endpoints, and keeps the pending faults. Runs in the server's own thread."""

    def __init__(self, context: ServerContext) -> None:
        """Act on `context`."""
        self._context = context
        self._faults: list[Fault] = []

    def answer(self, request: Request, parts: list[str]) -> Response | None:
        """Handle a request under /sandbox/; None for an unknown path."""
        route = (request.method, *parts)
        if route == ("POST", "v1", "compact"):
            for table in self._context.store.tables():
                table.compact(self._context.store.revision)
        elif route == ("POST", "v1", "reset"):
            self._faults.clear()
            reset(self._context)
        elif route == ("POST", "v1", "advance"):
            self._advance(_decoded(request.body, Advance, "advance").seconds)
        elif route == ("POST", "v1", "fault"):
            self._add_fault(request.body)
        elif route == ("GET", "v1", "stats"):
            return Response(200, msgspec.json.encode(self._stats()))
        else:
            return None
        return Response(200, b"{}")

    def raise_fault(self, attributes: Attributes) -> None:
        """Raise the next matching fault for a request on a resource, if any."""
        for fault in self._faults:
            if (
                attributes.resource
                and fault.verb in ("", attributes.verb)
                and fault.resource in ("", attributes.resource)
            ):
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                retry = fault.retryAfterSeconds if fault.code in (429, 503) else None
                raise Failure(fault.code, REASONS.get(fault.code, ""), "injected by a test", retry_after=retry)

    def _advance(self, seconds: float) -> None:
        try:
            self._context.timers.advance(seconds)
        except ValueError as error:
            raise bad_request(f"invalid advance: {error}") from error

    def _add_fault(self, body: bytes) -> None:
        fault = _decoded(body, Fault, "fault")
        if not 400 <= fault.code <= 599 or fault.times < 1 or len(self._faults) >= _MAX_FAULTS:
            raise bad_request(
                "invalid fault: code must be 400 to 599, times at least 1, and too many faults must not be pending"
            )
        self._faults.append(fault)

    def _stats(self) -> dict[str, object]:
        store = self._context.store
        counts = {table.name: table.count for table in store.tables() if table.count}
        faults = sum(fault.times for fault in self._faults)
        return {"revision": store.revision, "objects": counts, "watches": len(self._context.watches), "faults": faults}


def _decoded(body: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise bad_request(f"invalid {what}: {error}") from error


def reset(context: ServerContext) -> None:
    """Delete all objects but the initial ones at once, without waiting for finalizers; notify watchers."""
    kinds = context.registry.tables()
    for table in context.store.tables():
        kind = kinds.get(table.name)
        for snapshot in table.list():
            if kind is not None and not seed.is_initial(context, table.name, snapshot):
                context.store.remove(table, snapshot)
                strategy_of(kind).deleted(context, snapshot.decode())
