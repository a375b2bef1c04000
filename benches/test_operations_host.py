"""A host with the four bundled plugins at rest, and how soon it notices that its API server hangs.

The rows are operations/OP168 and OP125.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from benches.bundled import ALL_LISTENERS, NO_LISTENERS, PLUGINS, bundled, sandbox_process
from benches.supervised import answered, processor_time, resident
from tests.support.https_client import get as get_over_tls

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from benches.ratios import Ratios
    from tests.support.host_process import HostProcess

#: Seconds until what a start has left behind is freed.
SETTLED = 3.0
#: Seconds between the requests of a kubelet, and of Prometheus.
PROBED, SCRAPED = 5, 15
#: Looks at descriptors and threads: a request in progress has some for a moment.
LOOKS = 5
WHAT = f"{len(PLUGINS)} plugins at rest, all listeners on"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    with sandbox_process(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def host(server: tuple[subprocess.Popen[bytes], Path]) -> Iterator[HostProcess]:
    with bundled(server[1], *ALL_LISTENERS) as running:
        yield running


@pytest.fixture
def silent(server: tuple[subprocess.Popen[bytes], Path]) -> Iterator[HostProcess]:
    """A host that listens nowhere, which is as old as the other one: both grow a little at first."""
    with bundled(server[1], *NO_LISTENERS) as running:
        yield running


@pytest.mark.headline
@pytest.mark.behaviour("operations/OP168")
def test_four_plugins_at_rest(
    ratios: Ratios, host: HostProcess, silent: HostProcess, server: tuple[subprocess.Popen[bytes], Path]
) -> None:
    seconds = 6 if ratios.short else 600
    visit(host, server[1])
    wait(SETTLED)
    at_first, spent, began = opened(host.pid), processor_time(host.pid), time.monotonic()
    memory = {process: resident(process.pid) for process in (host, silent)}
    for second in range(1, seconds + 1):
        if second % PROBED == 0:
            probe(host)
        if second % SCRAPED == 0:
            scrape(host, server[1])
        wait(began + second - time.monotonic())
        memory = {process: max(before, resident(process.pid)) for process, before in memory.items()}
    spent, lasted = processor_time(host.pid) - spent, time.monotonic() - began
    at_last = opened(host.pid)
    ratios.add("operations", f"{WHAT}: memory", "B", memory[host])
    ratios.add("operations", f"{WHAT}: memory above that without listeners", "B", max(memory[host] - memory[silent], 0))
    ratios.add("operations", f"{WHAT}: part of a core", "", spent / lasted)
    for what, count in at_last.items():
        ratios.add("operations", f"{WHAT}: {what}", "", count, at_first=at_first[what])


@pytest.mark.behaviour("operations/OP125")
def test_an_api_server_that_hangs(
    ratios: Ratios, host: HostProcess, server: tuple[subprocess.Popen[bytes], Path]
) -> None:
    """The host has had no answer for up to ten seconds by then, so what counts is the age of the last byte."""
    assert status_of_readyz(host) == 200
    server[0].send_signal(signal.SIGSTOP)
    try:
        host.eventually(lambda: status_of_readyz(host) == 503, "a host that is not ready")
        silent = json.loads(host.get("/api/v1/status")[1])["apiserver"]["last_answer_seconds"]
    finally:
        server[0].send_signal(signal.SIGCONT)
    ratios.add("operations", "hung API server noticed, after its last byte", "s", silent)


def wait(seconds: float) -> None:
    threading.Event().wait(max(seconds, 0.0))


def address(host: HostProcess, what: str) -> str:
    """Return where the host serves `probes` or `metrics`."""
    message: str = host.line(f"serving {what} on ")["msg"]
    return message.rpartition("//")[2]


def status_of_readyz(host: HostProcess) -> int:
    connection = http.client.HTTPConnection(address(host, "probes"), timeout=10)
    try:
        connection.request("GET", "/readyz", headers={"Connection": "close"})
        return connection.getresponse().status
    finally:
        connection.close()


def probe(host: HostProcess) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        answered(address(host, "probes"), path)


def scrape(host: HostProcess, kubeconfig: Path) -> None:
    token = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["token"]
    assert get_over_tls(address(host, "metrics"), token=token).status == 200


def visit(host: HostProcess, kubeconfig: Path) -> None:
    """Ask each listener for something, so that all are loaded."""
    probe(host)
    scrape(host, kubeconfig)
    for path in ("/", "/api/v1/status", "/debug/queues", "/debug/stacks"):
        assert host.get(path)[0] == 200
    listener: str = host.line("plugin hostname listens on ")["msg"]
    answered(listener.rpartition("//")[2], "/")


def opened(pid: int) -> dict[str, int]:
    """Return the numbers of descriptors and threads, without those of a request in progress."""
    folders = {"descriptors": Path(f"/proc/{pid}/fd"), "threads": Path(f"/proc/{pid}/task")}
    looks = []
    for _ in range(LOOKS):
        looks.append({what: len(list(folder.iterdir())) for what, folder in folders.items()})
        wait(0.2)
    return {what: min(look[what] for look in looks) for what in folders}
