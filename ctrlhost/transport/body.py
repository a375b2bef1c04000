"""The body of a streamed response, read from the socket with one system call per piece.

A watch sends one small chunk per event. Reading chunk by chunk through http.client costs three reads and as many
Python calls for each; here a piece is the result of one `recv`, and the core removes the framing of all its chunks at
once. The core reads a plain socket itself, so that passing on events does not wait for the interpreter.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from urllib3.util.wait import wait_for_read

from ctrlhost._core import Body
from ctrlhost.errors import CtrlhostError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost._core import SharedInformer, WatchProgress

_PIECE = 256 * 1024
_RECORD = 16 * 1024
_Result = TypeVar("_Result")


class _Raw(Protocol):
    def read1(self, size: int = -1, /) -> bytes: ...


class BodyStream:
    """A `Stream` and `FollowedStream` over one HTTP/1.1 response."""

    def __init__(self, response: Any, what: str, idle: float) -> None:
        """Take ownership of a urllib3 response with an unread body; `idle` is the idle timeout in seconds."""
        # urllib3 does not expose the buffered socket, and its own chunked reading costs more than the decoder.
        http = response._fp  # noqa: SLF001
        self._response = response
        self._http = http
        self._raw: _Raw = http.fp
        self._sock = _socket_of(http.fp)
        self._what = what
        self._body = Body(chunked=http.chunked, length=http.length)
        self._idle = idle
        self._lock = threading.Lock()
        self._closed = threading.Event()
        #: Data that arrived together with the headers.
        self._first = b""
        #: Whether the core reads the socket itself; TLS sockets are read in Python.
        self._native = type(self._sock) is socket.socket and self._body.take_socket(self._sock.fileno())
        #: Whether reads return at once, so that several TLS records become one piece.
        self._batches = isinstance(self._sock, ssl.SSLSocket)
        #: The error that ended the stream, for the call after the one that returned the last progress.
        self._failed: Exception | None = None
        if self._sock is not None:
            self._sock.settimeout(0.0 if self._native or self._batches else idle)
        if self._native or self._batches:
            # From here on only this object reads the socket. The first read reports its errors.
            with contextlib.suppress(OSError):
                self._first = self._raw.read1(_PIECE)

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end; see `Stream.read`."""
        while not self._ended():
            if data := self._step(lambda body, idle, _: body.receive(idle), Body.feed, 0.0):
                self._ended()
                return data
        return b""

    def follow(self, engine: SharedInformer, linger: float) -> WatchProgress | None:
        """Pass arriving data to the engine and its handlers; return its progress, None at the end.

        If the core reads the socket itself, it passes on events for up to `linger` seconds before this returns.
        """
        while not self._ended():
            if self._failed is not None:
                self._fail(self._failed)
                continue
            progress = self._step(engine.follow_socket, engine.follow, linger)
            if progress is not None:
                self._failed = progress.failed
                if self._failed is None or progress.events or progress.bookmarks or progress.skipped:
                    return progress
        return None

    def feed_list(self, engine: SharedInformer, linger: float) -> bool:
        """Pass on more of a list page, for about `linger` seconds; return False at its end."""
        if self._ended():
            return False
        self._step(engine.list_socket, engine.list_piece, linger)
        return True

    def _step(
        self,
        from_socket: Callable[[Body, float, float], _Result],
        from_piece: Callable[[Body, bytes], _Result],
        linger: float,
    ) -> _Result | None:
        """Pass the socket, or the next piece, to the core; return None if the stream was closed meanwhile."""
        try:
            if self._native and not self._first:
                return from_socket(self._body, self._idle, linger)
            return from_piece(self._body, self._piece())
        except Exception as error:  # noqa: BLE001 - `_fail` sorts them
            self._fail(error)
            return None

    def _piece(self) -> bytes:
        """Return the next bytes of the connection with their framing; b"" if its end is the end of the body."""
        piece, self._first = self._first, b""
        if not piece:
            piece = self._batch() if self._batches else self._raw.read1(_PIECE)
            if not piece:
                self._body.end()
        return piece

    def _batch(self) -> bytes:
        """Return all available data of a TLS connection; wait only if there is none.

        Python decrypts at most 16 KiB at a time. Passing on each record by itself would wait for the interpreter after
        each, while another thread computes.
        """
        sock: Any = self._sock
        pieces: list[bytes] = []
        left = _PIECE
        while left > 0:
            try:
                piece = sock.read(_RECORD)
            except ssl.SSLWantReadError:
                if pieces:
                    break
                if not wait_for_read(sock, self._idle):
                    raise TimeoutError from None
                continue
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _ended(self) -> bool:
        """Return whether the stream has ended, and release its resources then; for the reading thread."""
        if not self._closed.is_set() and self._body.done:
            self._release()
        ended = self._closed.is_set()
        if ended and self._native:
            self._native = False
            self._body.drop_socket()
        return ended

    def _fail(self, error: Exception) -> None:
        """Raise the error that ended the stream, unless it was closed."""
        if self._closed.is_set():
            return
        self.close()
        self._ended()
        if isinstance(error, TimeoutError):
            problem = f"no data for {self._idle:g} s"
        elif isinstance(error, OSError | ValueError | AttributeError) and not isinstance(error, CtrlhostError):
            # AttributeError: the ssl module raises it if another thread shut the socket down.
            problem = str(error) or type(error).__name__
        else:
            raise error
        raise TransportError(f"{self._what}: {problem}") from error

    def _release(self) -> None:
        """Return the connection to the pool: the body was read to its end."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._http.close()
        self._response.release_conn()

    def set_idle(self, seconds: float) -> None:
        """Change the idle timeout; see `Stream.set_idle`."""
        self._idle = seconds
        if self._sock is not None and not (self._native or self._batches):
            with contextlib.suppress(OSError):
                self._sock.settimeout(seconds)

    def close(self) -> None:
        """Drop the connection and wake the reading thread; see `Stream.close`."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        if self._sock is not None:
            # Not SSLSocket's own method: it drops the TLS state that the reading thread uses.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._response.close()


def _socket_of(buffered: Any) -> socket.socket | None:
    found = getattr(getattr(buffered, "raw", None), "_sock", None)
    return found if isinstance(found, socket.socket) else None
