"""Whether an API server answers: when it is probed, what counts as an answer, and what is logged."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import pytest

from ctrlhost.client import Client
from ctrlhost.errors import TransportError
from ctrlhost.kubeconfig.connection import from_url
from ctrlhost.testing import ManualClock
from ctrlhost.transport.interface import Transport
from ctrlhost.transport.native import NativeTransport
from ctrlhost.transport.reachability import FAILURES, LIMIT, QUIET, Reachability
from tests.support.stub_api_server import Failure, Frames, Hang, Json, Raw, StubApiServer, event, pod
from tests.support.waiting import eventually

#: The longest time from the last byte to the verdict, and the time without a probe.
NOTICED, PODS = 25.0, "/api/v1/pods"


class Silent(Transport):
    """A transport on a manual clock: bytes come when the test says so, and probes fail or succeed as it says."""

    host = "server:6443"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._last: float | None = None
        #: When probes were sent.
        self.probes: list[float] = []
        self.failure: str | None = "no response in time"
        #: Seconds that a probe takes.
        self.takes = LIMIT

    def byte(self) -> None:
        self._last = self._clock.now()

    @property
    def last_byte_age(self) -> float | None:
        return None if self._last is None else self._clock.now() - self._last

    def probe(self, timeout: float) -> int:
        assert timeout == LIMIT
        self.probes.append(self._clock.now())
        if self.failure is not None:
            self._clock.advance(self.takes)
            raise TransportError(f"GET https://server:6443/version: {self.failure}")
        self.byte()
        return 200


class Watched:
    """A server whose reachability is checked when it asks for that, as its thread would."""

    def __init__(self, clock: ManualClock, **options: object) -> None:
        self.clock = clock
        self.transport = Silent(clock)
        self.returns: list[float] = []
        self.reachability = Reachability(
            self.transport, clock=clock, on_return=lambda: self.returns.append(clock.now()), **options
        )
        self._next = QUIET

    def until(self, moment: float) -> None:
        """Carry out the checks that are due by a moment."""
        while self.clock.now() + self._next <= moment:
            self.clock.advance(self._next)
            self._next = self.reachability.check()
        # A probe may have taken longer than that.
        left = max(moment - self.clock.now(), 0.0)
        self._next -= left
        self.clock.advance(left)


@pytest.fixture
def watched(manual_clock: ManualClock) -> Watched:
    return Watched(manual_clock)


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage()) for record in caplog.records if record.name.endswith("reachability")
    ]


@pytest.mark.behaviour("operations/OP125", "operations/OP126")
def test_a_silent_server_is_unreachable_after_two_probes_until_it_answers(watched, caplog) -> None:
    caplog.set_level(logging.INFO)
    transport, reachability = watched.transport, watched.reachability
    watched.until(7.0)
    assert reachability.up_for == math.inf
    transport.byte()
    watched.until(7.0 + QUIET + LIMIT - 0.5)
    assert (len(transport.probes), reachability.up) == (1, True)
    watched.until(7.0 + NOTICED - LIMIT)
    assert not reachability.up
    assert reachability.up_for == 0
    assert watched.clock.now() <= 7.0 + NOTICED
    assert transport.probes[:2] == [7.0 + QUIET, 7.0 + QUIET + LIMIT]
    assert reachability.reason.endswith("s (GET /version: no response in time)")
    assert reachability.reason.startswith(f"no answer for {watched.clock.now() - 7.0:.0f}s")
    assert messages(caplog) == [
        ("ERROR", "API server server:6443 is unreachable: no answer for 20s (GET /version: no response in time)")
    ]
    watched.until(67.0)
    transport.failure = None
    watched.until(67.0 + LIMIT)
    assert reachability.up
    assert (len(watched.returns), reachability.reason) == (1, "")
    assert reachability.up_for == pytest.approx(watched.clock.now() - watched.returns[0])
    assert messages(caplog)[1:] == [
        ("INFO", f"API server server:6443 is reachable again after {watched.returns[0] - 7.0:.0f} s")
    ]


def test_a_probe_that_succeeds_after_the_stop_is_no_return(watched, caplog) -> None:
    caplog.set_level(logging.INFO)
    watched.until(NOTICED)
    assert not watched.reachability.up
    watched.transport.failure = None
    watched.reachability.stop()
    watched.reachability.check()
    assert watched.returns == []
    assert [level for level, _ in messages(caplog)] == ["ERROR"]


def test_a_byte_on_any_connection_ends_it_without_a_probe(watched) -> None:
    watched.transport.takes = 0.0
    watched.until(NOTICED)
    assert not watched.reachability.up
    watched.transport.byte()
    before = len(watched.transport.probes)
    watched.until(NOTICED + LIMIT)
    assert watched.reachability.up
    assert len(watched.transport.probes) == before


@pytest.mark.behaviour("operations/OP127")
def test_a_busy_server_is_never_probed_and_an_idle_one_every_ten_seconds(watched) -> None:
    watched.transport.failure = None
    for second in range(60):
        watched.until(float(second))
        watched.transport.byte()
    assert watched.transport.probes == []
    watched.until(100.0)
    assert watched.transport.probes == [69.0, 79.0, 89.0, 99.0]


def test_one_failure_or_failures_with_an_answer_between_them_are_no_outage(watched, caplog) -> None:
    transport = watched.transport
    for _ in range(3):
        transport.failure = "connection refused"
        transport.takes = 0.0
        before = len(transport.probes)
        while len(transport.probes) == before:
            watched.until(watched.clock.now() + 1.0)
        transport.failure = None
        watched.until(watched.clock.now() + LIMIT)
        assert watched.reachability.up
    assert messages(caplog) == []


def test_refused_connections_are_probed_no_more_often_than_hanging_ones(watched) -> None:
    watched.transport.failure, watched.transport.takes = "connection refused", 0.0
    watched.until(30.0)
    assert watched.transport.probes == [10.0, 15.0, 20.0, 25.0, 30.0]
    assert not watched.reachability.up


@pytest.fixture
def server() -> Iterator[StubApiServer]:
    with StubApiServer() as running:
        yield running


@pytest.mark.behaviour("operations/OP128")
@pytest.mark.parametrize("status", [200, 401, 403, 429, 500])
def test_any_http_answer_is_a_sign_of_life(server: StubApiServer, status: int) -> None:
    server.on("GET", "/version", Json({}) if status == 200 else Failure(status))
    transport = NativeTransport(from_url(server.url, "token", None, True))
    assert transport.probe(LIMIT) == status
    # A 401 is not followed by another attempt with new credentials.
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer token"

    class Quiet(Transport):
        """The same transport, on which nothing else ever comes."""

        host, last_byte_age, probe = transport.host, 100.0, transport.probe

    reachability = Reachability(Quiet())
    for _ in range(FAILURES + 1):
        assert reachability.check() == QUIET
    assert reachability.up
    transport.close()


@pytest.mark.parametrize("answer", [Raw(b"not HTTP\r\n\r\n"), Hang()], ids=["garbage", "silence"])
def test_what_is_no_http_is_no_answer(server: StubApiServer, answer: object) -> None:
    server.on("GET", "/version", answer)
    transport = NativeTransport(from_url(server.url, None, None, True))
    with pytest.raises(TransportError, match=r"GET http://[^ ]*/version: "):
        transport.probe(0.2)


def test_the_last_byte_is_that_of_all_connections_of_all_clients_of_a_server(server: StubApiServer) -> None:
    frames = Frames()
    server.on("GET", PODS, frames)
    # By another name than that of other tests, one of which may have had this port before.
    url = server.url.replace("127.0.0.1", "localhost")
    first, second = (NativeTransport(from_url(url, None, None, True)) for _ in range(2))
    assert first.last_byte_age is None
    stream = first.stream(PODS)
    ages = (first.last_byte_age, second.last_byte_age, second.separate().last_byte_age)
    assert None not in ages
    eventually(lambda: (second.last_byte_age or 0.0) > 0.05)
    frames.send_event(event("ADDED", pod("a", 1)))
    eventually(lambda: (second.last_byte_age or 1.0) < 0.05)
    stream.close()
    with StubApiServer() as other:
        assert NativeTransport(from_url(other.url, None, None, True)).last_byte_age is None


def test_probes_have_connections_of_their_own_and_leave_none_behind(server: StubApiServer) -> None:
    server.on("GET", "/version", Json({}))
    client = Client(server.url)
    transport = client.transport
    assert isinstance(transport, NativeTransport)
    transport.request("GET", "/version")
    for _ in range(3):
        transport.probe(LIMIT)
    assert server.connections == 4
    assert transport.connections()["idle"] == 1
    client.close()


def test_the_thread_probes_by_itself_until_it_is_stopped(server: StubApiServer, manual_clock: ManualClock) -> None:
    transport = Silent(manual_clock)
    transport.takes = 0.0
    reachability = Reachability(transport, clock=manual_clock)
    reachability.start()
    for number in range(1, 4):
        eventually(lambda: manual_clock.waiters() == 1)
        manual_clock.advance(QUIET)
        eventually(lambda number=number: len(transport.probes) >= number)
    assert not reachability.up
    reachability.stop()
    manual_clock.advance(QUIET)
    eventually(lambda: manual_clock.waiters() == 0)
