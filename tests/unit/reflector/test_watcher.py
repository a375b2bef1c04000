from __future__ import annotations

import logging

import pytest

from ctrlhost.informers import BackoffOptions
from ctrlhost.testing import ManualClock
from tests.support.informer_rig import PODS, QUICK, Rig
from tests.support.stub_api_server import (
    Answer,
    Body,
    Computed,
    Failure,
    Frames,
    Json,
    Raw,
    StubApiServer,
    bookmark,
    error_event,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import eventually

STILL = BackoffOptions(jitter=0)


FIRST = [Json(pod_list(1, pod("foo", 1), pod("bar", 1)))]


@pytest.mark.behaviour("informers/RE1")
@pytest.mark.parametrize("body", [{"kind": "Pod", "metadata": {"name": "x"}}, {}, {"code": "many"}])
def test_an_error_frame_without_a_status_ends_the_stream_and_leads_to_a_relist(rig, body):
    odd = Frames({"type": "ERROR", "object": body})
    rig.serve([*FIRST, Json(pod_list(5, pod("foo", 4)))], [odd, Frames()]).start()
    rig.holds(foo=4)
    assert odd.closed.wait(10)


@pytest.mark.behaviour("informers/RE2")
@pytest.mark.behaviour("informers/RE6")
def test_stopping_ends_the_reflector_and_closes_its_stream(rig):
    frames = Frames()
    rig.serve(FIRST, [frames]).synced()
    assert frames.opened.wait(10)
    reflector = rig.pods.parts[0].reflector
    reflector.stop()
    assert reflector.join(10)
    assert frames.closed.wait(10)
    assert reflector.status.state == "stopped"


@pytest.mark.behaviour("informers/RE5")
def test_stopping_right_after_the_watch_opened_leaves_one_watch(rig):
    frames = Frames()
    rig.serve(FIRST, [frames]).start()
    assert frames.opened.wait(10)
    reflector = rig.pods.parts[0].reflector
    rig.stop()
    assert frames.closed.wait(10)
    assert reflector.join(10)
    assert (reflector.status.state, rig.errors) == ("stopped", [])
    assert len(rig.watches) == 1
    assert rig.held() == {"foo": "1", "bar": "1"}


@pytest.mark.behaviour("informers/RE7")
@pytest.mark.parametrize("opened_first", [False, True])
def test_a_watch_that_ends_at_once_without_events_is_followed_by_a_pause_and_a_relist(rig_with, caplog, opened_first):
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    rig = rig_with(clock=clock, backoff=STILL)
    short = Frames()
    rig.serve([*FIRST, Json(pod_list(5, pod("foo", 4)))], [short, Frames()])
    if not opened_first:
        short.end()
    rig.start()
    assert short.opened.wait(10)
    if opened_first:
        eventually(lambda: rig.pods.state == "watching")
        short.end()
    eventually(lambda: clock.waiters() == 1)
    assert "watch of pods ended at once without an event" in caplog.messages
    assert (len(rig.lists), len(rig.watches)) == (1, 1)
    clock.advance(0.801)
    rig.holds(foo=4)
    assert rig.list_versions() == ["0", "1"]


def test_a_relist_that_is_requested_before_the_watch_is_open_is_not_lost(rig):
    def list_while_requested(_):
        rig.pods.parts[0].reflector.relist()
        return FIRST[0]

    # The watch stays silent: nothing but the request leads to the second list.
    rig.serve([Computed(list_while_requested), Json(pod_list(5, pod("foo", 4)))], [Frames(), Frames()]).start()
    rig.holds(foo=4)
    assert len(rig.lists) == 2


@pytest.mark.behaviour("informers/RE8")
def test_frames_of_another_kind_are_skipped_and_the_version_is_that_of_the_last_event(rig):
    service = {
        "type": "ADDED",
        "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s", "resourceVersion": "99"}},
    }
    frames = Frames(
        service, event("DELETED", pod("foo", 54)), event("MODIFIED", pod("bar", 55)), event("ADDED", pod("baz", 32))
    )
    rig.serve(FIRST, [frames]).start()
    rig.holds(bar=55, baz=32)
    assert rig.pods.last_resource_version == "32"


def test_a_watch_that_timed_out_resumes_at_once(rig):
    rig.serve(FIRST, [Frames(event("ADDED", pod("a", 7))).end(), Frames(event("ADDED", pod("b", 8)))]).start()
    rig.holds(foo=1, bar=1, a=7, b=8)
    assert [watch.query["resourceVersion"] for watch in rig.watches] == ["1", "7"]
    assert len(rig.lists) == 1


def test_a_bookmark_advances_the_resume_version_and_an_older_one_does_not(rig):
    rig.serve(FIRST, [Frames(bookmark(70), bookmark(60)).end(), Frames()]).start()
    eventually(lambda: len(rig.watches) == 2)
    assert rig.watches[1].query["resourceVersion"] == "70"


