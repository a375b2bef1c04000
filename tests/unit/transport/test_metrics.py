"""The metrics of connections to the API server: a part of scale SC114."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from ctrlhost.client import Client
from ctrlhost.kubeconfig.connection import from_url
from ctrlhost.transport.metrics import ClientMetrics
from ctrlhost.transport.native import NativeTransport
from tests.support.byte_servers import ByteServer
from tests.support.stub_api_server import Computed, Frames, Json, ReceivedRequest, StubApiServer, pod
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

POD, PODS = "/api/v1/namespaces/default/pods/a", "/api/v1/pods"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(authority: Authority) -> Iterator[StubApiServer]:
    with StubApiServer(tls=authority.server_context()) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        yield server


def series_of(metrics: ClientMetrics) -> dict[str, float]:
    """Return the series of `ctrlhost_transport_…` by what is in their braces."""
    registry = CollectorRegistry()
    registry.register(metrics)
    series = [line.split(" ") for line in generate_latest(registry).decode().splitlines() if line[:1] != "#"]
    values = {name: float(value) for name, value in series if name.startswith("ctrlhost_transport_")}
    return {name.partition("_transport_")[2]: value for name, value in values.items()}


def connections(metrics: ClientMetrics) -> dict[str, float]:
    """Return how many connections are in which state; those in none are left out."""
    states = {name: value for name, value in series_of(metrics).items() if name.startswith("connections")}
    assert set(states) == {f'connections{{state="{state}"}}' for state in ("connecting", "idle", "call", "stream")}
    return {name.split('"')[1]: value for name, value in states.items() if value}


def test_connections_are_counted_by_state(authority: Authority, secure: StubApiServer) -> None:
    client = Client(secure.url, ca=authority.pem)
    metrics = client.transport.metrics  # type: ignore[attr-defined]
    assert connections(metrics) == {}
    frames = Frames()
    secure.on("GET", PODS, frames)
    stream = client.transport.stream(PODS)
    assert connections(metrics) == {"stream": 1}
    client.get("v1", "Pod", "a")
    eventually(lambda: connections(metrics) == {"stream": 1, "idle": 1})
    stream.close()
    eventually(lambda: connections(metrics) == {"idle": 1})
    client.transport.close()
    assert connections(metrics) == {}
    with ByteServer() as silent:
        other = from_url(silent.url.replace("http:", "https:"), None, authority.pem, True)
        waiting = NativeTransport(other, metrics=metrics, connect_timeout=2.0)
        call = Background(waiting.request, "GET", POD)
        eventually(lambda: connections(metrics) == {"connecting": 1})
        assert call.waits


def test_a_connection_that_carries_a_call_is_counted(server: StubApiServer) -> None:
    client = Client(server.url)
    metrics = client.transport.metrics  # type: ignore[attr-defined]
    seen: list[dict[str, float]] = []

    def answer(_: ReceivedRequest) -> Json:
        eventually(lambda: "call" in connections(metrics), 5)
        seen.append(connections(metrics))
        return Json(pod("a", 1))

    server.on("GET", POD, Computed(answer))
    client.get("v1", "Pod", "a")
    assert seen == [{"call": 1}]


def test_handshakes_are_counted_by_whether_they_resumed(authority: Authority, secure: StubApiServer) -> None:
    client = Client(secure.url, ca=authority.pem)
    metrics = client.transport.metrics  # type: ignore[attr-defined]

    def handshakes() -> tuple[float, float]:
        values = series_of(metrics)
        return values['handshakes_total{resumed="false"}'], values['handshakes_total{resumed="true"}']

    assert handshakes() == (0, 0)
    for resumed in range(3):
        client.get("v1", "Pod", "a")
        client.transport.close()
        assert handshakes() == (1, resumed)
    # Another transport with these metrics, which is gone again: its handshakes stay.
    other = client.transport.separate()  # type: ignore[attr-defined]
    other.request("GET", POD)
    eventually(lambda: connections(metrics) == {"idle": 1})
    del other
    gc.collect()
    eventually(lambda: connections(metrics) == {})
    assert handshakes() == (2, 2)
