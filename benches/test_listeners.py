"""Probes beside a thousand connections that send nothing, with 1,024 file descriptors, and without any that is free.

The rows are operations/OP1, OP2 and OP8, and faster/FA10 and FA12.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benches.supervised import GOOD, answered, host, latencies, p99, processor_time, resident

if TYPE_CHECKING:
    from benches.ratios import Ratios

SILENT = 1_000
#: Requests to each probe, ten a second, and connections to a host that cannot accept them.
PACE = 10
#: Lines that a host may log of either.
SAID, SAID_WITHOUT_DESCRIPTORS = 20, 2
#: A plugin with eight threads that compute in Python.
SPINNING = """
import threading

import ctrlhost


def spin():
    while True:
        sum(range(1000))


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    for _ in range(8):
        threading.Thread(target=spin, daemon=True).start()
"""
#: A plugin with 10,000 series, and the scrapes of them in a second.
MANY = """
import ctrlhost
from prometheus_client import Gauge


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    gauge = Gauge("many_series", "Many", ["number"], registry=plugin.metrics)
    for number in range(10_000):
        gauge.labels(str(number)).set(number)
"""
SCRAPES = 20
#: Scrapes an address, from a process of its own: one that computes beside the API server would delay its events.
SCRAPER = """
import http.client
import sys
import time

address, pace, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
end = time.monotonic() + seconds
while (began := time.monotonic()) < end:
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/metrics")
    assert len(connection.getresponse().read()) > 100_000
    connection.close()
    print(time.monotonic() - began)
    time.sleep(1 / pace)
"""


@pytest.mark.behaviour("operations/OP1")
@pytest.mark.behaviour("operations/OP2")
@pytest.mark.behaviour("faster/FA10")
def test_probes_beside_silent_connections(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    requests = 600
    with stub_pods(10, 0, 1) as url, host(tmp_path, url, GOOD) as process, contextlib.ExitStack() as clients:
        process.line("plugin good running")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        for path in ("/livez", "/readyz"):
            answered(process.address, path)
        name, _, port = process.address.rpartition(":")
        before, lines = resident(process.pid), len(process.lines)
        for _ in range(SILENT):
            clients.enter_context(socket.create_connection((name, int(port)), 30))
        spent, began = processor_time(process.pid), time.monotonic()
        taken: dict[str, list[float]] = {"/livez": [], "/readyz": []}
        for _ in range(requests):
            for path, seconds in taken.items():
                seconds.append(answered(process.address, path))
            time.sleep(1 / PACE)
        spent, lasted = processor_time(process.pid) - spent, time.monotonic() - began
        for path, seconds in taken.items():
            ratios.add("listeners", f"{path}, p99, beside 1,000 silent connections", "s", p99(seconds))
        memory = max(resident(process.pid) - before, 0)
        ratios.add("listeners", "memory of 1,000 silent connections", "B", memory)
        ratios.add("listeners", "part of a core beside 1,000 silent connections", "", spent / lasted)
        assert len(process.lines) - lines <= SAID
        assert process.stop() == 0


@pytest.mark.behaviour("operations/OP8")
def test_no_free_descriptor(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    connections = 300
    with stub_pods(10, 0, 1) as url, host(tmp_path, url, GOOD) as process, contextlib.ExitStack() as clients:
        process.line("plugin good running")
        answered(process.address, "/livez")
        name, _, port = process.address.rpartition(":")
        held = {int(path.name) for path in Path(f"/proc/{process.pid}/fd").iterdir()}
        free = next(number for number in range(len(held) + 1) if number not in held)
        before, lines = resource.prlimit(process.pid, resource.RLIMIT_NOFILE), len(process.lines)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (free, before[1]))
        spent, began = processor_time(process.pid), time.monotonic()
        for _ in range(connections):
            clients.enter_context(socket.create_connection((name, int(port)), 30))
            time.sleep(1 / PACE)
        spent, lasted = processor_time(process.pid) - spent, time.monotonic() - began
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        taken = answered(process.address, "/livez")
        said = [line for line in process.lines[lines:] if "cannot accept connections" in line["msg"]]
        assert 1 <= len(said) <= SAID_WITHOUT_DESCRIPTORS
        assert process.stop() == 0
    ratios.add("listeners", "part of a core without a free descriptor", "", spent / lasted)
    ratios.add("listeners", "first answer once there are descriptors again", "s", taken)


@pytest.mark.behaviour("faster/FA12")
def test_scrapes_of_many_series(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    events, pace = 6_000, 200
    latency: dict[str, float] = {}
    for which in ("alone", "beside"):
        with (
            stub_pods(10, events, pace) as url,
            host(tmp_path / which, url, {**GOOD, "many": MANY}) as process,
            contextlib.ExitStack() as stack,
        ):
            process.line("plugin good running")
            if which == "beside":
                command = [sys.executable, "-c", SCRAPER, process.address, str(SCRAPES), str(events / pace)]
                scraper = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            latency[which] = p99(latencies(process, events, pace))
            if which == "beside":
                taken = [float(line) for line in scraper.communicate()[0].split()]
                assert scraper.returncode == 0
                ratios.add("listeners", "/metrics with 10,000 series, p99", "s", p99(taken))
    name = "event to reconcile, p99, beside scrapes of 10,000 series"
    ratios.add("listeners", name, "s", latency["beside"], alone=latency["alone"])


@pytest.mark.behaviour("faster/FA10")
def test_probes_beside_computing_threads(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    requests = 600
    with stub_pods(10, 0, 1) as url, host(tmp_path, url, {"spinning": SPINNING}) as process:
        process.line("plugin spinning running")
        taken: dict[str, list[float]] = {"/livez": [], "/readyz": []}
        for _ in range(requests):
            for path, seconds in taken.items():
                seconds.append(answered(process.address, path))
            time.sleep(1 / PACE / 2)
        for path, seconds in taken.items():
            ratios.add("listeners", f"{path}, p99, beside eight computing threads", "s", p99(seconds))
        # The shutdown of threads that compute is not measured.
        process.signal(signal.SIGKILL)
        process.wait()