CUTS = [
    pytest.param(lambda: Frames(event("ADDED", pod("a", 7))).cut(), id="between frames"),
    pytest.param(lambda: half(Frames(event("ADDED", pod("a", 7)))), id="in a frame"),
    pytest.param(lambda: half(Frames(event("ADDED", pod("a", 7))), ended=True), id="in a frame, politely"),
]


def half(frames: Frames, *, ended: bool = False) -> Frames:
    frames.send_bytes(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"na')
    return frames.end() if ended else frames.cut()


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_stream_resumes_after_the_last_complete_frame(rig, cut):
    rig.serve(FIRST, [cut(), Frames(event("ADDED", pod("b", 8)))]).start()
    rig.holds(foo=1, bar=1, a=7, b=8)
    assert [watch.query["resourceVersion"] for watch in rig.watches] == ["1", "7"]


@pytest.mark.parametrize(
    "frame",
    [
        b"<html>\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":null}\n',
        b'{"type":"MAGIC","object":{"kind":"Pod","metadata":{"name":"x","resourceVersion":"9"}}}\n',
        b'{"type":"ADDED","object":{"kind":"Pod"}}\n',
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}\n',
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"\xff\xfe","resourceVersion":"9"}}}\n',
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"x"},"spec":' + b"[" * 100_000 + b"\n",
        b"\n\n\n",
        b"null\n",
        b"7\n",
    ],
)
def test_a_malformed_frame_is_skipped_alone(rig, frame):
    bad = Frames(event("ADDED", pod("a", 7)))
    bad.send_bytes(frame)
    bad.send_event(event("ADDED", pod("b", 8)))
    good = Frames(event("ADDED", pod("b", 8)))
    rig.serve([*FIRST, Json(pod_list(7, pod("foo", 1), pod("bar", 1), pod("a", 7)))], [bad, good]).start()
    eventually(lambda: {"a": "7", "b": "8"}.items() <= rig.held().items())
    assert set(rig.held()) <= {"foo", "bar", "a", "b", "x", "\ufffd\ufffd"}


def test_a_silent_stream_is_closed_and_reopened(rig_with):
    rig = rig_with(idle_timeout=0.1)
    quiet = Frames(event("ADDED", pod("a", 7)))
    rig.serve(FIRST, [quiet, Frames(event("ADDED", pod("b", 8)), bookmark(9))]).start()
    rig.holds(foo=1, bar=1, a=7, b=8)
    assert quiet.closed.wait(10)
    assert [watch.query["resourceVersion"] for watch in rig.watches[:2]] == ["1", "7"]
    assert any("no data for 0.1 s" in str(error) for error in rig.errors)


@pytest.mark.behaviour("findings3/NC9")
@pytest.mark.behaviour("findings3/NC17")
def test_a_silent_watch_of_a_restored_server_leads_to_a_list(rig_with):
    # It waits until it reaches the requested version.
    rig = rig_with(idle_timeout=0.1, restorable=True)
    lists = [*FIRST, Json(pod_list(1, pod("bar", 1), continue_="more")), Json(pod_list(1, pod("bar", 1)))]
    rig.serve(lists, [Frames(bookmark(5)), Frames(bookmark(2))]).start()
    rig.holds(bar=1)
    assert rig.list_versions()[:3] == ["0", "", ""]
    # Before a second watch that would be silent, too.
    assert [request.query.get("resourceVersion") for request in rig.watches[:2]][:1] == ["1"]


def refusals(rig: Rig) -> int:
    return sum("cannot connect" in str(error) for error in rig.errors)


@pytest.mark.behaviour("informers/RE12")
def test_the_watch_of_an_unreachable_server_is_retried_without_a_relist(server, rig_with):
    clock = ManualClock()
    first = StubApiServer().start()
    rig = rig_with(server=first, clock=clock, backoff=STILL)
    frames = Frames(event("ADDED", pod("a", 7)))
    rig.serve(FIRST, [frames])
    rig.start().holds(foo=1, bar=1, a=7)
    first.stop()
    for count, delay in ((1, 0.8), (2, 1.6), (3, None)):
        # The first failure is the end of the open stream, which causes no pause.
        eventually(lambda count=count: refusals(rig) == count and clock.waiters() == 1)
        assert rig.pods.state == "reconnecting"
        # And not the end of the previous stream.
        assert "cannot connect" in rig.pods.reason
        if delay is not None:
            clock.advance(delay + 0.001)
    again = StubApiServer(port=first.port)
    serve(again, PODS, [Failure(500)], [Frames(event("ADDED", pod("b", 8)))])
    with again:
        clock.advance(3.201)
        rig.holds(foo=1, bar=1, a=7, b=8)
        assert [request.query["resourceVersion"] for request in again.received(watch=True)] == ["7"]
        assert again.received(watch=False) == []
        rig.stop()


@pytest.mark.behaviour("informers/RE14")
def test_the_watch_of_a_busy_server_is_retried_after_a_pause(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, backoff=STILL)
    rig.serve(FIRST, [Failure(429, "TooManyRequests"), Frames(error_event(429, "TooManyRequests")), Frames()]).start()
    for count, delay in ((1, 0.8), (2, 1.6)):
        eventually(lambda count=count: len(rig.errors) == count and clock.waiters() == 1)
        clock.advance(delay + 0.001)
    eventually(lambda: len(rig.watches) == 3)
    assert len(rig.lists) == 1


