"""Answers to probes that arrive with their connection and ask for its end, as the kubelet's do, without the event loop.

Beside threads that compute, each system call waits for its turn to have the interpreter, some milliseconds each time.
The way over the event loop and an ASGI app takes about fifteen of them, this one four.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11

from ctrlhost.server.guard import HEADERS, OWN_POLICY

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ctrlhost.server.counts import ListenerCounts
    from ctrlhost.server.limits import Limits

    #: Answers a GET request for a path and query, with these headers, by status and text; None: not at once.
    AtOnce = Callable[[bytes, list[tuple[bytes, bytes]]], tuple[int, str] | None]

#: Bytes that the buffer of a new connection takes for sure.
_LONGEST = 4096


def answer_at_once(accepted: socket.socket, at_once: AtOnce, limits: Limits, counts: ListenerCounts) -> bytes | None:
    """Answer the request of a new connection, and close that; else return what has been read of the request."""
    try:
        data = accepted.recv(limits.header_bytes)
        if not (answer := _answer(data, at_once, limits, counts)):
            return data
        accepted.send(answer)
    except BlockingIOError:
        return b""
    except OSError:
        pass
    accepted.close()
    return None


def _answer(data: bytes, at_once: AtOnce, limits: Limits, counts: ListenerCounts) -> bytes:
    """Return the answer to a complete request; empty for one that needs more."""
    connection = h11.Connection(h11.SERVER, limits.header_bytes)
    try:
        connection.receive_data(data)
        request, end = connection.next_event(), connection.next_event()
    except h11.RemoteProtocolError:
        return b""
    if not isinstance(request, h11.Request) or request.method != b"GET" or not isinstance(end, h11.EndOfMessage):
        return b""
    if connection.their_state is not h11.MUST_CLOSE:
        return b""
    if (found := at_once(request.target, list(request.headers))) is None:
        return b""
    status, text = found
    body = text.encode()
    if len(body) > _LONGEST:
        return b""
    headers = [
        (b"date", formatdate(int(time.time()), usegmt=True).encode()),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *HEADERS,
        (b"content-security-policy", OWN_POLICY),
        (b"connection", b"close"),
    ]
    response = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode())
    counts.requests[status] += 1
    return b"".join(connection.send(one) or b"" for one in (response, h11.Data(data=body), h11.EndOfMessage()))
