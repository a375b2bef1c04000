"""The event streams of the status pages: what changes comes once a second, and nobody is waited for."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.host.reports import Reports
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.status_page import EventStream, address_of, events_of, get, page_at
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

LISTEN = "127.0.0.1:0"

#: Many controllers that have something to do each second.
BUSY = """
    import ctrlhost
    from ctrlhost.host.reports import Reports

    page, rendered = Reports.page, []

    def counted(*args):
        rendered.append(args[1])
        return page(*args)

    Reports.page = counted

    async def count(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(rendered)).encode()})

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_page("/rendered", count)
        for number in range(50):
            every = ctrlhost.Every(1.0, lambda: [ctrlhost.Request("all")])
            plugin.add_controller(f"controller-{number}", reconcile, every)

    def reconcile(ctx, request):
        raise ctrlhost.TerminalError("no " * 10)
"""


def test_a_change_comes_to_the_open_pages_with_the_order_of_the_rows(ctrlhost_host: Any) -> None:
    fails = {"ann"}

    def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        if request.name in fails:
            raise KeyError(request.name)

    host = ctrlhost_host(controller(reconcile, For("v1", "ConfigMap", label_selector="mine")), listen=LISTEN,
                         controllers={"demo/c": {"base_delay": "100ms", "max_delay": "100ms"}})  # fmt: skip
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    paths = ("/", "/status/controllers/demo/c", "/status/keys/demo/c?key=default/ann", "/status/plugins/demo")
    with ExitStack() as open_pages:
        streams = [open_pages.enter_context(events_of(host, path)) for path in paths]
        overview, of_controller, of_key, of_plugin = streams
        for path, stream in zip(paths, streams, strict=True):
            # The first events have all that the page has.
            stream.until(lambda one=stream: len(one.sections) > 1)
            boxes = (one.attributes.get("data-rows") for one in page_at(host, path).root.all())
            names = [name for name in boxes if name]
            stream.until(lambda one=stream, names=names: set(one.sections) == set(names))
        host.client.create(config_map("ann", labels={"mine": "1"}))
        overview.until(lambda: "default/ann" in overview.text("failing", "f-demo/c/default/ann"))
        overview.until(lambda: "KeyError: 'ann'" in overview.text("errors", next(iter(overview.sections["errors"]))))
        assert "errors-none" not in overview.sections["errors"]
        of_plugin.until(lambda: "f-demo/c/default/ann" in of_plugin.sections["failing"])
        of_controller.until(lambda: "failing-default/ann" in of_controller.sections["failing"])
        of_key.until(lambda: of_key.text("verdict", "verdict").startswith("backing off"))
        fails.clear()
        overview.until(lambda: list(overview.sections["failing"]) == ["failing-none"])
        of_key.until(lambda: of_key.text("verdict", "verdict").startswith("done"))
        newest = of_controller.until(
            lambda: next(iter(of_controller.sections["runs"].values())).partition("success")[1]
        )
        assert newest == "success"
        # Nothing else changes with the time.
        now = time.strftime("As of %Y-%m-%d %H:%M:%S", time.gmtime())
        overview.until(lambda: overview.text("verdict", "updated")[: len(now)] > now)
        seen = len(overview.received)
        overview.until(lambda: sum('"id":"updated"' in block for block in overview.received[seen:]) == 4)
        blocks = overview.received[seen:]
        while '"id":"updated"' not in blocks[0]:
            # Of the rendering before, which has what was new at that time.
            del blocks[0]
        found = [row for block in blocks for row in changed(block)]
        assert found.count(("verdict", "updated")) == 4
        # What it costs is measured all the time.
        measured = {("plugins", "p-demo"), ("controllers", "c-demo/c")}
        measured |= {("informers", "i-ConfigMap.v1%20labels%3Dmine"), ("verdict", "verdict"), ("verdict", "about")}
        assert set(found) <= {("verdict", "updated")} | measured


@behaviour("operations/OP67")
@pytest.mark.slow
def test_thirty_two_streams_share_renderings_and_one_that_is_not_read_is_closed(
    start_host: Any, distributions: Any
) -> None:
    distributions.add("busy", BUSY)
    host: HostProcess = start_host("--sandbox", plugins="busy")
    host.line("plugin busy running")
    name, _, port = host.address.partition(":")
    with ExitStack() as clients:
        silent = clients.enter_context(socket.socket())
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect((name, int(port)))
        silent.sendall(b"GET /api/v1/events?page=/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        began = time.monotonic()
        streams = [clients.enter_context(events_of(host)) for _ in range(31)]
        status, headers, body = get(host, "/api/v1/events?page=/")
        assert (status, headers["Retry-After"], headers["Content-Type"]) == (503, "10", "application/json")
        assert b'"hint"' in body
        # A page that gets no stream loads itself instead.
        assert page_at(host).status == 200
        readers = [threading.Thread(target=read, args=(one,), daemon=True) for one in streams]
        for reader in readers:
            reader.start()
        first = resident(host.pid)

        def closed() -> bool:
            return streams_open(host) == 31

        eventually(closed, 55.0, "the end of the silent stream", 0.5)
        assert time.monotonic() - began >= 30
        assert resident(host.pid) - first < 16 << 20
        # All have had the same events: at most one rendering a second, whoever looks.
        times = [renewed(one) for one in streams]
        rendered = int(get(host, "/busy/rendered")[2])
        seconds = int(time.monotonic() - began)
        # One document was rendered, too.
        assert rendered <= seconds + 4
        # A stream that was opened late, or is read late, lacks a few.
        assert max(times) <= rendered
        assert min(times) >= rendered - 6
        assert min(times) >= seconds // 2
        # One has left.
        with events_of(host) as another:
            another.until(lambda: len(another.sections) == 9)
        host.signal(signal.SIGTERM)
        assert host.wait() == 0


def renewed(stream: EventStream) -> int:
    """Return how often the time of the page came."""
    return sum('"id":"updated"' in block for block in stream.received.copy())


def changed(block: str) -> set[tuple[str, str]]:
    """Return the sections and the ids of the rows that an event renews, removes or moves."""
    if block.startswith(":"):
        return set()
    found = json.loads(block.partition("\ndata: ")[2])
    names = [*(row["id"] for row in found["rows"]), *found["gone"], *found.get("order", ())]
    return {(found["section"], name) for name in names}


def test_more_pages_than_threads_all_get_their_events(ctrlhost_host: Any) -> None:
    names = [f"c{number}" for number in range(12)]
    plugin = plugin_of(lambda plugin: [plugin.add_controller(name, lambda ctx, request: None) for name in names])
    host = ctrlhost_host(plugin, listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    page, rendering, most = Reports.page, [0], [0]

    def slow(*args: Any) -> Any:
        rendering[0] += 1
        most[0] = max(most[0], rendering[0])
        try:
            threading.Event().wait(0.3)
            return page(*args)
        finally:
            rendering[0] -= 1

    with pytest.MonkeyPatch.context() as patch, ExitStack() as open_pages, ThreadPoolExecutor(12) as readers:
        patch.setattr(Reports, "page", slow)
        paths = [f"/status/controllers/demo/{name}" for name in names]
        streams = list(readers.map(lambda path: open_pages.enter_context(events_of(host, path)), paths))

        for _ in readers.map(lambda stream: stream.until(lambda: renewed(stream) >= 8), streams):
            pass
        assert [one for one in streams if renewed(one) < 8] == []
        assert 1 < most[0] <= 8


def test_parameters_that_a_page_does_not_read_have_no_rendering_of_their_own(
    ctrlhost_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = plugin_of(lambda plugin: plugin.add_controller("c", lambda ctx, request: None))
    host = ctrlhost_host(plugin, listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    asked: list[tuple[str, dict[str, str]]] = []
    page = Reports.page

    def seen(reports: Reports, path: str, query: dict[str, str]) -> Any:
        asked.append((path, query))
        return page(reports, path, query)

    monkeypatch.setattr(Reports, "page", seen)
    pages = ("/status/controllers/demo/c", "/status/keys/demo/c?key=a/b", "/status/plugins/demo", "/")
    for path in pages:
        page_at(host, f"{path}{'&' if '?' in path else '?'}x=1&failing=&key=a/b")
    kept = [dict(query) for _, query in asked]
    assert kept == [{"failing": ""}, {"key": "a/b"}, {}, {}]
    with ExitStack() as open_pages:
        streams = [open_pages.enter_context(events_of(host, f"/?x={number}")) for number in range(8)]
        for one in streams:
            one.until(lambda one=one: one.sections)
        asked.clear()
        # In the time of five renderings for one of them, all others had the same.
        streams[0].until(lambda: renewed(streams[0]) >= 6)
        assert len(asked) <= 8


def read(stream: EventStream) -> None:
    while stream.next() or stream.received[-1]:
        pass


def streams_open(host: HostProcess) -> int:
    """Return the number of established connections that the host has at its address."""
    port = f"{int(host.address.rpartition(':')[2]):04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1].endswith(f":{port}") and line[3] == "01" for line in lines)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_stream_ends_with_the_host_and_says_what_is_unknown(ctrlhost_host: Any) -> None:
    plugin = plugin_of(lambda plugin: plugin.add_controller("c", lambda ctx, request: None, For("v1", "ConfigMap")))
    host = ctrlhost_host(plugin, listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    for page, status in (("/status/plugins/dem0", 404), ("/status/keys/demo/c", 400), ("/nothing", 404)):
        assert get(host, f"/api/v1/events?page={page}")[0] == status
    asked = urllib.request.Request(f"{address_of(host)}/api/v1/events?page=/", method="HEAD")
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    with events_of(host) as stream:
        stream.until(lambda: stream.sections)
        ender = threading.Thread(target=host.stop)
        ender.start()
        while stream.next():
            pass
        ender.join(60)
        assert not ender.is_alive()