def test_the_pause_requested_by_an_error_frame_is_respected(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, backoff=STILL)
    rig.serve(FIRST, [Frames(error_event(429, "TooManyRequests", details={"retryAfterSeconds": 9})), Frames()]).start()
    eventually(lambda: clock.waiters() == 1)
    clock.advance(8.9)
    assert len(rig.watches) == 1
    clock.advance(0.2)
    eventually(lambda: len(rig.watches) == 2)


@pytest.mark.behaviour("informers/RE15")
def test_a_busy_server_does_not_cause_a_relist(rig):
    rig.serve(FIRST, [*[Failure(429, "TooManyRequests")] * 4, Frames()]).start()
    eventually(lambda: len(rig.watches) == 5)
    assert len(rig.lists) == 1


@pytest.mark.behaviour("informers/RE16")
@pytest.mark.parametrize(("window", "lists"), [(0.0, 2), (30.0, 1)])
def test_internal_errors_lead_to_a_relist_unless_a_retry_window_is_open(rig_with, window, lists):
    rig = rig_with(internal_error_window=window)
    rig.serve(FIRST, [Frames(error_event(500, "InternalError")), Frames(event("ADDED", pod("a", 7)))]).start()
    rig.holds(foo=1, bar=1, a=7)
    assert len(rig.lists) == lists


@pytest.mark.behaviour("informers/RE17")
def test_a_retry_window_applies_to_internal_errors_only(rig_with):
    rig = rig_with(internal_error_window=30.0)
    internal = Frames(error_event(500, "InternalError"))
    other = Frames(error_event(503, "ServiceUnavailable"))
    again = Frames(error_event(500, "InternalError"))
    rig.serve([*FIRST, Json(pod_list(5, pod("foo", 4)))], [internal, other, again, Frames()]).start()
    eventually(lambda: len(rig.watches) == 4)
    # The first and the last led only to a watch, the one between them to a list.
    assert rig.list_versions() == ["0", "1"]
    rig.holds(foo=4)


@pytest.mark.parametrize("answer", [Failure(500), Failure(403), Body(b"<html>", 502), Raw(b"x\r\n\r\n")])
def test_a_watch_that_cannot_be_opened_leads_to_a_relist(rig, answer: Answer):
    rig.serve([*FIRST, Json(pod_list(5, pod("foo", 4)))], [answer, Frames()]).start()
    rig.holds(foo=4)


def test_a_missing_watch_permission_is_named(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock)
    rig.serve(FIRST, [Failure(403, "Forbidden", "no watch for you")]).synced()
    eventually(lambda: rig.pods.state == "waiting")
    assert rig.pods.reason == "no permission to watch Pod (v1): no watch for you"


@pytest.mark.behaviour("informers/RE30")
def test_an_object_that_the_server_can_no_longer_decode_is_removed_by_the_next_list(rig):
    corrupt = Frames(error_event(500, "StoreReadError", "corrupt object has been deleted"))
    rig.serve([*FIRST, Json(pod_list(5, pod("foo", 1)))], [corrupt, Frames()]).start()
    rig.holds(foo=1)
    assert rig.pods.last_resource_version == "5"


def test_a_repeated_failure_is_logged_once_and_counted_each_time(rig_with, caplog):
    caplog.set_level("WARNING", "ctrlhost")
    rig = rig_with(backoff=QUICK)
    rig.serve([*[Failure(500, "InternalError", "oh no")] * 6, *FIRST]).start()
    rig.holds(foo=1, bar=1)
    assert rig.status.errors == {"ServerError": 6}
    assert [record.getMessage() for record in caplog.records] == ["cannot list Pod: oh no"]


def test_a_refused_token_is_read_again_from_its_file(tmp_path, server):
    import yaml

    from ctrlhost.client import Client
    from ctrlhost.informers import InformerFactory, ReflectorOptions
    from tests.support.stub_api_server import Computed, ReceivedRequest

    token = tmp_path / "token"
    token.write_text("old")
    valid = {"Bearer old"}
    frames, later = Frames(), Frames(event("ADDED", pod("a", 7)))
    streams = [frames, later]

    def answer(request: ReceivedRequest) -> Answer:
        if request.headers.get("authorization") not in valid:
            return Failure(401, "Unauthorized")
        return (streams.pop(0) if streams else Frames()) if request.query.get("watch") else FIRST[0]

    server.on("GET", PODS, Computed(answer))
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    factory = InformerFactory(
        Client.load(tmp_path / "config"), options=ReflectorOptions(watch_list=False, backoff=QUICK)
    )
    pods = factory.informer("v1", "Pod")
    with factory:
        assert factory.wait_for_sync(10)
        assert frames.opened.wait(10)
        token.write_text("renewed")
        valid.clear()
        valid.add("Bearer renewed")
        frames.send_event(bookmark(5))
        frames.end()
        eventually(lambda: len(pods.lister.list()) == 3)
        assert pods.status().errors == 0
