"""Send a request again where that is safe and short; everything else is the work queue's business."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.errors import TransportError
from ctrlhost.transport.responses import error_from_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.transport.interface import Query, Response, Transport

_TRIES = 4
_LONGEST_WAIT = 1.0
"""Seconds that a call waits in line: rather than sleep longer a worker should do another key, so the error goes up."""

_BUSY_FOR_READS = frozenset({429, 500, 502, 503, 504})


class Caller:
    """Repeats requests of one transport."""

    def __init__(self, transport: Transport) -> None:
        """Send through `transport`."""
        self._transport = transport

    def call(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Response:
        """Give the answer within `timeout` seconds, all tries together.

        A server that asks to come back in a second or less is asked again: for 429, which it says before it did
        anything, with every verb, for 5xx with reads only. A read whose connection broke is sent once more; a write
        never, since it may have been carried out.
        """
        if not timeout >= 0:
            raise ValueError(f"timeout is a number of seconds from 0 on, not {timeout!r}")
        deadline = time.monotonic() + timeout
        broken = False
        for left in range(_TRIES - 1, -1, -1):
            rest = max(deadline - time.monotonic(), 0.001)
            try:
                response = self._transport.request(method, path, query=query, body=body, headers=headers, timeout=rest)
            except TransportError as error:
                if broken or method != "GET" or not error.sent or not left or deadline - time.monotonic() < timeout / 2:
                    raise
                broken = True
                continue
            wait = _wait(method, response, f"{method} {path}")
            if wait is None or not left or time.monotonic() + wait >= deadline:
                return response
            threading.Event().wait(wait)
        raise AssertionError("the last try returns or raises")


def _wait(method: str, response: Response, what: str) -> float | None:
    """Give the seconds after which to ask again, None for never."""
    if response.status != 429 and not (method == "GET" and response.status in _BUSY_FOR_READS):
        return None
    asked = error_from_answer(response, what).retry_after
    return asked if asked is not None and asked <= _LONGEST_WAIT else None
