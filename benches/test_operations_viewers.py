"""What a host with 50 controllers and 20 informers spends on who looks at it, and what `ctrlhost top` takes itself.

The rows are operations/OP50 and OP67.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import http.client
import os
import pty
import re
import signal
import statistics
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from benches.supervised import host, processor_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benches.ratios import Ratios
    from tests.support.host_process import HostProcess

VIEWERS = 32
#: Seconds between two questions of an open page.
PERIOD = 2.0
STARTS = 3
ASSET = re.compile(r'(?:href|src)="(/assets/[^"]+)"')
PLUGIN = """
import ctrlhost


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    for number in range(50):
        source = ctrlhost.For("v1", "Pod", label_selector=f"group={number % 20}")
        plugin.add_controller(f"c{number}", lambda ctx, request: None, source)
"""


@pytest.fixture(scope="module")
def watched(stub_pods: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    folder = tmp_path_factory.mktemp("watched")
    with stub_pods(10, 0, 1) as url, host(folder, url, {"many": PLUGIN}) as process:
        process.line("plugin many running")
        process.get("/")
        yield process


@pytest.mark.behaviour("operations/OP50")
def test_the_size_of_the_page(ratios: Ratios, watched: HostProcess) -> None:
    page = fetched(watched, "/", {"Accept": "text/html"})
    packed = fetched(watched, "/", {"Accept": "text/html", "Accept-Encoding": "gzip"})
    assert len(gzip.decompress(packed)) > len(page) / 2
    assets = ASSET.findall(page.decode())
    assert len(assets) == 2
    ratios.add("page", "HTML of 50 controllers", "B", len(page))
    ratios.add("page", "HTML of 50 controllers, compressed", "B", len(packed))
    ratios.add("page", "script and style", "B", sum(len(fetched(watched, asset, {})) for asset in assets))


@pytest.mark.behaviour("operations/OP67")
def test_who_looks_at_the_page(ratios: Ratios, watched: HostProcess) -> None:
    seconds = 60
    alone = part_of_a_core(watched.pid, seconds)
    for count in (1, VIEWERS):
        with viewers(watched, count):
            spent = part_of_a_core(watched.pid, seconds)
        what = "one viewer" if count == 1 else f"{count} viewers"
        ratios.add("page", f"part of a core for {what}", "", max(spent - alone, 0.0))


def test_top(ratios: Ratios, watched: HostProcess) -> None:
    starts = []
    for _ in range(STARTS):
        with top(watched) as (_, taken):
            starts.append(taken)
    ratios.add("top", "start to the first screen", "s", statistics.median(starts))
    with top(watched) as (pid, _):
        ratios.add("top", "part of a core", "", part_of_a_core(pid, 60))


def part_of_a_core(pid: int, seconds: float) -> float:
    """Return what a process uses from now on."""
    spent, began = processor_time(pid), time.monotonic()
    threading.Event().wait(seconds)
    return (processor_time(pid) - spent) / (time.monotonic() - began)


def fetched(process: HostProcess, path: str, headers: dict[str, str]) -> bytes:
    connection = http.client.HTTPConnection(process.address, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, (path, response.status)
        return response.read()


@contextmanager
def viewers(process: HostProcess, count: int) -> Iterator[None]:
    """Ask for the page every 2 s, as its script does, once all viewers have had an answer."""
    ending, answered = threading.Event(), threading.Semaphore(0)

    def view(late: float) -> None:
        etag = ""
        with contextlib.closing(http.client.HTTPConnection(process.address)) as connection:
            while not ending.wait(late):
                headers = {"Accept": "text/html", "Accept-Encoding": "gzip", "If-None-Match": etag}
                connection.request("GET", "/", headers=headers)
                response = connection.getresponse()
                response.read()
                if not etag:
                    answered.release()
                etag, late = response.headers["ETag"], PERIOD

    threads = [threading.Thread(target=view, args=(PERIOD * number / count,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert answered.acquire(timeout=60)
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()


@contextmanager
def top(process: HostProcess) -> Iterator[tuple[int, float]]:
    """Run `ctrlhost top` in a terminal; yield its process, and the seconds until its first screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "ctrlhost", "top", f"--url=http://{process.address}"]
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color"}
    ) as running:
        os.close(theirs)
        screen = b""
        while b"CONTROLLER" not in screen:
            screen += os.read(ours, 1 << 16)
        taken = time.perf_counter() - began
        drain = threading.Thread(target=drained, args=(ours,))
        drain.start()
        try:
            yield running.pid, taken
            os.write(ours, b"q")
            assert running.wait(30) == 0
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
            drain.join()
            os.close(ours)


def drained(terminal: int) -> None:
    """Read what a program draws until it ends."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass
