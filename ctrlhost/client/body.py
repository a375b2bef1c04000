"""The body of a streamed answer, taken off the socket with one system call per piece.

A watch sends one small chunk per event. Reading chunk by chunk through http.client costs three reads and as many
Python calls for each; here a piece is whatever one `recv` brings, and the chunks in it are cut out together.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, Protocol

from ctrlhost.errors import TransportError

_PIECE = 256 * 1024
_LONGEST_SIZE_LINE = 1024


class _Raw(Protocol):
    def read1(self, size: int = -1, /) -> bytes: ...


class Chunks:
    """Takes chunked transfer coding apart, cut anywhere."""

    def __init__(self) -> None:
        """Expect the first chunk's size."""
        self.done = False
        self._rest = b""
        self._missing = 0
        self._trailer = False

    def feed(self, piece: bytes) -> bytes:
        """Give the payload in the bytes so far that was not given before; ValueError if the coding is broken."""
        data = self._rest + piece if self._rest else piece
        out: list[bytes] = []
        at, end = 0, len(data)
        while at < end and not self.done:
            if self._missing > 2:
                take = min(self._missing - 2, end - at)
                out.append(data[at : at + take])
                self._missing -= take
                at += take
                continue
            if self._missing:
                take = min(self._missing, end - at)
                if data[at : at + take] != b"\r\n"[2 - self._missing : 2 - self._missing + take]:
                    raise ValueError("a chunk does not end where its size says")
                self._missing -= take
                at += take
                continue
            newline = data.find(b"\r\n", at)
            if newline < 0:
                if end - at > _LONGEST_SIZE_LINE:
                    raise ValueError("a chunk's size is no number")
                break
            line = data[at:newline]
            at = newline + 2
            if self._trailer:
                self.done = not line
                continue
            size = int(line.split(b";", 1)[0].strip() or b"x", 16)
            if size < 0:
                raise ValueError("a chunk's size is negative")
            self._trailer = size == 0
            self._missing = size + 2 if size else 0
        self._rest = data[at:]
        return out[0] if len(out) == 1 else b"".join(out)


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
        if self._sock is not None:
            self._sock.settimeout(idle)
        self._what = what
        self._chunks = Chunks() if http.chunked else None
        self._left: int | None = http.length
        self._idle = idle
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ended = False

    def read(self) -> bytes:
        """Give the next bytes, b"" at the end; see `Stream.read`."""
        if self._left == 0:
            self._give_back()
        while not self._closed.is_set():
            try:
                piece = self._raw.read1(_PIECE)
                data = self._payload(piece)
            except TimeoutError as error:
                self._fail(f"nothing arrived for {self._idle:g} s", error)
            except (OSError, ValueError, AttributeError) as error:
                # AttributeError: the ssl module's answer to a read of a socket that another thread shut down.
                self._fail(str(error) or type(error).__name__, error)
            else:
                if self._ended:
                    self._give_back()
                if data:
                    return data
        return b""

    def _payload(self, piece: bytes) -> bytes:
        if self._chunks is not None:
            if not piece:
                raise ValueError("the connection was cut in the middle of the stream")
            data = self._chunks.feed(piece)
            self._ended = self._chunks.done
            return data
        if self._left is not None:
            piece = piece[: self._left]
            if not piece and self._left:
                raise ValueError(f"the connection was cut {self._left} bytes before the end")
            self._left -= len(piece)
            self._ended = self._left == 0
        elif not piece:
            # Without a length the end of the connection is the end of the body.
            self._ended = True
        return piece

    def _fail(self, problem: str, error: Exception) -> None:
        if self._closed.is_set():
            return
        self.close()
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
        if self._sock is not None:
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
