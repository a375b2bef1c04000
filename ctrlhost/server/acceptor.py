"""Accepts connections.

asyncio's own loop accepts a whole backlog in each turn, and repeats the error as often when no descriptor is free.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Sequence

    from ctrlhost.server.counts import ListenerCounts

log = logging.getLogger("ctrlhost.server")

#: Connections that one turn of the loop accepts, so that requests are answered in between.
_AT_ONCE = 16
#: Seconds for which nothing is accepted when no descriptor is free, doubling from the first to the last.
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0
#: Seconds between two log lines about that.
_REPORTED_EVERY = 60.0
_STARVED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts the connections of some sockets. All methods are for the thread of the loop."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        take: Callable[[socket.socket], None],
        make_room: Callable[[], bool],
        counts: ListenerCounts,
        name: str,
    ) -> None:
        """Pass connections to `take`; without free descriptors `make_room` closes one, or returns False."""
        self._sockets = sockets
        self._take = take
        self._make_room = make_room
        self._counts = counts
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        #: A descriptor to give up, so that a connection can be accepted and closed.
        self._spare: int | None = None
        self._pause = _FIRST_PAUSE
        self._reported: float | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept on this loop."""
        self._loop = loop
        self._reserve()
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)

    def stop(self) -> None:
        """Accept nothing more. The sockets stay open."""
        loop, self._loop = self._loop, None
        if loop is not None:
            for listening in self._sockets:
                loop.remove_reader(listening)
        self._release()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                # The client has left.
                continue
            except OSError as error:
                self._fail(listening, error)
                return
            self._pause = _FIRST_PAUSE
            connection.setblocking(False)
            self._take(connection)

    def _fail(self, listening: socket.socket, error: OSError) -> None:
        loop = self._loop
        if loop is None:
            return
        now = loop.time()
        if self._reported is None or now - self._reported >= _REPORTED_EVERY:
            self._reported = now
            log.error("listener %s cannot accept connections: %s", self._name, error.strerror or error)
        if error.errno in _STARVED:
            self._counts.rejected["emfile"] += 1
            if not self._make_room():
                self._refuse(listening)
        loop.remove_reader(listening)
        loop.call_later(self._pause, self._resume, listening)
        self._pause = min(2 * self._pause, _LAST_PAUSE)

    def _resume(self, listening: socket.socket) -> None:
        if self._loop is not None:
            self._reserve()
            self._loop.add_reader(listening, self._accept, listening)

    def _refuse(self, listening: socket.socket) -> None:
        """Close the oldest waiting connection, with the spare descriptor."""
        if self._spare is None:
            return
        self._release()
        # Another thread may have taken the descriptor.
        with contextlib.suppress(OSError):
            listening.accept()[0].close()
        self._reserve()

    def _reserve(self) -> None:
        if self._spare is None:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _release(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            os.close(spare)
