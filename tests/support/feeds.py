"""A feed of informers, and clients of its sockets."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import urllib3

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.informers.declarations import scope_of
from ctrlhost.kubeconfig.connection import from_unix_socket
from ctrlhost.supervisor.cache_server import CacheServer, FeedLimits, Reader
from ctrlhost.transport.native import NativeTransport
from tests.support.http_client import Api
from tests.support.informer_rig import QUICK
from tests.support.unix_pools import UnixConnectionPool
from tests.support.waiting import eventually

PODS = "/api/v1/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class SocketApi(Api):
    """A raw client of a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("http://localhost")
        self.pool = urllib3.PoolManager(retries=False, timeout=20.0, maxsize=8)
        pool_class = partial(UnixConnectionPool, unix_socket=str(path))
        self.pool.pool_classes_by_scheme = {"http": pool_class}  # type: ignore[dict-item]

    def listed(self, path: str, **query: Any) -> Any:
        """Return a list as soon as there is one."""
        return eventually(lambda: (answer := self.get(path, **query)).status == 200 and answer).json()


class FeedRig:
    """Informers of an API server, served on sockets. The limits are those of the feed, but for what is given."""

    def __init__(self, client: Client, *, clock: Any = None, **limits: Any) -> None:
        self.client = client
        self.factory = InformerFactory(client, options=ReflectorOptions(watch_list=False, backoff=QUICK))
        self.server = CacheServer(self.factory, client.resources, clock=clock, limits=FeedLimits(**limits))
        # Paths of pytest can be longer than the address of a socket.
        self.directory = Path(tempfile.mkdtemp(prefix="feed-"))
        self._apis: list[SocketApi] = []

    def open(self, plugin: str = "bad") -> tuple[Reader, SocketApi]:
        """Return a new reader, and a client of its socket."""
        reader = self.server.open(plugin, self.path(plugin))
        self._apis.append(SocketApi(self.path(plugin)))
        return reader, self._apis[-1]

    def path(self, plugin: str = "bad") -> Path:
        return self.directory / plugin / "feed.sock"

    def serving(self, api_version: str = "v1", kind: str = "Pod", plugin: str = "bad", **declared: Any) -> SocketApi:
        """Return a client of a new socket on which a kind is served."""
        reader, api = self.open(plugin)
        reader.declare(scope_of(api_version, kind, **declared))
        return api

    def reading_client(self, plugin: str = "bad") -> Client:
        """Return a client that lists and watches on the socket, and knows kinds from the API server."""
        return self.client.derive(transport=NativeTransport(from_unix_socket(str(self.path(plugin)))))

    def engine(self, kind: str = "Pod") -> Any:
        """Return the engine of the only informer of a kind."""
        (informer,) = (entry for entry in self.factory.informers() if entry.kind == kind)
        (part,) = informer.parts
        return part.engine

    def stop(self) -> None:
        for api in self._apis:
            api.__exit__(None, None, None)
        self.server.stop()
        self.factory.stop()
        shutil.rmtree(self.directory)


class StuckWatcher:
    """A client that sends the request of a watch and reads nothing before it is told to."""

    def __init__(self, path: Path, target: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(30)
        self._sock.connect(str(path))
        with suppress(BrokenPipeError):
            self._sock.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def rest(self) -> bytes:
        """Return what the server sent before it closed the connection."""
        pieces = []
        try:
            while piece := self._sock.recv(1 << 20):
                pieces.append(piece)
        except ConnectionResetError:
            pass
        self._sock.close()
        return b"".join(pieces)


def short(event: dict[str, Any]) -> str:
    """Return an event as `MODIFIED a 7`."""
    metadata = event["object"].get("metadata", {})
    words = [event["type"], metadata.get("name"), metadata.get("resourceVersion") or str(event["object"].get("code"))]
    return " ".join(word for word in words if word)


def change(engine: Any, kind: str, *objects: dict[str, Any]) -> None:
    """Pass changes to an engine, as from its watch."""
    for obj in objects:
        engine.feed_watch(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
    engine.process()
