"""A server of webhooks on loopback that records what it is sent, and answers as a test says."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.tls_files import Authority

#: What a webhook answers: the response to a review, or a code, a body and its media type.
Reply = dict[str, Any] | tuple[int, bytes, str]
Respond = Callable[[dict[str, Any]], Reply]
ALLOWED: dict[str, Any] = {"allowed": True}


def denial(**status: Any) -> Respond:
    """Return a webhook that refuses everything with this status."""
    return lambda _review: {"allowed": False, "status": status}


def patches(*operations: dict[str, Any]) -> Respond:
    """Return a webhook that answers with these operations of a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _review: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def adds(key: str, value: str = "x") -> Respond:
    """Return a webhook that sets a key of `data`."""
    return patches({"op": "add", "path": f"/data/{key}", "value": value})


@dataclass(slots=True)
class WebhookServer:
    """The webhooks by path; `calls` has the path and the review of each call in order."""

    url: str
    authority: Authority
    webhooks: dict[str, Respond] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    #: Set at the end, so that webhooks that hang return.
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def bundle(self) -> str:
        """The CA bundle of a client configuration."""
        return base64.b64encode(self.authority.pem.encode()).decode()

    def client_config(self, path: str) -> dict[str, Any]:
        """Return the client configuration of a webhook."""
        return {"url": f"{self.url}{path}", "caBundle": self.bundle}

    def hangs(self, _review: dict[str, Any]) -> Reply:
        """Answer when the server stops."""
        self.stopping.wait()
        return ALLOWED

    def called(self, prefix: str) -> list[str]:
        """Return the paths below a prefix that were called, without it, in order."""
        return [path.removeprefix(prefix) for path, _ in self.calls if path.startswith(prefix)]

    def reviews(self, path: str) -> list[dict[str, Any]]:
        """Return the requests of the reviews of one webhook."""
        return [review["request"] for called, review in self.calls if called == path]


@contextmanager
def webhook_server(folder: Path, name: str = "localhost", host: str = "127.0.0.1") -> Iterator[WebhookServer]:
    """Serve webhooks over TLS until the end of the block, with a certificate of this name."""
    authority = Authority(folder)
    server = WebhookServer("", authority)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            path, _, _ = self.path.partition("?")
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.calls.append((path, review))
            reply = server.webhooks[path](review)
            if isinstance(reply, dict):
                response = {"uid": review["request"]["uid"], **reply}
                body = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
                reply = 200, json.dumps(body).encode(), "application/json"
            code, content, media = reply
            self.send_response(code)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            """A client that has left is no news."""

    listener = Server((host, 0), Handler)
    listener.socket = authority.server_context(name=name).wrap_socket(listener.socket, server_side=True)
    server.url = f"https://{host}:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        listener.shutdown()
        listener.server_close()
        thread.join(5)


@cache
def other_bundle() -> str:
    """Return the CA bundle of an authority that signs nothing."""
    with TemporaryDirectory() as folder:
        return base64.b64encode(Authority(Path(folder), "another authority").pem.encode()).decode()


def configuration(name: str, *webhooks: dict[str, Any], sort: str = "Validating") -> dict[str, Any]:
    """Return a configuration of these webhooks."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{sort}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def webhook(name: str, client: dict[str, Any], *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return one webhook; by default it is called for every write of ConfigMaps."""
    everything = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    return {
        "name": name,
        "clientConfig": client,
        "rules": list(rules) or [everything],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
