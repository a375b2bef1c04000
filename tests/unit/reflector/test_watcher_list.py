from __future__ import annotations

import functools
import json

import pytest

from ctrlhost.informers import BackoffOptions, ReflectorOptions
from ctrlhost.testing import ManualClock
from tests.support.stub_api_server import Failure, Frames, Json, bookmark, error_event, event, pod, pod_list
from tests.support.waiting import eventually


@pytest.fixture
def rig_with(rig_with):
    return functools.partial(rig_with, watch_list=True)


NO_LISTS = [Failure(500, "InternalError", "unexpected list")]


def queries(requests):
    return [{name: value for name, value in request.query.items() if name != "timeoutSeconds"} for request in requests]


STREAMING = {
    "watch": "1",
    "allowWatchBookmarks": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
}


@pytest.mark.behaviour("informers/RE10")
@pytest.mark.behaviour("informers/WL7")
def test_the_first_list_is_a_stream_that_continues_as_the_watch(rig):
    frames = Frames(event("ADDED", pod("p1", 1)), event("ADDED", pod("p2", 2)), bookmark(2, initial_end=True))
    rig.serve(NO_LISTS, [frames]).synced()
    assert rig.held() == {"p1": "1", "p2": "2"}
    frames.send_event(event("MODIFIED", pod("p1", 3)))
    rig.holds(p1=3, p2=2)
    assert queries(rig.server.requests) == [STREAMING]


@pytest.mark.behaviour("informers/RE34")
@pytest.mark.behaviour("informers/WL1")
@pytest.mark.parametrize("supported", [True, False])
@pytest.mark.parametrize("streaming", [True, False])
def test_streaming_lists_can_be_disabled_and_are_only_used_where_supported(rig_with, streaming, supported):
    rig = rig_with(watch_list=streaming)
    first = Frames(bookmark(1, initial_end=True)) if supported else Failure(422, "Invalid", "sendInitialEvents")
    rig.serve([Json(pod_list(1))], [first, Frames()] if streaming else [Frames()]).synced()
    assert bool(rig.lists) is not (streaming and supported)
    eventually(lambda: rig.watches)
    assert ("sendInitialEvents" in rig.watches[0].query) is streaming


@pytest.mark.behaviour("informers/WL1")
@pytest.mark.behaviour("findings/FT1")
def test_streaming_lists_are_on_by_default():
    # Every client has the method, so there is none that must be tried without.
    assert ReflectorOptions().watch_list


@pytest.mark.behaviour("informers/WL3")
@pytest.mark.parametrize(
    ("frames", "version"),
    [
        ([], ""),
        ([event("ADDED", pod("a", 1))], ""),
        ([event("ADDED", pod("a", 1)), bookmark(2, initial_end=True)], "2"),
    ],
)
def test_versions_of_initial_events_are_ignored_before_the_final_bookmark(rig, frames, version):
    stream = Frames(*frames)
    rig.serve(NO_LISTS, [stream]).start()
    assert stream.opened.wait(10)
    if frames:
        eventually(lambda: rig.status.last_byte_at is not None)
    eventually(lambda: rig.pods.last_resource_version == version)


@pytest.mark.behaviour("informers/WL4")
def test_an_incomplete_stream_does_not_fill_the_cache(rig):
    stream = Frames(event("ADDED", pod("a", 1)))
    rig.serve(NO_LISTS, [stream]).start()
    eventually(lambda: rig.status.last_byte_at is not None)
    rig.stop()
    assert rig.held() == {}
    assert not rig.pods.has_synced
    assert len(rig.server.requests) == 1
    assert rig.errors == []


@pytest.mark.behaviour("informers/WL6")
@pytest.mark.parametrize(
    "refusal", [Failure(500, "InternalError"), Failure(422, "Invalid", "sendInitialEvents is forbidden")]
)
def test_a_server_without_streaming_lists_is_listed_in_pages_at_once(rig_with, refusal):
    clock = ManualClock()
    rig = rig_with(clock=clock)
    rig.serve([Json(pod_list(1, pod("a", 1)))], [refusal, Frames(event("ADDED", pod("b", 2)))]).start()
    rig.holds(a=1, b=2)
    assert queries(rig.server.requests) == [
        STREAMING,
        {"resourceVersion": "0", "limit": "500"},
        {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "1"},
    ]


def test_streaming_lists_are_not_requested_again_after_a_permanent_refusal(rig):
    rig.serve(
        [Json(pod_list(1, pod("a", 1))), Json(pod_list(5, pod("a", 4)))],
        [Failure(422, "Invalid"), Frames(error_event(410, "Expired")), Frames()],
    ).start()
    rig.holds(a=4)
    eventually(lambda: len(rig.watches) == 3)
    assert ["sendInitialEvents" in watch.query for watch in rig.watches] == [True, False, False]


