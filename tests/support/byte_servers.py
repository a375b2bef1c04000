"""Servers that only count bytes, and a proxy for tunnels, on ports of 127.0.0.1."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self


def _nothing() -> None:
    return


class _Listening(ABC):
    """A port whose connections are each served on a thread, each after a call of `before`."""

    def __init__(self, received_at_once: int | None = None, before: Callable[[], None] = _nothing) -> None:
        self._before = before
        self._listener = socket.socket()
        if received_at_once is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received_at_once)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def crowd(self) -> Callable[[], None]:
        """Keep all from connecting until the returned function is called; in place of `with`, before it."""
        self._listener.listen(0)
        crowd = [socket.socket() for _ in range(3)]
        for connection in crowd:
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", self.port))

        def end() -> None:
            for connection in crowd:
                connection.close()
            self._thread.start()

        return end

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._before()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @abstractmethod
    def _serve(self, connection: socket.socket) -> None:
        """Serve a connection until it is closed."""


class ByteServer(_Listening):
    """Keeps what each closed connection had sent; with `hold` it reads only when that is set."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        hold: threading.Event | None = None,
        received_at_once: int | None = None,
        before: Callable[[], None] = _nothing,
    ) -> None:
        super().__init__(received_at_once, before)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.received: list[bytes] = []
        self._tls, self._hold = tls, hold

    def _serve(self, connection: socket.socket) -> None:
        reading: Any = connection
        pieces: list[bytes] = []
        with contextlib.suppress(OSError), connection:
            if self._tls is not None:
                reading = self._tls.wrap_socket(connection, server_side=True)
            if self._hold is not None:
                self._hold.wait()
            with contextlib.suppress(OSError):
                while piece := reading.recv(65536):
                    pieces.append(piece)
            reading.close()
        self.received.append(b"".join(pieces))


class Tunnels(_Listening):
    """An HTTP proxy that passes on bytes after `CONNECT`, and requests for whole URLs to `origin`."""

    def __init__(self, origin: int) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}"
        self.asked: list[str] = []
        #: The connections that have ended.
        self.served = 0
        self._origin = origin

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._pass_on(connection)
        finally:
            self.served += 1

    def _pass_on(self, connection: socket.socket) -> None:
        head = b""
        with contextlib.suppress(OSError), connection, socket.create_connection(("127.0.0.1", self._origin)) as origin:
            # A client that connects and sends nothing has asked nothing of the origin.
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            self.asked.append(head.split(b"\r\n", 1)[0].decode())
            if head.startswith(b"CONNECT "):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                origin.sendall(head)
            back = threading.Thread(target=_pump, args=(origin, connection), daemon=True)
            back.start()
            _pump(connection, origin)
            back.join()


class Socks(_Listening):
    """A SOCKS 5 proxy in front of `origin` with a user and a password; it notes what it is asked for."""

    def __init__(self, origin: int) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, str]] = []
        self._origin = origin

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as read:
            read.read(read.read(2)[1])
            connection.sendall(b"\x05\x02")
            read.read(1)
            user, password = (read.read(read.read(1)[0]).decode() for _ in range(2))
            connection.sendall(b"\x01\x00")
            kind = read.read(4)[3]
            host = read.read(read.read(1)[0]).decode() if kind == 3 else socket.inet_ntoa(read.read(4))
            port = int.from_bytes(read.read(2), "big")
            self.asked.append((f"{host}:{port}", user, password))
            with socket.create_connection(("127.0.0.1", self._origin)) as origin:
                connection.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
                back = threading.Thread(target=_pump, args=(origin, connection), daemon=True)
                back.start()
                _pump(connection, origin)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
