"""Retry requests if that is safe and quick; longer retries are left to the work queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrlhost.errors import TransportError
from ctrlhost.transport.responses import error_from_response
from ctrlhost.transport.steps import Pause, Steps

if TYPE_CHECKING:
    from ctrlhost.transport.interface import HttpRequest, Response, Transport

_TRIES = 4
_MAX_WAIT = 1.0
"""Seconds that a call may sleep before a retry; for a longer delay it raises, freeing the worker for another key."""

_BUSY_FOR_READS = frozenset({429, 500, 502, 503, 504})


def retried(transport: Transport, request: HttpRequest) -> Steps[Response]:
    """Send through `transport` and return the response within the request's timeout for all tries.

    If the server asks for a retry within a second, the request is repeated: every verb after a 429, which has no
    effect, only reads after a 5xx. A read whose connection broke is repeated once; a write never, since the server may
    have executed it.
    """
    method, timeout = request.method, request.timeout
    if not timeout >= 0:
        raise ValueError(f"timeout must be a non-negative number of seconds, got {timeout!r}")
    deadline = time.monotonic() + timeout
    broken = False
    for left in range(_TRIES - 1, -1, -1):
        try:
            response = yield from transport.steps(request)
        except TransportError as error:
            if broken or method != "GET" or not error.sent or not left or deadline - time.monotonic() < timeout / 2:
                raise
            broken = True
            transport.count_retry(method, "<error>")
            request = _rest(request, deadline)
            continue
        wait = _wait(request, response)
        if wait is None or not left or time.monotonic() + wait >= deadline:
            return response
        transport.count_retry(method, str(response.status))
        yield Pause(wait)
        request = _rest(request, deadline)
    raise AssertionError("unreachable: the last try returns or raises")


def _rest(request: HttpRequest, deadline: float) -> HttpRequest:
    return replace(request, timeout=max(deadline - time.monotonic(), 0.001))


def _wait(request: HttpRequest, response: Response) -> float | None:
    """Return the seconds until the next try; None for no retry."""
    if response.status != 429 and not (request.method == "GET" and response.status in _BUSY_FOR_READS):
        return None
    wait = error_from_response(response, request.what).retry_after
    return wait if wait is not None and wait <= _MAX_WAIT else None