@pytest.mark.behaviour("informers/WL8")
def test_changes_among_the_initial_events_are_applied(rig):
    rig.serve(
        NO_LISTS,
        [
            Frames(
                event("ADDED", pod("p1", 1)),
                event("ADDED", pod("p2", 2)),
                event("MODIFIED", pod("p1", 3)),
                event("ADDED", pod("p3", 4)),
                event("DELETED", pod("p3", 5)),
                bookmark(5, initial_end=True),
            )
        ],
    ).synced()
    assert rig.held() == {"p1": "3", "p2": "2"}
    assert rig.pods.last_resource_version == "5"


@pytest.mark.behaviour("informers/WL9")
def test_a_busy_server_gets_the_streaming_request_again(rig):
    busy = Failure(429, "TooManyRequests")
    rig.serve(NO_LISTS, [busy, busy, Frames(event("ADDED", pod("a", 1)), bookmark(1, initial_end=True))]).synced()
    assert queries(rig.server.requests) == [STREAMING] * 3


@pytest.mark.behaviour("informers/WL10")
def test_a_stream_that_ends_before_it_is_complete_is_reopened_at_once(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock)
    rig.serve(
        NO_LISTS,
        [
            Frames(event("ADDED", pod("gone", 1))).end(),
            Frames(event("ADDED", pod("p1", 1)), bookmark(2, initial_end=True)),
        ],
    ).synced()
    assert rig.held() == {"p1": "1"}
    assert queries(rig.server.requests) == [STREAMING] * 2


def test_a_stream_that_ends_at_once_is_replaced_by_a_list(rig):
    rig.serve([Json(pod_list(3, pod("a", 1)))], [Frames().end(), Frames()]).synced()
    assert rig.held() == {"a": "1"}


def test_a_stream_cut_before_it_is_complete_is_replaced_by_a_list(rig):
    rig.serve([Json(pod_list(3, pod("a", 1)))], [Frames(event("ADDED", pod("gone", 1))).cut(), Frames()]).synced()
    assert rig.held() == {"a": "1"}


@pytest.mark.behaviour("informers/WL11")
def test_a_stream_that_ends_after_completion_is_followed_by_a_plain_watch(rig):
    first = Frames(event("ADDED", pod("p1", 1)), bookmark(2, initial_end=True))
    rig.serve(NO_LISTS, [first, Frames(event("ADDED", pod("p3", 4)))]).synced()
    first.send_event(event("ADDED", pod("p2", 3)))
    first.end()
    rig.holds(p1=1, p2=3, p3=4)
    assert queries(rig.server.requests) == [
        STREAMING,
        {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "3"},
    ]


@pytest.mark.behaviour("informers/WL12")
def test_an_expired_watch_keeps_the_content_and_streams_a_list_from_the_known_version(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, backoff=BackoffOptions(jitter=0))
    first = Frames(event("ADDED", pod("p1", 1)), bookmark(2, initial_end=True)).end()
    second = Frames(event("ADDED", pod("p1", 1)), event("ADDED", pod("p2", 7)), bookmark(8, initial_end=True))
    rig.serve(NO_LISTS, [first, Failure(410, "Expired"), second]).start()
    eventually(lambda: rig.errors)
    eventually(lambda: clock.waiters() == 1)
    assert rig.held() == {"p1": "1"}
    assert type(rig.errors[-1]).__name__ == "Expired"
    clock.advance(0.801)
    rig.holds(p1=1, p2=7)
    assert queries(rig.server.requests)[-1] == {**STREAMING, "resourceVersion": "2"}


def test_a_stream_at_an_expired_version_is_requested_at_the_newest(rig):
    first = Frames(event("ADDED", pod("p1", 1)), bookmark(2, initial_end=True), error_event(410, "Expired"))
    rig.serve(
        NO_LISTS, [first, Failure(410, "Expired"), Frames(event("ADDED", pod("p1", 9)), bookmark(9, initial_end=True))]
    ).start()
    rig.holds(p1=9)
    assert [request.query.get("resourceVersion", "") for request in rig.server.requests] == ["", "2", ""]


@pytest.mark.behaviour("informers/WL13")
def test_only_the_annotation_value_true_ends_the_initial_events(rig):
    stream = Frames(event("ADDED", pod("a", 1)), bookmark(2, initial_end="false"))
    rig.serve(NO_LISTS, [stream]).start()
    eventually(lambda: rig.status.bookmarks == 1)
    assert not rig.pods.has_synced
    assert rig.held() == {}
    stream.send_event(bookmark(3, initial_end=True))
    assert rig.factory.wait_for_sync(10)


