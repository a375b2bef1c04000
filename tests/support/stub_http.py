"""HTTP of the stub API server: received requests and the writing of responses."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from tests.support.stub_api_server import StubApiServer


@dataclass(frozen=True)
class ReceivedRequest:
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True
    stub: StubApiServer
    received: ReceivedRequest

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        return

    def setup(self) -> None:
        super().setup()
        self.stub.connected(self.connection)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def _any(self) -> None:
        if self.stub.on_peer is not None:
            subject = self.connection.getpeercert()["subject"]
            self.stub.on_peer(subject[0][0][1])
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.received = ReceivedRequest(self.command, unquote(parts.path), query, headers, self.rfile.read(length))
        self.stub.next_answer(self.received, parts.path).send(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - names that http.server calls

    def start(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.start(status, {**headers, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def gone(self) -> bool:
        """Return whether the client closed the connection."""
        self.connection.settimeout(0.01)
        try:
            return self.connection.recv(1) == b""
        except (TimeoutError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(None)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        return
