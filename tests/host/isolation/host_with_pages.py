"""A host process with a plugin `bad`, whose pages say what they see, and what its endpoints show."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.host_process import LIMIT, HostProcess

#: Its pages say what they see, and change how its health check goes.
BAD = """
import asyncio, json, os, threading
from prometheus_client import Counter, Gauge, Histogram
import ctrlhost

MAPS = ctrlhost.For("v1", "ConfigMap")
LABELLED = ctrlhost.For("v1", "ConfigMap", label_selector="hang")
calls, check, hang, released = [], [lambda: None], threading.Event(), asyncio.Event()

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    counter = Counter("made", "Things made", ["kind"], registry=plugin.metrics)
    counter.labels("a").inc(2)
    Histogram("took_seconds", "How long it took", registry=plugin.metrics).observe(0.2)
    Gauge("size", "Size", registry=plugin.metrics).set_function(lambda: len(calls))
    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap"),
        ctrlhost.Watches("v1", "Secret", map=lambda secret: []))
    plugin.add_controller("stuck", lambda ctx, request: hang.wait(), LABELLED)
    plugin.add_health_check("peers", called)
    plugin.add_health_check("fine", lambda: None)
    plugin.add_page("/", app)
    plugin.add_page("/pages/deep", app)

def reconcile(ctx, request):
    ctx.client.get("v1", "ConfigMap", request.name, request.namespace)

def called():
    calls.append(1)
    check[0]()

def no_peers():
    raise RuntimeError("no peers")

async def app(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    name = scope["path"].rpartition("/")[2]
    if name == "silent":
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 404 if name == "none" else 201,
                "headers": [(b"x-one", b"1"), (b"x-one", b"2")]})
    if name == "parts":
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        await released.wait()
        body = b"second"
    elif name == "endless":
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
        except asyncio.CancelledError:
            released.set()
            raise
    elif name == "cut":
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        raise RuntimeError("on purpose")
    else:
        released.set() if name == "release" else None
        check[0] = {"raises": no_peers, "hangs": hang.wait, "passes": lambda: None}.get(name, check[0])
        seen = {key: scope[key] for key in ("method", "path", "root_path", "scheme", "http_version")}
        seen["raw"] = [scope["raw_path"].decode(), scope["query_string"].decode()]
        seen["headers"] = sorted(f"{key.decode()}: {value.decode()}" for key, value in scope["headers"])
        seen |= {"client": scope["client"][0], "length": len(body), "end": body[-20:].decode()}
        seen |= {"pid": os.getpid(), "calls": len(calls), "released": released.is_set()}
        body = json.dumps(seen).encode()
    await send({"type": "http.response.body", "body": body})
"""

GOOD = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("all", lambda ctx, request: None, ctrlhost.For("v1", "ConfigMap"))
"""


class Hosts:
    """Starts hosts with the plugins `bad` and `good`; the settings are those of `bad`."""

    def __init__(self, start: Callable[..., HostProcess], runtime: Path) -> None:
        self._start = start
        self._runtime = runtime

    def __call__(self, *arguments: str, isolated: bool = True, **settings: str) -> HostProcess:
        own = ["--isolate=bad"] if isolated else []
        options = [f"--set=supervision.bad.{key.replace('__', '.')}={value}" for key, value in settings.items()]
        host = self._start(
            "--sandbox", *own, *options, *arguments, plugins="good,bad", XDG_RUNTIME_DIR=str(self._runtime)
        )
        host.line("plugin bad running")
        host.line("plugin good running")
        return host

    def directory(self, host: HostProcess) -> Path:
        return self._runtime / "ctrlhost" / str(host.pid)


def ask(
    host: HostProcess, path: str, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return status, headers but for the date, and body of an answer."""
    connection = http.client.HTTPConnection(host.address, timeout=LIMIT)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    with contextlib.closing(connection):
        connection.request(method, path, body, named, encode_chunked="Transfer-Encoding" in named)
        answer = connection.getresponse()
        fields = [(key.lower(), value) for key, value in answer.getheaders()]
        assert [key for key, _ in fields].count("date") == 1
        return answer.status, sorted(field for field in fields if field[0] != "date"), answer.read()


def seen(host: HostProcess, path: str = "/bad/look") -> dict[str, Any]:
    """Return what a page of `bad` says."""
    document: dict[str, Any] = json.loads(ask(host, path)[2])
    return document


def queues(host: HostProcess) -> dict[str, Any]:
    return {queue["controller"]: queue for queue in json.loads(host.get("/debug/queues")[1])}


def lines(host: HostProcess, path: str) -> dict[str, str]:
    """Return the lines of a health report by the names of the checks."""
    checks = host.get(f"{path}?verbose")[1].splitlines()
    return {line[3:].split()[0].rstrip(":"): line for line in checks if line.startswith(("[+]", "[-]"))}


def names(host: HostProcess, path: str) -> set[str]:
    """Return the names of the checks of a health report, but for `state`, which a busy host adds."""
    return set(lines(host, path)) - {"state"}
