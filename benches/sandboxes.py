"""The load for the benches of the sandbox: raw HTTP over TLS, at almost no cost of its own.

It works on any API server, so the sandbox and kube-apiserver do the same job in the same run.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import yaml

from benches.pods import FIRST_REVISION, pod

SERVER = """
import sys, time
from ctrlhost_sandbox import Sandbox
sandbox = Sandbox(kubeconfig=sys.argv[1], data_dir=sys.argv[2] if len(sys.argv) > 2 else None).start()
print(sandbox.url, flush=True)
sys.stdin.read()
"""
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Server(Protocol):
    """A server under load."""

    url: str
    kubeconfig: Path

    @property
    def pid(self) -> int: ...


@dataclass
class SandboxProcess:
    """A sandbox in its own process, as `ctrlhost sandbox` runs it."""

    url: str
    kubeconfig: Path
    pid: int
    seconds: float
    """Seconds from the start of the interpreter to the line with the URL."""


@contextmanager
def sandbox(directory: Path, *, on_disk: bool = False) -> Iterator[SandboxProcess]:
    """Run a sandbox that keeps its objects in memory, or in SQLite below `directory`."""
    kubeconfig = directory / "kubeconfig"
    arguments = [str(kubeconfig), *([str(directory / "data")] if on_disk else [])]
    began = time.perf_counter()
    command = [sys.executable, "-c", SERVER, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            yield SandboxProcess(url, kubeconfig, process.pid, time.perf_counter() - began)
        finally:
            process.kill()


def memory(pid: int) -> int:
    """Return the resident bytes of a process."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


class Access:
    """How to reach a server: address, TLS, the administrator's credentials."""

    def __init__(self, server: Server) -> None:
        config = yaml.safe_load(server.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        parts = urlsplit(cluster["server"])
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port or 443
        self.headers = f"Host: {parts.netloc}\r\nAccept: application/json\r\n"
        if "token" in user:
            self.headers += f"Authorization: Bearer {user['token']}\r\n"
        # The bench measures the server; both are on this machine.
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        if "client-certificate-data" in user or "client-certificate" in user:
            raise AssertionError("the bench knows tokens only")

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\n{self.headers}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"\r\n" + body


class Line:
    """One connection, kept open."""

    def __init__(self, access: Access) -> None:
        import http.client

        self._access = access
        self._connection = http.client.HTTPSConnection(access.host, access.port, context=access.context)
        self._connection.connect()
        self._socket = self._connection.sock
        self._file = self._socket.makefile("rb")

    def write(self, request: bytes) -> int:
        """Send a request, read its whole answer and return the status."""
        self._socket.sendall(request)
        status, length, chunked = int(self._file.readline().split()[1]), 0, False
        while (line := self._file.readline().lower()) != b"\r\n":
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            chunked = chunked or (line.startswith(b"transfer-encoding:") and b"chunked" in line)
        if chunked:
            while size := int(self._file.readline(), 16):
                self._file.read(size + 2)
            self._file.readline()
        else:
            self._file.read(length)
        return status

    def close(self) -> None:
        self._file.close()
        self._connection.close()


def config_map(number: int) -> dict[str, Any]:
    """Return a ConfigMap of about 1 KB."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"c{number:06}", "labels": {"app": f"a{number % 10}"}},
        "data": {f"key-{index}": f"{number:08}" * 10 for index in range(10)},
    }


def created_pod(number: int) -> dict[str, Any]:
    """Return a pod of the stub server without the fields that a server refuses on create."""
    body: dict[str, Any] = dict(pod(number, FIRST_REVISION))
    kept = {key: body["metadata"][key] for key in ("name", "labels", "annotations")}
    containers = [container | {"resources": {"limits": {"memory": "8Gi"}}} for container in body["spec"]["containers"]]
    spec = {**body["spec"], "containers": containers, "serviceAccountName": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}


def create(
    server: Server, path: str, count: int, make: Callable[[int], dict[str, Any]], writers: int = 16, first: int = 0
) -> float:
    """Create objects over several connections at once and return the seconds."""
    access = Access(server)
    requests = [access.request("POST", path, json.dumps(make(first + number)).encode()) for number in range(count)]
    lines = [Line(access) for _ in range(writers)]
    failed: list[int] = []

    def write(number: int) -> None:
        for request in requests[number::writers]:
            status = lines[number].write(request)
            if status != 201:
                failed.append(status)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - began
    for line in lines:
        line.close()
    assert not failed, failed[:5]
    return taken


def list_seconds(server: Server, path: str) -> float:
    """Return the seconds from the request of a list to the last byte of its answer."""
    access = Access(server)
    line = Line(access)
    began = time.perf_counter()
    assert line.write(access.request("GET", path)) == 200
    taken = time.perf_counter() - began
    line.close()
    return taken


def watch_latencies(server: Server, watchers: int, per_second: int, seconds: float) -> list[float]:
    """Write at a steady pace under several watches; return the delay of each event at each watch, in seconds."""
    return asyncio.run(_watch_latencies(Access(server), watchers, int(per_second * seconds), 1 / per_second))


class _Watcher(asyncio.Protocol):
    """Records when each event arrived; there is one writer, so the n-th event is that of the n-th write."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.arrived: list[float] = []
        self.ready = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self.ready.done():
            assert data.startswith(b"HTTP/1.1 200"), data[:200]
            self.ready.set_result(None)
        self.arrived += [now] * data.count(b'{"type":"ADDED"')


async def _watch_latencies(access: Access, watchers: int, writes: int, pause: float) -> list[float]:
    loop = asyncio.get_running_loop()
    line = Line(access)
    await loop.run_in_executor(None, line.write, access.request("GET", f"{CONFIG_MAPS}?limit=1"))
    request = access.request("GET", f"{CONFIG_MAPS}?watch=true&resourceVersion={_newest(access)}")
    connections = [
        (await loop.create_connection(lambda: _Watcher(request), access.host, access.port, ssl=access.context))
        for _ in range(watchers)
    ]
    clients = [watcher for _, watcher in connections]
    await asyncio.gather(*(watcher.ready for watcher in clients))
    sent: list[float] = []
    start = time.perf_counter() + 0.1
    for number in range(writes):
        await asyncio.sleep(max(start + number * pause - time.perf_counter(), 0))
        body = json.dumps(config_map(800_000 + number)).encode()
        sent.append(time.perf_counter())
        await loop.run_in_executor(None, line.write, access.request("POST", CONFIG_MAPS, body))
    deadline = time.perf_counter() + 30
    while any(len(watcher.arrived) < writes for watcher in clients) and time.perf_counter() < deadline:  # noqa: ASYNC110
        # A watcher must do almost nothing for each event, so it notifies nothing.
        await asyncio.sleep(0.01)
    for transport, _ in connections:
        transport.abort()
    line.close()
    assert all(len(watcher.arrived) == writes for watcher in clients), "a watcher missed an event"
    return [came - began for watcher in clients for began, came in zip(sent, watcher.arrived, strict=True)]


def _newest(access: Access) -> str:
    import urllib.request

    base = f"https://{access.host}:{access.port}{CONFIG_MAPS}?limit=1"
    headers = dict(line.split(": ", 1) for line in access.headers.splitlines() if not line.startswith("Host"))
    with urllib.request.urlopen(urllib.request.Request(base, headers=headers), context=access.context) as answer:
        version: str = json.load(answer)["metadata"]["resourceVersion"]
    return version
