"""The moment at which a write is permitted: when nothing is left that may wait before its bytes leave."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from ctrlhost.client import Client
from ctrlhost.client.budget import Budget
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.clock import SystemClock
from ctrlhost.coordination.term import Tenure
from ctrlhost.coordination.writes import Permit, Refusals, Writes
from ctrlhost.errors import NotLeading
from ctrlhost.kubeconfig.connection import Connection, from_url
from ctrlhost.testing import ManualClock
from ctrlhost.transport.native import NativeTransport
from ctrlhost.transport.steps import carry_out
from tests.support.byte_servers import ByteServer, Tunnels
from tests.support.stub_api_server import Computed, Failure, Json, ReceivedRequest, StubApiServer
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
MAP = "/api/v1/namespaces/default/configmaps/a"
DEADLINE = 10.0


class Leader:
    """A term that ends by a clock of the test, and the clients of a plugin in it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tenure = Tenure(self.clock)
        self.tenure.begin(self.clock.now() + DEADLINE)
        self.refusals = Refusals()
        self.writes = Writes("demo", self.tenure, self.refusals)

    def client(self, connection: Connection, budget: Budget | None = None) -> Client:
        self.transport = NativeTransport(connection)
        return Client.over(GovernedTransport(self.transport, budget, self.writes.read, Permit(self.writes, 1)))

    def pass_deadline(self, *_: Any) -> None:
        self.clock.advance(DEADLINE)

    def refused(self) -> dict[str, float]:
        (family,) = self.refusals.collect()
        return {sample.labels["reason"]: sample.value for sample in family.samples if sample.value}


