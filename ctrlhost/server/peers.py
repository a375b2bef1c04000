"""The users at the other end of Unix sockets."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.server.guard import HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("ctrlhost.server")

#: Linux's `struct ucred`: process, user and group.
_CREDENTIALS = struct.Struct("iII")
#: Seconds between two log lines about refused users.
_REPORTED_EVERY = 60.0

_BODY = b"error: this socket is for another user\n"
_REFUSAL = b"\r\n".join(
    [
        b"HTTP/1.1 403 Forbidden",
        b"content-type: text/plain; charset=utf-8",
        b"content-length: %d" % len(_BODY),
        *(b"%b: %b" % header for header in HEADERS),
        b"connection: close",
        b"",
        _BODY,
    ]
)


class Peer(NamedTuple):
    """The process at the other end; it may have ended since, and its number is 0 where the system does not say."""

    user: int
    process: int

    def __str__(self) -> str:
        """Name it for the log."""
        return f"uid {self.user} pid {self.process}"


def of_this_user(take: Callable[[socket.socket], None], refused: Callable[[], None]) -> Callable[[socket.socket], None]:
    """Return `take` for connections of this user and of root; others get 403 and are passed to `refused`."""
    reported: float | None = None

    def checked(connection: socket.socket) -> None:
        nonlocal reported
        if (user := peer_of(connection).user) in (os.geteuid(), 0):
            take(connection)
            return
        refused()
        now = time.monotonic()
        if reported is None or now - reported >= _REPORTED_EVERY:
            reported = now
            log.warning("refused a connection of the user %d to %s", user, connection.getsockname())
        with connection, contextlib.suppress(OSError):
            connection.send(_REFUSAL)
            # A close with unread data would take the answer away.
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 16)

    return checked


def peer_of(connection: socket.socket) -> Peer:
    """Return who is at the other end of a connection to a Unix socket; this user, where the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return Peer(os.geteuid(), 0)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return Peer(user, process)
