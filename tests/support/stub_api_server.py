"""A scripted API server on a real socket, for answers that a correct server never sends.

    with StubApiServer() as server:
        server.on("GET", "/api/v1/pods", Json(pod_list()), Failure(410), Hang())

Each request gets the next answer of its method and path; the last one is repeated. `server.requests` records the
requests. The test feeds a `Frames` answer while the stream is open.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.stub_http import Handler, ReceivedRequest, Server


class Answer(ABC):
    """The answer to one request."""

    @abstractmethod
    def send(self, handler: Handler) -> None: ...


@dataclass
class Json(Answer):
    """A complete JSON body."""

    content: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, handler: Handler) -> None:
        handler.whole(
            self.status, json.dumps(self.content).encode(), {"Content-Type": "application/json", **self.headers}
        )


class Failure(Json):
    """A failure `Status` with a code."""

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after: int | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status_object(code, reason, message, details), code, headers)


@dataclass
class Body(Answer):
    """Any bytes as a complete body."""

    body: bytes
    status: int = 200
    content_type: str = "text/html"

    def send(self, handler: Handler) -> None:
        handler.whole(self.status, self.body, {"Content-Type": self.content_type})


@dataclass
class Raw(Answer):
    """Any bytes instead of an HTTP response, then a closed connection."""

    data: bytes

    def send(self, handler: Handler) -> None:
        handler.wfile.write(self.data)
        handler.drop()


class Drop(Answer):
    """A closed connection without a response."""

    def send(self, handler: Handler) -> None:
        handler.drop()


class Hang(Answer):
    """No response, on a connection that stays open until the server stops."""

    def send(self, handler: Handler) -> None:
        handler.stub.stopping.wait()
        handler.drop()


@dataclass
class Endless(Answer):
    """An endless body, as fast as the client reads."""

    piece: bytes = b"x" * 65536

    def send(self, handler: Handler) -> None:
        handler.start(200, {"Transfer-Encoding": "chunked"})
        while not handler.stub.stopping.is_set():
            handler.chunk(self.piece)


class Frames(Answer):
    """A watch stream that the test feeds; `opened` is set when a client reads it."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.opened = threading.Event()
        self.closed = threading.Event()
        self._orders: queue.Queue[Callable[[Handler], bool]] = queue.Queue()
        for event in events:
            self.send_event(event)

    def send_event(self, event: dict[str, Any]) -> None:
        self.send_bytes(json.dumps(event).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        def order(handler: Handler) -> bool:
            handler.chunk(data)
            return True

        self._orders.put(order)

    def end(self) -> Frames:
        """End the stream regularly, like a server after its timeout."""

        def order(handler: Handler) -> bool:
            handler.wfile.write(b"0\r\n\r\n")
            return False

        self._orders.put(order)
        return self

    def cut(self) -> Frames:
        """Close the connection in the middle of the stream."""

        def order(handler: Handler) -> bool:
            handler.drop()
            return False

        self._orders.put(order)
        return self

    def send(self, handler: Handler) -> None:
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", "Connection": "close"}
        handler.start(200, headers)
        handler.wfile.flush()
        self.opened.set()
        going = True
        try:
            while going and not handler.stub.stopping.is_set():
                try:
                    going = self._orders.get(timeout=0.05)(handler)
                except queue.Empty:
                    going = not handler.gone()
        finally:
            # Also where the client closed it while this was writing.
            self.closed.set()
        handler.close_connection = True


class Computed(Answer):
    """An answer computed from the request."""

    def __init__(self, make: Callable[[ReceivedRequest], Answer]) -> None:
        self._make = make

    def send(self, handler: Handler) -> None:
        self._make(handler.received).send(handler)


class StubApiServer:
    """A server on a port of 127.0.0.1, by default a free one."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.requests: list[ReceivedRequest] = []
        self.stopping = threading.Event()
        #: A callback for each request, with the common name of the client's certificate.
        self.on_peer: Callable[[str], None] | None = None
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._tls = tls
        handler = type("Handler", (Handler,), {"stub": self})
        self._server = Server(("127.0.0.1", port), handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> StubApiServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port and every connection, like a killed process."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return len(self._connections)

    @property
    def open_connections(self) -> int:
        """The number of connections that neither side has closed."""
        return sum(connection.fileno() != -1 for connection in self._connections)

    def connected(self, connection: socket.socket) -> None:
        self._connections.append(connection)

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    def on(self, method: str, path: str, *answers: Answer | Iterable[Answer]) -> None:
        """Add answers for a method and path; the last one is repeated."""
        flat: list[Answer] = []
        for answer in answers:
            flat.extend([answer] if isinstance(answer, Answer) else answer)
        with self._lock:
            self._answers[method, path] = flat

    def next_answer(self, request: ReceivedRequest, raw_path: str) -> Answer:
        with self._lock:
            self.requests.append(request)
            # The path on the wire takes precedence over the decoded one.
            answers = self._answers.get((request.method, raw_path)) or self._answers.get((request.method, request.path))
            if not answers:
                return Failure(404, "NotFound", f"no scripted answer for {request.method} {request.path}")
            return answers.pop(0) if len(answers) > 1 else answers[0]

    def received(self, *, watch: bool | None = None) -> list[ReceivedRequest]:
        """Return the requests so far, optionally only watches or only others."""
        with self._lock:
            return [
                request
                for request in self.requests
                if watch is None or (request.query.get("watch") in ("1", "true")) == watch
            ]


def status_object(
    code: int, reason: str = "", message: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return {**status, "details": details} if details else status


def pod(name: str, version: int | str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": labels}, "spec": {"nodeName": "n1"}}


def pod_list(
    version: int | str, *pods: dict[str, Any], continue_: str = "", remaining: int | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if continue_:
        metadata["continue"] = continue_
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(pods)}


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **obj}}


def bookmark(version: int | str, *, initial_end: bool | str = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true" if initial_end is True else initial_end}
    return event("BOOKMARK", {"metadata": metadata})


def error_event(
    code: int, reason: str = "", message: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"type": "ERROR", "object": status_object(code, reason, message, details)}


def serve(server: StubApiServer, path: str, lists: list[Answer], watches: list[Answer]) -> None:
    """Answer lists and watches of one path from two scripts; the last answer of each is repeated."""

    def answer(request: ReceivedRequest) -> Answer:
        script = watches if request.query.get("watch") else lists
        return script.pop(0) if len(script) > 1 else script[0]

    server.on("GET", path, Computed(answer))


def echo(status: int = 200) -> Answer:
    """Answer with the body of the request."""
    return Computed(lambda request: Json(request.json(), status))
