"""Pages and listeners of a plugin on its event loop, and a loop that is blocked."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

import ctrlhost
from ctrlhost import For
from ctrlhost.controller import event_loop
from tests.host.supervision.test_probes import SERVED, fetch
from tests.support.misbehaviour import Good, Hang, metric, reason_of, state_of
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MINE = For("v1", "ConfigMap", label_selector="mine")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def paged(name: str, app: Any, port: int | None = None) -> Any:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_page("/page", app)
        if port is not None:
            plugin.add_listener(f"127.0.0.1:{port}", app)

    return plugin_of(setup, name)


@behaviour("supervision/EN22")
def test_pages_that_block_cost_others_nothing(ctrlhost_host, good: Good, hang: Hang) -> None:
    async def blocks(scope: Any, _receive: Any, _send: Any) -> None:
        if scope["type"] == "http":
            hang()

    bad_port, fine_port = free_port(), free_port()
    host = ctrlhost_host(
        paged("bad", blocks, bad_port),
        paged("fine", PlainTextResponse("fine"), fine_port),
        good.module,
        supervision={"bad": {"deadlines": {"page": 2.0}, "restart_delay": 300.0}},
        **SERVED,
    )

    def ask(number: int) -> int:
        address = f"127.0.0.1:{bad_port}" if number % 2 else ""
        return fetch(host, "/bad/page", address=address)[0]

    with ThreadPoolExecutor(100) as pool:
        answers = pool.map(ask, range(100))
        eventually(hang.begun.is_set)
        for _ in range(5):
            for endpoint in ("/livez", "/readyz", "/healthz", "/metrics"):
                assert fetch(host, endpoint)[0] == 200
            assert fetch(host, "/fine/page") == (200, "fine")
            assert fetch(host, "/", address=f"127.0.0.1:{fine_port}") == (200, "fine")
        assert set(answers) == {504}
    assert metric(host, "ctrlhost_entry_overruns_total", plugin="bad", entry="page") == 50
    assert metric(host, "ctrlhost_entry_overruns_total", plugin="bad", entry="listener") == 50
    # They share one thread, so they are not as many threads that hang.
    assert metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 0
    assert state_of(host, "bad") == "running"
    good.goes_on(host)


@behaviour("supervision/EN23")
@pytest.mark.parametrize("via", ["page", "listener"])
def test_pages_that_break_the_protocol(ctrlhost_host, good: Good, via: str) -> None:
    streams, cut = threading.Event(), threading.Event()
    head = {"type": "http.response.start", "status": 200, "headers": []}

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        case = scope["query_string"].decode()
        if case == "exit":
            raise SystemExit(3)
        if case == "silent":
            return
        await send(head)
        if case == "twice":
            await send(head)
        if case == "head":
            return
        if case == "fine":
            await send({"type": "http.response.body", "body": b"fine"})
            return
        try:
            while True:
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
                streams.set()
        except BaseException:
            cut.set()
            raise

    port = free_port()
    host = ctrlhost_host(paged("bad", app, port), good.module, **SERVED)
    address = f"127.0.0.1:{port}" if via == "listener" else host.host.address

    def status(case: str) -> int:
        return fetch(host, f"/bad/page?{case}", address=address)[0]

    assert status("exit") == 500
    assert status("silent") == 502
    assert status("twice") == 502
    assert status("head") == 502
    with socket.create_connection(address.rsplit(":", 1)) as client:
        client.sendall(b"GET /bad/page?stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert streams.wait(30)
    assert cut.wait(30)
    assert status("fine") == 200
    assert fetch(host, "/livez")[0] == 200
    assert state_of(host, "bad") == "running"
    good.goes_on(host)


def test_a_page_reads_the_body_of_its_request(ctrlhost_host) -> None:
    import urllib.request

    threads: list[str] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        threads.append(threading.current_thread().name)
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await PlainTextResponse(str(size))({"type": "http"}, receive, send)

    host = ctrlhost_host(paged("bad", app), **SERVED)
    url = f"http://{host.host.address}/bad/page"
    with urllib.request.urlopen(urllib.request.Request(url, data=b"x" * 5_000_000), timeout=60) as answer:
        assert answer.read() == b"5000000"
    assert threads == ["bad/loop"]


def test_the_lifespan_of_a_listener_runs_on_the_loop(ctrlhost_host) -> None:
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette

    seen: list[tuple[str, str]] = []

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        seen.append(("begin", threading.current_thread().name))
        yield
        seen.append(("end", threading.current_thread().name))

    host = ctrlhost_host(
        plugin_of(lambda plugin: plugin.add_listener(f"127.0.0.1:{free_port()}", Starlette(lifespan=lifespan)), "bad")
    )
    assert seen == [("begin", "bad/loop")]
    host.stop()
    assert seen == [("begin", "bad/loop"), ("end", "bad/loop")]


@behaviour("supervision/EN17")
def test_a_blocked_loop_is_named_and_then_abandoned(start, good: Good, hang: Hang, caplog, monkeypatch) -> None:
    monkeypatch.setattr(event_loop, "_ABANDONED_AFTER", 6.0)
    runs: list[str] = []
    loops: list[int] = []
    turned = threading.Event()

    async def fine(_ctx: Any, request: Any) -> None:
        await asyncio.sleep(0)
        runs.append(request.name)

    async def blocks(_ctx: Any, request: Any) -> None:
        loops.append(threading.get_ident())
        if request.name == "first":
            turned.wait()
        elif request.name == "second" and loops.count(loops[0]) == len(loops):
            hang()

    module = plugin_of(lambda plugin: plugin.add_controller("c", blocks, MINE), "bad")
    peer = plugin_of(lambda plugin: plugin.add_controller("c", fine, MINE), "peer")
    host = start(module, begin=False, supervision={"restart_delay": 0.1, "deadlines": {"page": 60}})
    host.host._add(peer)
    host.start()
    bad = host.host.plugins[0]

    def lines() -> list[Any]:
        return [record for record in caplog.records if "its event loop is blocked for" in record.getMessage()]

    host.client.create(config_map("first", labels={"mine": "1"}))
    eventually(lines)
    (line,) = lines()
    assert line.getMessage().startswith("plugin bad: its event loop is blocked for ")
    assert any("test_pages.py" in place and place.endswith(" blocks") for place in line.stack)
    eventually(lambda: "blocked-loop" in bad.entries.degraded)
    assert metric(host, "ctrlhost_plugin_degraded", plugin="bad", reason="blocked-loop") == 1
    assert (metric(host, "ctrlhost_loop_blocked_seconds", plugin="bad") or 0) >= 1
    eventually(lambda: "first" in runs)
    turned.set()
    eventually(lambda: "blocked-loop" not in bad.entries.degraded)
    eventually(lambda: metric(host, "ctrlhost_loop_blocked_seconds", plugin="bad") == 0)
    assert state_of(host, "bad") == "running"

    host.client.create(config_map("second", labels={"mine": "1"}))
    eventually(lambda: "second" in runs)
    eventually(lambda: metric(host, "ctrlhost_plugin_restarts_total", plugin="bad", reason="deadline") == 1)
    assert "plugin bad failing: its event loop has been blocked for 6 s" in caplog.messages
    assert len(lines()) == 2
    eventually(lambda: state_of(host, "bad") == "running", what=reason_of(host, "bad"))
    eventually(lambda: len(set(loops)) == 2)
    assert "blocked-loop" not in bad.entries.degraded
    good.goes_on(host)