class LateCredentials:
    """Credentials that arrive when the deadline has passed."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def authorization(self, timeout: float) -> str | None:
        assert timeout > 0
        self._leader.pass_deadline()
        return "Bearer late"

    def ready(self) -> bool:
        return True

    def refresh(self, rejected: str | None, timeout: float) -> bool:
        raise AssertionError("nothing was sent that could be rejected")


@pytest.fixture
def leader() -> Leader:
    return Leader()


@behaviour("supervision/LD10")
@pytest.mark.parametrize("way", ["direct", "proxy"])
@pytest.mark.parametrize(
    ("scheme", "slow"),
    # Without TLS there is no handshake to wait for.
    [
        *itertools.product(["http", "https"], ["credentials", "connect", "budget"]),
        ("https", "handshake"),
    ],
)
def test_no_byte_of_a_write_leaves_after_the_deadline(leader, tmp_path, scheme: str, way: str, slow: str) -> None:
    authority = Authority(tmp_path) if scheme == "https" else None
    tls = authority.server_context() if authority else None
    # The deadline passes when the client has connected, and the server does not answer its hello yet.
    server = ByteServer(tls=tls, before=leader.pass_deadline if slow == "handshake" else lambda: None)
    proxy = Tunnels(server.port)
    with ExitStack() as stack:
        first = proxy if way == "proxy" else server
        crowd = first.crowd() if slow == "connect" else None
        for listener in (server, proxy):
            if listener is not first or crowd is None:
                stack.enter_context(listener)
        connection = from_url(server.url, None, authority.pem if authority else None, True)
        connection.configuration.no_proxy = ""
        connection.configuration.proxy = proxy.url if way == "proxy" else None
        budget = None
        if slow == "credentials":
            connection.credentials = LateCredentials(leader)
        elif slow == "budget":
            budget = Budget(20.0, leader.pass_deadline)
            for _ in range(40):
                carry_out(budget.turn(30, "GET /"))
        client = leader.client(connection, budget)
        change = {"data": {"x": "1"}}
        patched = Background(partial(client.patch, "v1", "ConfigMap", "a", "default", change, timeout=20))
        if crowd is not None:
            eventually(lambda: leader.transport.connections()["connecting"] == 1)
            leader.pass_deadline()
            crowd()
        with pytest.raises(NotLeading) as caught:
            patched.result()
        assert caught.value.reason == "deadline"
        assert leader.refused() == {"deadline": 1}
        leader.transport.close()
        eventually(lambda: server.received or proxy.served)
        assert b"".join(server.received) == b""
        # Only tunnels were asked for: a request for a whole URL would be one of the write.
        assert [line for line in proxy.asked if not line.startswith("CONNECT ")] == []


@behaviour("supervision/LD10")
@pytest.mark.parametrize("way", ["direct", "proxy"])
def test_a_write_in_time_is_sent(leader, tmp_path, way: str) -> None:
    authority = Authority(tmp_path)
    with StubApiServer(tls=authority.server_context()) as server, Tunnels(server.port) as proxy:
        server.on("PATCH", MAP, Json({"kind": "ConfigMap"}))
        connection = from_url(server.url, None, authority.pem, True)
        connection.configuration.no_proxy = ""
        if way == "proxy":
            connection.configuration.proxy = proxy.url
        client = leader.client(connection)
        for _ in range(2):
            assert client.patch("v1", "ConfigMap", "a", "default", {"data": {"x": "1"}}) == {"kind": "ConfigMap"}
        assert [json.loads(request.body) for request in server.requests] == [{"data": {"x": "1"}}] * 2
        assert len(proxy.asked) == (way == "proxy"), "the second request uses the same connection"
    assert leader.refused() == {}


@behaviour("supervision/LD11")
@pytest.mark.parametrize(
    "answer", [Failure(401, "Unauthorized"), Failure(429, "TooManyRequests", retry_after=1)], ids=["401", "429"]
)
def test_no_attempt_follows_the_end_of_the_term(leader, answer: Failure) -> None:
    class Renewing:
        token = "old"

        def ready(self) -> bool:
            return True

        def authorization(self, timeout: float) -> str | None:
            return self.token

        def refresh(self, rejected: str | None, timeout: float) -> bool:
            # Here: an end before the answer can end the request at once.
            leader.tenure.end()
            self.token = "new"
            return True

    def lost(_: ReceivedRequest) -> Failure:
        if answer.status != 401:
            leader.tenure.end()
        return answer

    with StubApiServer() as server:
        server.on("PATCH", MAP, Computed(lost))
        connection = from_url(server.url, None, None, True)
        connection.credentials = credentials = Renewing()
        with pytest.raises(NotLeading) as caught:
            leader.client(connection).patch("v1", "ConfigMap", "a", "default", {"data": {"x": "1"}})
        assert caught.value.reason == "term"
        assert [request.headers["authorization"] for request in server.requests] == ["old"]
        assert credentials.token == ("new" if answer.status == 401 else "old")
    assert leader.refused() == {"term": 1}


@behaviour("supervision/LD12")
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_body_that_is_not_handed_over_in_time_is_never_whole(tmp_path, secure: bool) -> None:
    leader, hold = Leader(), threading.Event()
    # The kernel waits in real time.
    leader.tenure = Tenure(SystemClock())
    leader.writes = Writes("demo", leader.tenure, leader.refusals)
    authority = Authority(tmp_path) if secure else None
    tls, ca = (authority.server_context(), authority.pem) if authority else (None, None)
    with ByteServer(tls=tls, hold=hold, received_at_once=64 * 1024) as server:
        client = leader.client(from_url(server.url, None, ca, True))
        leader.tenure.begin(leader.tenure.now() + 0.5)
        with pytest.raises(NotLeading) as caught:
            client.patch("v1", "ConfigMap", "a", "default", {"data": {"x": "1" * 5_000_000}}, timeout=60)
        assert caught.value.reason == "deadline"
        hold.set()
        eventually(lambda: server.received)
        (received,) = server.received
        assert len(received) < 5_000_000, "the server has a whole request"
    assert leader.refused() == {"deadline": 1}
