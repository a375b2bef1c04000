"""The requests of a sharded informer, on a server that a test scripts: it filters nothing, and fails as it is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctrlhost.client import Client
from tests.support.sharded_informers import ALL, ShardedRig, only, spoken
from tests.support.stub_api_server import (
    Answer,
    Computed,
    Failure,
    Frames,
    Json,
    ReceivedRequest,
    StubApiServer,
    bookmark,
    error_event,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
PODS = "/api/v1/pods"
A, B, C = "uid-a", "uid-b", "uid-c"


@pytest.fixture
def rig_with(server: StubApiServer) -> Iterator[Callable[..., ShardedRig]]:
    """Create sharded informers of pods on the stub server."""
    rigs: list[ShardedRig] = []
    client = Client(server.url)

    def make(**options: Any) -> ShardedRig:
        rigs.append(ShardedRig(client, **options))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.factory.stop()
    client.close()


@pytest.fixture
def rig(rig_with: Callable[..., ShardedRig]) -> ShardedRig:
    return rig_with()


def wire(server: StubApiServer) -> list[tuple[str, str]]:
    return [spoken(request.query) for request in server.received()]


def lists(*bodies: dict[str, Any]) -> list[Answer]:
    return [Json(body) for body in bodies]


@behaviour("shards/SH05")
def test_without_a_range_nothing_is_asked_for(server: StubApiServer, rig: ShardedRig) -> None:
    serve(server, PODS, lists(pod_list(5, pod("a", 1), pod("b", 2))), [Frames()])
    rig.start()
    assert rig.informer.has_synced
    eventually(lambda: rig.informer.state == "watching")
    assert (rig.names, server.requests) == ([], [])
    assert not rig.factory.ranges.holds("uid", *only(A)[0])
    # The first range is listed as any first list is; then nothing is left of it, nor of its watch.
    rig.filled(only(A))
    assert rig.names == ["a"]
    eventually(lambda: rig.handler.events == [("add", "a")] and len(wire(server)) == 2)
    watch = Frames()
    serve(server, PODS, lists(pod_list(7, pod("a", 1))), [watch])
    rig.hold([])
    rig.shows()
    eventually(lambda: not rig.factory.ranges.holds("uid", *only(A)[0]))
    # A cache of nothing does not grow old.
    eventually(lambda: rig.informer.status().staleness is None)
    rig.filled(only(A))
    eventually(lambda: len(wire(server)) == 4)
    assert [what for what, _ in wire(server)] == ["list", "watch", "list", "watch"]
    assert server.received()[2].query["resourceVersion"] == "5"


@behaviour("shards/SH06")
@pytest.mark.parametrize("transformed", [False, True])
def test_the_filter_is_before_everything_else(
    server: StubApiServer, rig_with: Callable[..., ShardedRig], transformed: bool
) -> None:
    seen: list[str] = []

    def transform(obj: Any) -> Any:
        seen.append(obj.name)
        return obj

    rig = rig_with(transform=transform if transformed else None)
    pods = [pod(f"p{number}", number) for number in range(1, 1001)]
    own = ["p7", "p500", "p1000"]
    frames = Frames()
    serve(server, PODS, lists(pod_list(1000, *pods)), [frames])
    rig.hold(only(*(f"uid-{name}" for name in (*own, "late"))))
    rig.start()
    assert rig.names == sorted(own)
    for number, kind in enumerate(("ADDED", "MODIFIED", "DELETED"), 1001):
        frames.send_event(event(kind, pod("foreign", number)))
    eventually(lambda: rig.informer.last_resource_version == "1003")
    frames.send_event(event("ADDED", pod("late", 1004)))
    rig.shows(*own, "late")
    eventually(lambda: len(rig.handler.events) == 4)
    assert sorted(rig.handler.events) == [("add", name) for name in sorted([*own, "late"])]
    (part,) = rig.informer.parts
    stats = part.engine.stats()
    assert (stats["filtered"], stats["queued"], stats["objects"]) == (1000, 0, 4)
    assert sorted(seen) == (sorted([*own, "late"]) if transformed else [])
    assert part.filters is False
    assert rig.factory.ranges.unfiltered() == ["pods"]
    families = {family.name: family for family in rig.factory.metrics.collect()}
    for name, value in (("filtered", 1000), ("server_filtered", 0)):
        (sample,) = families[f"ctrlhost_shards_{name}"].samples
        assert (sample.labels, sample.value) == ({"resource": "pods"}, value)


@behaviour("shards/SH56")
def test_a_list_in_pages_begins_again_when_the_ranges_change(server: StubApiServer, rig: ShardedRig) -> None:
    def answer(request: ReceivedRequest) -> Answer:
        if request.query.get("watch"):
            return Frames()
        if len(server.requests) == 1:
            # Between the first page and the second one.
            rig.hold(only(A, B))
        token = request.query.get("continue")
        return Json(pod_list(9, pod("b", 2)) if token else pod_list(9, pod("a", 1), continue_="next"))

    server.on("GET", PODS, Computed(answer))
    rig.hold(only(A))
    rig.start()
    rig.filled(only(A, B))
    rig.shows("a", "b")
    eventually(lambda: len(wire(server)) == 4)
    both = rig.selector(only(A, B))
    assert wire(server) == [("list", rig.selector(only(A))), ("list", both), ("list", both), ("watch", both)]
    assert [request.query.get("continue") for request in server.received(watch=False)] == [None, None, "next"]
    eventually(lambda: sorted(rig.handler.events) == [("add", "a"), ("add", "b")])
    assert rig.errors == []


@behaviour("shards/SH56")
def test_a_streaming_list_begins_again_when_the_ranges_change(
    server: StubApiServer, rig_with: Callable[..., ShardedRig]
) -> None:
    rig = rig_with(watch_list=True)
    first = Frames(event("ADDED", pod("a", 1)))
    second = Frames(event("ADDED", pod("a", 1)), event("ADDED", pod("b", 2)), bookmark(9, initial_end=True))
    serve(server, PODS, lists(pod_list(5)), [first, second])
    rig.hold(only(A))
    rig.factory.start()
    assert first.opened.wait(30)
    rig.filled(only(A, B))
    rig.shows("a", "b")
    assert [what for what in wire(server) if what[0] != "question"] == [
        ("stream", rig.selector(only(A))),
        ("stream", rig.selector(only(A, B))),
    ]
    assert rig.errors == []


@behaviour("shards/SH59")
@pytest.mark.parametrize("watch_list", [False, True])
def test_a_selector_that_is_invalid_is_not_sent_again(
    server: StubApiServer, rig_with: Callable[..., ShardedRig], caplog: pytest.LogCaptureFixture, watch_list: bool
) -> None:
    frames = Frames()

    def answer(request: ReceivedRequest) -> Answer:
        if request.query.get("shardSelector"):
            return Failure(500, "", "invalid shard selector: no such field")
        return frames if request.query.get("watch") else Json(pod_list(5, pod("a", 1), pod("b", 2)))

    server.on("GET", PODS, Computed(answer))
    rig = rig_with(watch_list=watch_list)
    if watch_list:
        for obj in (pod("a", 1), pod("b", 2)):
            frames.send_event(event("ADDED", obj))
        frames.send_event(bookmark(5, initial_end=True))
    rig.hold(only(A, C))
    rig.start()
    assert rig.names == ["a"]
    frames.send_event(event("ADDED", pod("c", 6)))
    rig.shows("a", "c")
    what = [
        (kind, bool(request.query.get("shardSelector")))
        for (kind, _), request in zip(wire(server), server.received(), strict=True)
    ]
    assert what == (
        [("question", True), ("stream", False)] if watch_list else [("list", True), ("list", False), ("watch", False)]
    )
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.levelno == logging.ERROR
    assert "no such field" in line.getMessage()
    assert rig.informer.parts[0].filters is False
    # A range that comes and one that goes need none either.
    serve(server, PODS, lists(pod_list(7, pod("a", 1), pod("b", 2))), [Frames()])
    rig.filled(only(A, B))
    rig.shows("a", "b")
    assert not any(request.query.get("shardSelector") for request in server.received()[1:])
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


@behaviour("shards/SH60")
def test_an_expired_watch_leads_to_a_list_of_the_held_ranges(server: StubApiServer, rig: ShardedRig) -> None:
    first, again = pod_list(5, pod("a", 1), pod("b", 2)), pod_list(9, pod("b", 8), pod("c", 7))
    serve(server, PODS, lists(first, again), [Frames(error_event(410, "Expired")), Frames()])
    rig.hold(only(A, B))
    rig.start()
    rig.shows("b")
    eventually(lambda: len(wire(server)) == 4)
    held = rig.selector(only(A, B))
    assert wire(server) == [("list", held), ("watch", held)] * 2
    eventually(lambda: len(rig.handler.events) == 4)
    # A deletion among what is held is told, as of any list.
    assert sorted(rig.handler.events[2:]) == [("delete", "a"), ("update", "b")]


@behaviour("shards/SH61")
def test_versions_that_are_no_numbers_lead_to_one_list_of_everything(server: StubApiServer, rig: ShardedRig) -> None:
    first, again = pod_list("x5", pod("a", "v1")), pod_list("x9", pod("a", "v3"), pod("b", "v4"))
    serve(server, PODS, lists(first, again), [Frames(), Frames()])
    rig.hold(only(A))
    rig.start()
    eventually(lambda: len(wire(server)) == 2)
    rig.filled(only(A, B))
    rig.shows("a", "b")
    eventually(lambda: len(wire(server)) == 4)
    one, both = rig.selector(only(A)), rig.selector(only(A, B))
    assert wire(server) == [("list", one), ("watch", one), ("list", both), ("watch", both)]
    eventually(lambda: len(rig.handler.events) == 3)
    assert sorted(rig.handler.events) == [("add", "a"), ("add", "b"), ("update", "a")]


@behaviour("shards/SH53")
@pytest.mark.parametrize("failure", [Failure(500, "InternalError", "no"), Failure(429, "TooManyRequests", "later")])
def test_a_range_that_cannot_be_listed_is_asked_for_again_and_the_others_are_not(
    server: StubApiServer, rig: ShardedRig, failure: Failure
) -> None:
    part = pod_list(8, pod("b", 7))
    serve(server, PODS, [*lists(pod_list(5, pod("a", 1))), failure, *lists(part)], [Frames(), Frames()])
    rig.hold(only(A))
    rig.start()
    eventually(lambda: len(wire(server)) == 2)
    rig.filled(only(A, B))
    rig.shows("a", "b")
    eventually(lambda: len(wire(server)) == 5)
    new, both = rig.selector(only(B)), rig.selector(only(A, B))
    assert wire(server)[2:] == [("list", new), ("list", new), ("watch", both)]
    # The watch goes on where the last one ended, not at the version of the list.
    assert [request.query.get("resourceVersion") for request in server.received()[2:]] == ["5", "5", "5"]


@behaviour("shards/SH62")
def test_an_informer_of_everything_is_another_one(server: StubApiServer, rig: ShardedRig) -> None:
    whole = rig.factory.informer("v1", "Pod")
    serve(server, PODS, lists(pod_list(5, pod("a", 1), pod("b", 2))), [Frames()])
    rig.hold(only(A))
    rig.start()
    assert whole is not rig.informer
    assert sorted(obj.name for obj in whole.lister.list()) == ["a", "b"]
    assert rig.names == ["a"]
    eventually(lambda: len(wire(server)) == 4)
    before = len(server.received())
    rig.filled(only(B))
    rig.shows("b")
    eventually(lambda: len(wire(server)) == before + 2)
    assert all(selector for _, selector in wire(server)[before:])
    assert sorted(obj.name for obj in whole.lister.list()) == ["a", "b"]
    # By another part of the object it is a third one; two that ask for the same share it.
    assert rig.factory.informer("v1", "Pod", shard_by="namespace") is not rig.informer
    assert rig.factory.informer("v1", "Pod", shard_by="uid") is rig.informer


@behaviour("shards/SH53")
def test_a_part_of_a_namespace_is_read_while_its_range_is_held(server: StubApiServer) -> None:
    for namespace in ("mine", "others"):
        item = pod(namespace, 3)
        item["metadata"]["namespace"] = namespace
        serve(server, f"/api/v1/namespaces/{namespace}/pods", lists(pod_list(5, item)), [Frames()])
    client = Client(server.url)
    rig = ShardedRig(client, by="namespace", namespaces=["mine", "others"])
    try:
        rig.hold(only("mine"))
        rig.start()
        assert rig.names == ["mine"]
        # The cache is synced a moment before.
        eventually(lambda: rig.factory.ranges.holds("namespace", *only("mine")[0]))
        # Other ranges do not concern it, and it is not chosen by selector.
        rig.filled(only("mine", "elsewhere"))
        eventually(lambda: len(wire(server)) == 2)
        assert wire(server) == [("list", ""), ("watch", "")]
        rig.filled(ALL)
        rig.shows("mine", "others")
        rig.hold(only("others"))
        rig.shows("others")
    finally:
        rig.factory.stop()
        client.close()
