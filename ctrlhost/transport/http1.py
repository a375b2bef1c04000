"""One HTTP/1.1 exchange over a connection of urllib3: a request sent in one piece, its response parsed as it arrives.

urllib3 opens the connection, with TLS. Its general-purpose handling of a request takes a thousand calls in Python and
two packets; here it is one write, mostly one read, and a parser in C.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httptools

from ctrlhost.errors import TransportError
from ctrlhost.transport.interface import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from urllib3.connection import HTTPConnection

    from ctrlhost.transport.interface import Permit

LARGEST_BODY = 256 * 1024 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_MAX_HEADERS = 100
_PIECE = 64 * 1024
#: The bytes that may leave with one permit.
_SENT_PIECE = 64 * 1024
_ILLEGAL = re.compile(r"[\r\n\0]")
_TARGET = re.compile(r"[!-~]+")


def request_bytes(method: str, target: str, fixed: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Return the bytes of a request; `fixed` are header lines. ValueError for a header with a line break."""
    if not _TARGET.fullmatch(target):
        target = quote(target, safe="%/:?#[]@!$&'()*+,;=~")
    lines = [f"{method} {target} HTTP/1.1\r\n{fixed}"]
    for name, value in headers.items():
        if _ILLEGAL.search(value):
            raise ValueError(f"the value of the header {name} contains a line break")
        lines.append(f"{name}: {value}\r\n")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}\r\n")
    elif method not in ("GET", "DELETE"):
        lines.append("Content-Length: 0\r\n")
    lines.append("\r\n")
    head = "".join(lines).encode("latin-1")
    return head if body is None else head + body


def _set_timeout(sock: Any, deadline: float) -> None:
    """Set a socket's timeout. A change releases the interpreter, so a timeout within 2 % of `deadline` is kept."""
    left, known = max(deadline - time.monotonic(), 0.001), sock.gettimeout()
    if known is None or not 0.98 * left <= known <= 1.02 * left:
        sock.settimeout(left)


def _send(sock: Any, request: bytes, deadline: float, what: str, permit: Permit | None) -> None:
    """Hand the request to the kernel, each piece only with a permit; TransportError at the `deadline`."""
    rest = memoryview(request)
    while rest:
        left = deadline - time.monotonic()
        if permit is not None:
            left = min(left, permit())
        if left <= 0:
            raise TransportError(f"{what}: no time was left to send it", sent=len(rest) < len(request))
        known = sock.gettimeout()
        if known is None or not 0 < known <= left:
            sock.settimeout(left)
        try:
            rest = rest[sock.send(rest[:_SENT_PIECE]) :]
        except TimeoutError:
            # The permit decides whether there is more time. TLS in TLS cannot repeat a piece.
            if not isinstance(sock, socket.socket):
                raise


class Exchange:
    """Sends one request and parses its response; the parser calls the methods `on_…`."""

    def __init__(self) -> None:
        """Start without a response."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._count = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._complete = False
        self._status = 0
        #: When the head of the response was complete, by `time.perf_counter`; 0.0 before.
        self.began = 0.0
        #: Whether the connection can carry another request; valid after `run`.
        self.reusable = False

    def run(
        self, connection: HTTPConnection, request: bytes, deadline: float, what: str, permit: Permit | None = None
    ) -> Response:
        """Return the response; TransportError if it is not complete by `deadline`, OSError if the connection breaks.

        Raises what `permit` raises; the server then never gets the whole request if the caller closes the connection.
        """
        sock: Any = connection.sock
        # A server may respond and close the connection before it has read everything.
        with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            _send(sock, request, deadline, what, permit)
        parser, received = self._parser, 0
        while not self._complete:
            _set_timeout(sock, deadline)
            try:
                piece = sock.recv(_PIECE)
            except TimeoutError as error:
                problem = "the response was not complete in time" if received else "no response in time"
                raise TransportError(f"{what}: {problem}") from error
            if not piece:
                self._end(received, what)
                break
            received += len(piece)
            try:
                parser.feed_data(piece)
            except httptools.HttpParserError as error:
                # Data after a complete response is ignored, but must not become the start of the next one.
                self.reusable = False
                if not self._status:
                    raise TransportError(f"{what}: the response is not HTTP: {error}") from error
            except httptools.HttpParserUpgrade as error:
                raise TransportError(f"{what}: the server switched protocols") from error
            if self._count > _MAX_HEADERS or (received > _MAX_HEAD_BYTES and not self.began):
                raise TransportError(f"{what}: the response has too many headers")
            if self._size > LARGEST_BODY:
                raise TransportError(f"{what}: the response is larger than {LARGEST_BODY >> 20} MiB")
            if not self._complete and time.monotonic() > deadline:
                raise TransportError(f"{what}: the response was not complete in time")
        if self._headers.get("content-encoding", "identity") != "identity":
            raise TransportError(f"{what}: the response is compressed, although that was not requested")
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return Response(self._status or parser.get_status_code(), self._headers, body)

    def _end(self, received: int, what: str) -> None:
        """Accept the end of the connection only as the end of a body without a length and without chunks."""
        if not received:
            raise TransportError(f"{what}: the server closed the connection without a response")
        if not self.began or "content-length" in self._headers or "transfer-encoding" in self._headers:
            raise TransportError(f"{what}: the connection was cut in the middle of the response")

    def on_message_begin(self) -> None:
        """Do not reuse a connection that carries a second response."""
        if self._complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; repeated ones become one list."""
        if self._complete:
            return
        self._count += 1
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Record when the response began; drop the headers of an interim one."""
        if self._parser.get_status_code() < 200:
            self._headers.clear()
        elif not self._complete:
            self.began = time.perf_counter()

    def on_body(self, piece: bytes) -> None:
        """Store a piece of the body."""
        if self._complete:
            return
        self._pieces.append(piece)
        self._size += len(piece)

    def on_message_complete(self) -> None:
        """End the exchange, unless this was only an interim response."""
        status = self._parser.get_status_code()
        if self._complete or status < 200:
            return
        self._complete, self._status = True, status
        self.reusable = bool(self._parser.should_keep_alive())