PLAIN, REST = (
    b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
    for frames in ([bookmark(9)], [event("ADDED", pod("a", 1)), bookmark(2, initial_end=True)])
)


@pytest.mark.behaviour("findings3/NC4")
@pytest.mark.parametrize("cut", [1, len(PLAIN) - 1, len(PLAIN), len(PLAIN) + 1, len(PLAIN + REST) - 1, None])
@pytest.mark.parametrize("native", [True, False])
def test_a_plain_bookmark_before_the_end_changes_nothing_wherever_it_is_cut(rig_with, cut, native):
    rig = rig_with(clock=None if native else ManualClock())
    stream = Frames()
    rig.serve(NO_LISTS, [stream]).start()
    stream.send_bytes((PLAIN + REST)[:cut])
    if cut is not None:
        before = cut >= len(PLAIN)
        eventually(lambda: rig.status.last_byte_at is not None and rig.status.bookmarks == before)
        stream.send_bytes((PLAIN + REST)[cut:])
    assert rig.factory.wait_for_sync(10)
    assert rig.held() == {"a": "1"}
    assert rig.pods.last_resource_version == "2"
    assert (rig.lists, rig.errors, len(rig.watches)) == ([], [], 1)


def test_a_server_that_sends_only_plain_bookmarks_ignores_streaming_lists_and_is_paged(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock)
    ignorant = Frames(event("ADDED", pod("a", 1)), bookmark(2))
    rig.serve([Json(pod_list(3, pod("a", 1), pod("b", 3)))], [ignorant, Frames(), Frames()]).start()
    eventually(lambda: rig.status.bookmarks == 1)
    clock.advance(29)
    ignorant.send_event(bookmark(3))
    eventually(lambda: rig.status.bookmarks == 2)
    assert rig.lists == []
    clock.advance(1)
    ignorant.send_event(bookmark(4))
    rig.holds(a=1, b=3)
    assert ignorant.closed.wait(10)
    rig.pods.parts[0].reflector.relist()
    eventually(lambda: len(rig.lists) == 2)
    assert ["sendInitialEvents" in watch.query for watch in rig.watches][:2] == [True, False]


def test_initial_events_without_an_end_are_replaced_by_pages(rig_with):
    rig = rig_with(initial_idle_timeout=0.1)
    silent = Frames(event("ADDED", pod("a", 1)))
    rig.serve([Json(pod_list(3, pod("a", 1), pod("b", 3)))], [silent, Frames()]).synced()
    assert rig.held() == {"a": "1", "b": "3"}
    assert silent.closed.wait(10)


def test_a_complete_stream_may_be_silent_as_long_as_any_watch(rig_with):
    rig = rig_with(initial_idle_timeout=0.05, idle_timeout=30)
    frames = Frames(event("ADDED", pod("a", 1)), bookmark(2, initial_end=True))
    rig.serve(NO_LISTS, [frames]).synced()
    assert rig.pods.parts[0].reflector.join(0.2) is False
    frames.send_event(event("ADDED", pod("b", 3)))
    rig.holds(a=1, b=3)
    assert len(rig.watches) == 1


@pytest.mark.behaviour("informers/RE31")
def test_a_transform_runs_once_per_object_received(server):
    from ctrlhost.client import Client
    from ctrlhost.informers import InformerFactory
    from tests.support.stub_api_server import serve

    seen = []

    def upper(obj):
        seen.append(obj.name)
        changed = obj.to_dict()
        changed["metadata"]["labels"] = {"seen": "yes"}
        return changed

    factory = InformerFactory(Client(server.url))
    pods = factory.informer("v1", "Pod", transform=upper)
    frames = Frames(event("ADDED", pod("a", 1)), event("ADDED", pod("b", 2)), bookmark(2, initial_end=True))
    serve(server, "/api/v1/pods", NO_LISTS, [frames])
    with factory:
        assert factory.wait_for_sync(10)
        frames.send_event(event("ADDED", pod("c", 3)))
        eventually(lambda: len(pods.lister.list()) == 3)
        assert seen == ["a", "b", "c"]
        assert all(obj.labels == {"seen": "yes"} for obj in pods.lister.list())


def test_a_deletion_during_the_gap_reaches_handlers_after_a_streamed_list(rig):
    deleted = []
    rig.pods.add_handler(on_delete=deleted.append)
    first = Frames(
        event("ADDED", pod("a", 1)),
        event("ADDED", pod("b", 1)),
        bookmark(2, initial_end=True),
        error_event(410, "Gone"),
    )
    rig.serve(NO_LISTS, [first, Frames(event("ADDED", pod("b", 1)), bookmark(8, initial_end=True))]).start()
    eventually(lambda: deleted)
    assert deleted[0].key == "default/a"
    assert rig.held() == {"b": "1"}
