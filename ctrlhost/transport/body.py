"""The body of a streamed answer, taken off the socket with one system call per piece.

A watch sends one small chunk per event. Reading chunk by chunk through http.client costs three reads and as many
Python calls for each; here a piece is whatever one `recv` brings, and the core cuts the chunks in it out together. A
plain socket it even reads itself: nobody waits for the interpreter then, who only passes events on.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Protocol

from urllib3.util.wait import wait_for_read

from ctrlhost._core import Body
from ctrlhost.errors import CtrlhostError, TransportError

if TYPE_CHECKING:
    from ctrlhost.transport.interface import BodyReader, WatchProgress

_PIECE = 256 * 1024
_RECORD = 16 * 1024


class _Raw(Protocol):
    def read1(self, size: int = -1, /) -> bytes: ...


class BodyStream:
    """A `Stream` over one HTTP/1.1 response."""

    def __init__(self, response: Any, what: str, idle: float) -> None:
        """Take over the body of a urllib3 response, of which nothing was read."""
        # urllib3 offers no way to the buffered socket, and its own chunked reading costs more than the decoder.
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
        #: What came together with the headers.
        self._first = b""
        #: Whether the core reads the socket itself. TLS is Python's.
        self._native = type(self._sock) is socket.socket and self._body.take_socket(self._sock.fileno())
        #: Whether what there is can be told from what is to be waited for.
        self._gathers = isinstance(self._sock, ssl.SSLSocket)
        #: What ended the stream, after what was told last.
        self._failed: Exception | None = None
        if self._sock is not None:
            self._sock.settimeout(0.0 if self._native or self._gathers else idle)
        if self._native or self._gathers:
            # From here on nobody but us reads the socket. What is wrong with it, the first read says.
            with contextlib.suppress(OSError):
                self._first = self._raw.read1(_PIECE)

    def read(self) -> bytes:
        """Give the next bytes, b"" at the end; see `Stream.read`."""
        while not self._over():
            try:
                if self._native and not self._first:
                    data = self._body.receive(self._idle)
                else:
                    data = self._body.feed(self._piece())
            except Exception as error:  # noqa: BLE001 - sorted there
                self._fail(error)
            else:
                if data:
                    self._over()
                    return data
        return b""

    def follow(self, reader: BodyReader, linger: float) -> WatchProgress | None:
        """Hand what arrives to the reader and on to its handlers, until something is to be said; None at the end.

        Events alone are passed on for up to `linger` seconds without a return, where the core reads the socket itself.
        """
        while not self._over():
            if self._failed is not None:
                self._fail(self._failed)
                continue
            try:
                if self._native and not self._first:
                    progress = reader.follow_socket(self._body, self._idle, linger)
                else:
                    progress = reader.follow(self._body, self._piece())
            except Exception as error:  # noqa: BLE001 - sorted there
                self._fail(error)
            else:
                self._failed = progress.failed
                if self._failed is None or progress.events or progress.bookmarks or progress.skipped:
                    return progress
        return None

    def feed_list(self, reader: BodyReader, linger: float) -> bool:
        """Hand on more of a list page, for about `linger` seconds; False at its end."""
        if self._over():
            return False
        try:
            if self._native and not self._first:
                reader.list_socket(self._body, self._idle, linger)
            else:
                reader.list_piece(self._body, self._piece())
        except Exception as error:  # noqa: BLE001 - sorted there
            self._fail(error)
        return True

    def _piece(self) -> bytes:
        """Give the next bytes off the connection, framing and all; b"" where its end is the body's."""
        piece, self._first = self._first, b""
        if not piece:
            piece = self._gathered() if self._gathers else self._raw.read1(_PIECE)
            if not piece:
                self._body.end()
        return piece

    def _gathered(self) -> bytes:
        """Give all that there is on a TLS connection, and wait for it only if there is nothing.

        Python decrypts no more than 16 KiB at a time. To hand on each of them by itself would mean to wait for the
        interpreter after each, beside a thread that computes.
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

    def _over(self) -> bool:
        """Say whether nothing more comes, and let go of what is not needed then; for the thread that reads."""
        if not self._closed.is_set() and self._body.done:
            self._give_back()
        over = self._closed.is_set()
        if over and self._native:
            self._native = False
            self._body.drop_socket()
        return over

    def _fail(self, error: Exception) -> None:
        """Raise what ended the stream, unless somebody closed it."""
        if self._closed.is_set():
            return
        self.close()
        self._over()
        if isinstance(error, TimeoutError):
            problem = f"nothing arrived for {self._idle:g} s"
        elif isinstance(error, OSError | ValueError | AttributeError) and not isinstance(error, CtrlhostError):
            # AttributeError: the ssl module's answer to a read of a socket that another thread shut down.
            problem = str(error) or type(error).__name__
        else:
            raise error
        raise TransportError(f"{self._what}: {problem}") from error

    def _give_back(self) -> None:
        """Let the next request use the connection: the body was read to its end."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._http.close()
        self._response.release_conn()

    def set_idle(self, seconds: float) -> None:
        """Bound the silence anew; see `Stream.set_idle`."""
        self._idle = seconds
        if self._sock is not None and not (self._native or self._gathers):
            with contextlib.suppress(OSError):
                self._sock.settimeout(seconds)

    def close(self) -> None:
        """Drop the connection and wake the reader; see `Stream.close`."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        if self._sock is not None:
            # The plain socket's method on purpose: SSLSocket's own forgets its TLS state under the reader's feet.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._response.close()


def _socket_of(buffered: Any) -> socket.socket | None:
    found = getattr(getattr(buffered, "raw", None), "_sock", None)
    return found if isinstance(found, socket.socket) else None
