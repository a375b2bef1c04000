from __future__ import annotations

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import BackoffOptions, InformerFactory, ReflectorOptions
from ctrlhost.testing import ManualClock
from tests.support.informer_rig import Rig
from tests.support.stub_api_server import (
    Body,
    Drop,
    Endless,
    Failure,
    Frames,
    Json,
    Raw,
    StubApiServer,
    error_event,
    event,
    pod,
    pod_list,
    serve,
    status_object,
)
from tests.support.waiting import eventually


@pytest.mark.behaviour("informers/RE11")
def test_after_any_failure_the_cache_becomes_equal_to_the_next_list(rig):
    rig.serve(
        [
            Json(pod_list(3, pod("a", 1), pod("b", 2))),
            Failure(500, "InternalError"),
            Json(pod_list(9, pod("b", 2), pod("c", 8))),
        ],
        [
            Frames(event("ADDED", pod("x", 4)), error_event(410, "Expired")),
            Failure(500),
            Frames(event("MODIFIED", pod("c", 10))),
        ],
    ).start()
    rig.holds(b=2, c=10)
    # Of the first stream, the second list and the second watch.
    assert [type(error).__name__ for error in rig.errors] == ["Expired", "ServerError", "ServerError"]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(Failure(500, "InternalError"), id="500"),
        pytest.param(Failure(503), id="503"),
        pytest.param(Failure(429, "TooManyRequests", retry_after=0), id="429"),
        pytest.param(Drop(), id="no answer"),
        pytest.param(Body(b"<html>please log in</html>"), id="html"),
        pytest.param(Body(b"[]", content_type="application/json"), id="no object"),
        pytest.param(Json(status_object(500, "InternalError")), id="a failure with a good status"),
        pytest.param(Body(b'{"kind":"PodList","items":[{"metadata"', content_type="application/json"), id="cut json"),
        pytest.param(
            Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + b'{"kind":"PodList","items":['), id="cut body"
        ),
        pytest.param(Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"), id="cut chunk"),
        pytest.param(Raw(b"nonsense\r\n\r\n"), id="no http"),
        pytest.param(Endless(b'{"kind":"PodList",' + b" " * 65536), id="endless"),
    ],
)
def test_a_failed_list_is_retried_and_its_failure_named(rig, bad):
    # A request on a connection that closes without an answer is sent twice, since the connection may have been stale.
    times = 4 if isinstance(bad, Drop) else 2
    rig.serve([*[bad] * times, Json(pod_list(3, pod("a", 1)))]).synced()
    assert rig.held() == {"a": "1"}
    assert len(rig.errors) == 2
    assert rig.status.last_error


def test_an_unreachable_server_is_retried_with_growing_delays(server):
    clock = ManualClock()
    stopped = StubApiServer().start()
    stopped.stop()
    rig = Rig(stopped, clock=clock, backoff=BackoffOptions(jitter=0))
    rig.start()
    try:
        for delay in (0.8, 1.6, 3.2):
            count = len(rig.errors)
            eventually(lambda: clock.waiters() == 1)
            clock.advance(delay - 0.01)
            assert len(rig.errors) == max(count, 1)
            clock.advance(0.02)
            eventually(lambda count=count: len(rig.errors) > max(count, 1))
        assert rig.pods.state == "listing"
        assert "cannot connect" in rig.pods.reason
    finally:
        rig.stop()


def test_retry_after_of_the_server_is_respected(server):
    clock = ManualClock()
    rig = Rig(server, clock=clock, watch_list=False)
    rig.serve([Failure(429, "TooManyRequests", retry_after=7), Json(pod_list(1, pod("a", 1)))]).start()
    try:
        eventually(lambda: clock.waiters() == 1)
        clock.advance(6.9)
        assert len(rig.lists) == 1
        clock.advance(0.2)
        rig.holds(a=1)
    finally:
        rig.stop()


@pytest.mark.behaviour("informers/SI6")
def test_a_missing_permission_is_logged_at_once_and_reported_until_granted(rig):
    denied = Failure(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"')
    rig.serve([denied, denied, Json(pod_list(1, pod("a", 1)))]).start()
    eventually(lambda: rig.errors)
    assert type(rig.errors[0]).__name__ == "Forbidden"
    rig.holds(a=1)
    eventually(lambda: rig.pods.state == "watching")
    assert rig.pods.reason == ""


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (
            Failure(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"'),
            'no permission to list Pod (v1): pods is forbidden: User "x"',
        ),
        (
            Failure(400, "BadRequest", "field label not supported: spec.colour"),
            "field label not supported: spec.colour",
        ),
    ],
    ids=["no permission", "selector"],
)
def test_an_informer_that_the_server_refuses_waits_and_says_why(server, refusal, reason):
    clock = ManualClock()
    rig = Rig(server, clock=clock)
    rig.serve([refusal, Json(pod_list(1, pod("a", 1)))]).start()
    try:
        eventually(lambda: rig.pods.state == "waiting")
        assert rig.pods.reason.startswith(reason)
        assert not rig.factory.wait_for_sync(0.01)
        eventually(lambda: clock.waiters() == 1)
        rig.pods.wake()
        rig.holds(a=1)
    finally:
        rig.stop()


def test_a_served_kind_whose_storage_is_not_ready_is_retried_soon(server):
    clock = ManualClock()
    rig = Rig(server, clock=clock, backoff=BackoffOptions())
    denied, starting = Failure(403, "Forbidden"), Failure(429, "TooManyRequests", "storage is (re)initializing")
    rig.serve([*[denied] * 6, starting, starting, Json(pod_list(1, pod("a", 1)))]).start()

    def waits_after(lists: int) -> None:
        eventually(lambda: (len(rig.lists), clock.waiters()) == (lists, 1))

    try:
        for count in range(1, 6):
            waits_after(count)
            clock.advance(10)
        waits_after(6)
        rig.pods.wake()
        for count in (7, 8):
            waits_after(count)
            clock.advance(0.5)
        rig.holds(a=1)
    finally:
        rig.stop()


def test_a_kind_that_is_not_served_is_found_when_it_appears(server):

    clock = ManualClock()

    factory = InformerFactory(Client(server.url), clock=clock, options=ReflectorOptions(watch_list=False))
    foos = factory.informer("example.com/v1", "Foo")
    factory.start()
    try:
        eventually(lambda: foos.state == "waiting")
        assert "does not serve kind Foo" in foos.reason
        # It waits, and so does the watch of CRDs, which this server does not serve either.
        eventually(lambda: clock.waiters() == 2)
        kinds = [{"name": "foos", "kind": "Foo", "namespaced": True, "verbs": ["list", "watch"]}]
        server.on("GET", "/apis/example.com/v1", Json({"resources": kinds}))
        listed = {"kind": "FooList", "apiVersion": "example.com/v1", "metadata": {"resourceVersion": "1"}, "items": []}

        serve(server, "/apis/example.com/v1/foos", [Json(listed)], [Frames()])
        foos.wake()
        assert factory.wait_for_sync(10)
        eventually(lambda: foos.state == "watching")
    finally:
        factory.stop()
