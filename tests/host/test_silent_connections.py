"""Probes beside connections that say nothing, and without free file descriptors. Times are the bounds of waits."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ctrlhost
from tests.host.conftest import StartHost, distributions, start_host
from tests.support.host_process import LIMIT, HostProcess
from tests.support.processes import rss_of

__all__ = ["distributions", "start_host"]

behaviour = pytest.mark.behaviour
slow = pytest.mark.slow

PLUGIN = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("all", lambda ctx, request: None, ctrlhost.For("v1", "ConfigMap"))
"""
REJECTED = "ctrlhost_http_connections_rejected_total"


@pytest.fixture
def host(start_host: StartHost, distributions) -> HostProcess:
    distributions.add("plain", PLUGIN)
    host = start_host(
        "--sandbox",
        "--leader-elect",
        "--set=host.leader_elect_resource_namespace=default",
        "--set=host.listen_probes=127.0.0.1:0",
        "--set=host.listen_metrics=127.0.0.1:0",
        plugins="plain",
    )
    host.line("plugin plain running")
    return host


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


def serving(host: HostProcess, what: str) -> tuple[str, int]:
    """Return the address of a listener of its own."""
    message: str = host.line(f"serving {what} on http://")["msg"]
    return "127.0.0.1", int(message.rpartition(":")[2])


def get(address: tuple[str, int], path: str) -> int:
    connection = http.client.HTTPConnection(*address, timeout=LIMIT)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def rejected(host: HostProcess, listener: str, reason: str) -> float:
    connection = http.client.HTTPConnection(*serving(host, "metrics"), timeout=LIMIT)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        wanted = f'{REJECTED}{{listener="{listener}",reason="{reason}"}} '
        lines = connection.getresponse().read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(wanted)).rpartition(" ")[2])


@slow
@behaviour("operations/OP1")
@behaviour("faster/FA18")
@behaviour("operations/OP2")
def test_silent_connections_do_not_starve_the_probes(host: HostProcess, clients) -> None:
    # The figures of these rows are floors of the benches.
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    client = ctrlhost.Client.load(host.kubeconfig)
    address = serving(host, "probes")

    def renewed() -> str:
        return str(client.get("coordination.k8s.io/v1", "Lease", "ctrlhost", "default")["spec"]["renewTime"])

    def holder() -> str:
        return str(client.get("coordination.k8s.io/v1", "Lease", "ctrlhost", "default")["spec"]["holderIdentity"])

    get(address, "/livez")
    before = rss_of(host.pid)
    first, leader, lines = renewed(), holder(), len(host.lines)
    count, ends = 0, threading.Event()

    def flood() -> None:
        nonlocal count
        # Those that the host closes are opened again.
        opened: list[socket.socket] = []
        while not ends.is_set():
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection(address, LIMIT))
                count += 1
            if len(opened) >= 1000:
                opened.pop(0).close()
        for connection in opened:
            connection.close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    statuses, renewals = [], {first}
    try:
        host.eventually(lambda: count >= 1000, "a thousand connections")
        for _ in range(100):
            statuses += [get(address, "/livez"), get(address, "/readyz")]
            renewals.add(renewed())
            ends.wait(0.1)
        host.eventually(lambda: renewals.add(renewed()) or len(renewals) > 3, "renewals")  # type: ignore[func-returns-value]
    finally:
        ends.set()
        flooding.join()
    assert set(statuses) == {200}
    assert holder() == leader
    assert rss_of(host.pid) - before <= 8 << 20
    assert len(host.lines) - lines <= 20
    assert rejected(host, "probes", "full") > 0
    assert host.stop() == 0


@slow
@behaviour("operations/OP3")
def test_a_header_has_five_seconds(host: HostProcess, clients) -> None:
    address = serving(host, "probes")
    began = time.monotonic()
    silent = clients.enter_context(socket.create_connection(address, LIMIT))
    dribbling = clients.enter_context(socket.create_connection(address, LIMIT))

    def dribble() -> None:
        with contextlib.suppress(OSError):
            for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: " + 60 * b"x":
                dribbling.send(bytes([byte]))
                time.sleep(1)

    writing = threading.Thread(target=dribble)
    writing.start()
    for connection in (silent, dribbling):
        with contextlib.suppress(ConnectionError):
            assert connection.recv(100) == b""
        assert time.monotonic() - began >= 4.9
    writing.join()
    assert rejected(host, "probes", "header_timeout") == 2


@slow
@behaviour("operations/OP4")
def test_an_idle_connection_to_the_probes_has_thirty_seconds(host: HostProcess) -> None:
    connection = http.client.HTTPConnection(*serving(host, "probes"), timeout=LIMIT)
    with contextlib.closing(connection):
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b"ok"
        began = time.monotonic()
        assert connection.sock.recv(1) == b""
        assert time.monotonic() - began >= 25
    assert rejected(host, "probes", "header_timeout") == 0
    assert rejected(host, "probes", "full") == 0


@slow
@behaviour("operations/OP8")
@behaviour("faster/FA18")
def test_without_free_descriptors_the_host_rests_and_goes_on(host: HostProcess, clients) -> None:
    address = serving(host, "probes")
    held = {int(path.name) for path in Path(f"/proc/{host.pid}/fd").iterdir()}
    free = next(number for number in range(1 << 20) if number not in held)
    before, lines = resource.prlimit(host.pid, resource.RLIMIT_NOFILE), len(host.lines)
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (free, before[1]))
    spent = sum(map(int, Path(f"/proc/{host.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    for _ in range(50):
        clients.enter_context(socket.create_connection(address, LIMIT))
        time.sleep(0.2)
    spent = sum(map(int, Path(f"/proc/{host.pid}/stat").read_text().rpartition(")")[2].split()[11:13])) - spent
    said = [line for line in host.lines[lines:] if "cannot accept connections" in line["msg"]]
    assert 1 <= len(said) <= 2
    assert "Too many open files" in said[0]["msg"]
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, before)
    assert get(address, "/livez") == 200
    # 5 % of ten seconds is half a second, in hundredths; an accept loop that repeats the error takes all of them.
    assert spent < 300
    assert rejected(host, "probes", "emfile") > 0
    assert len(host.lines) - lines <= 5
