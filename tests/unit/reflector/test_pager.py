from __future__ import annotations

import random
import threading

import pytest

from ctrlhost.cache import SharedInformer
from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.reflector.list_watch import ListWatch
from ctrlhost.reflector.negotiation import Negotiation
from ctrlhost.transport.steps import carry_out
from tests.support.informer_rig import PODS, Rig
from tests.support.recording_handler import RecordingHandler
from tests.support.stub_api_server import (
    Failure,
    Frames,
    Json,
    bookmark,
    error_event,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import eventually


@pytest.mark.behaviour("informers/RE9")
@pytest.mark.behaviour("informers/WL5")
def test_the_first_list_accepts_any_version_and_the_watch_continues_from_it(rig):
    frames = Frames(
        event("MODIFIED", pod("foo", 2)),
        *(event("ADDED", pod(n, v)) for n, v in (("bar", 3), ("baz", 4), ("qux", 5), ("zoo", 6))),
    )
    handler = RecordingHandler()
    handler.to(rig.pods)
    rig.serve([Json(pod_list(1, pod("foo", 1)))], [frames]).start()
    rig.holds(foo=2, bar=3, baz=4, qux=5, zoo=6)
    eventually(lambda: not rig.pods.pending)
    assert list(dict.fromkeys(name for _, name in handler.events)) == ["foo", "bar", "baz", "qux", "zoo"]
    assert [request.query for request in rig.lists] == [{"resourceVersion": "0", "limit": "500"}]
    (watch,) = rig.watches
    assert watch.query.pop("timeoutSeconds").isdigit()
    assert watch.query == {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "1"}


@pytest.mark.behaviour("informers/RE19")
def test_a_custom_page_size_is_used_for_every_page(rig_with):
    rig = rig_with(page_size=4)
    pages = [
        pod_list(10, *(pod(f"p{n}", n) for n in numbers), continue_=token)
        for numbers, token in ((range(1, 5), "a"), (range(5, 9), "b"), (range(9, 11), ""))
    ]
    rig.serve([Json(page) for page in pages]).synced()
    assert len(rig.held()) == 10
    assert [request.query["limit"] for request in rig.lists] == ["4", "4", "4"]


@pytest.mark.behaviour("informers/PG3")
def test_later_pages_send_the_token_instead_of_the_version(rig):
    rig.serve([Json(pod_list(5, pod("a", 1), continue_="next")), Json(pod_list(5, pod("b", 2)))]).synced()
    assert [(request.query.get("resourceVersion"), request.query.get("continue")) for request in rig.lists] == [
        ("0", None),
        (None, "next"),
    ]
    assert rig.held() == {"a": "1", "b": "2"}


@pytest.mark.behaviour("informers/PG1")
@pytest.mark.parametrize(("count", "pages"), [(0, 1), (9, 1), (10, 1), (11, 2), (21, 3)])
def test_a_list_has_every_object_of_its_pages_and_the_version_of_the_last(rig_with, count, pages):
    rig = rig_with(page_size=10)
    names = [f"p{n}" for n in range(count)]
    chunks = [names[start : start + 10] for start in range(0, max(count, 1), 10)]
    answers = [
        Json(pod_list(100, *(pod(name, 1) for name in chunk), continue_="more" if chunk is not chunks[-1] else ""))
        for chunk in chunks
    ]
    rig.serve(answers).synced()
    assert sorted(rig.held()) == sorted(names)
    assert len(rig.lists) == pages
    assert rig.pods.last_resource_version == "100"


@pytest.mark.behaviour("informers/RE20")
@pytest.mark.behaviour("informers/RE22")
def test_a_relist_requests_at_least_the_known_version_without_pages(rig):
    rig.serve([Json(pod_list(10, pod("a", 1)))], [Frames(error_event(410, "Expired")), Frames()]).start()
    eventually(lambda: len(rig.watches) == 2)
    assert [request.query for request in rig.lists] == [
        {"resourceVersion": "0", "limit": "500"},
        {"resourceVersion": "10"},
    ]


@pytest.mark.behaviour("informers/RE23")
def test_an_expired_version_is_requested_once_and_then_the_newest(rig):
    rig.serve(
        [Json(pod_list(10, pod("a", 1))), Failure(410, "Expired"), Json(pod_list(20, pod("a", 11)))],
        [Frames(error_event(410, "Expired")), Frames()],
    ).start()
    rig.holds(a=11)
    assert rig.list_versions() == ["0", "10", ""]


@pytest.mark.behaviour("informers/RE21")
def test_a_server_that_pages_lists_of_any_version_is_always_paged(rig):
    rig.serve(
        [
            Json(pod_list(10, pod("a", 1), continue_="x")),
            Json(pod_list(10, pod("b", 2))),
            Json(pod_list(12, pod("a", 1))),
        ],
        [Frames(error_event(410, "Expired")), Frames()],
    ).start()
    rig.holds(a=1)
    assert rig.lists[-1].query == {"resourceVersion": "10", "limit": "500"}


@pytest.mark.behaviour("informers/RE24")
@pytest.mark.behaviour("informers/PG2")
def test_an_expired_token_leads_to_one_full_list_of_the_same_version(rig_with):
    rig = rig_with(page_size=4)
    rig.serve(
        [
            Json(pod_list(10, pod("a", 1))),
            Json(pod_list(20, pod("a", 11), continue_="x")),
            Failure(410, "Expired"),
            Json(pod_list(21, *(pod(f"p{number}", 12) for number in range(21)))),
        ],
        [Frames(error_event(410, "Expired")), Frames()],
    ).start()
    # The whole list replaces what the first page had.
    rig.holds(**{f"p{number}": 12 for number in range(21)})
    assert [
        (request.query.get("resourceVersion", ""), request.query.get("continue", ""), request.query.get("limit", ""))
        for request in rig.lists
    ] == [
        ("0", "", "4"),
        ("10", "", "4"),
        ("", "x", "4"),
        ("10", "", ""),
    ]


@pytest.mark.behaviour("informers/PG2")
def test_an_expired_first_page_does_not_lead_to_a_full_list(rig):
    rig.serve([Failure(410, "Expired"), Json(pod_list(3, pod("a", 1)))]).synced()
    assert [request.query.get("limit") for request in rig.lists] == ["500", "500"]
    assert rig.list_versions() == ["0", ""]


TOO_LARGE = [
    pytest.param({"details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}]}}, id="typed cause"),
    pytest.param(
        {"details": {"causes": [{"message": "Too large resource version: 30, current: 1"}]}}, id="cause message"
    ),
    pytest.param({"message": "Too large resource version: 40, current: 1"}, id="message"),
]


@pytest.mark.behaviour("informers/RE25")
@pytest.mark.parametrize("error_fields", TOO_LARGE)
def test_a_version_ahead_of_the_server_is_requested_once_and_then_the_newest(rig, error_fields):
    too_large = Failure(504, "Timeout", **error_fields)
    rig.serve(
        [Json(pod_list(20, pod("a", 1))), too_large, Json(pod_list(5, pod("a", 3)))],
        [Frames(error_event(410, "Expired")), Frames()],
    ).start()
    rig.holds(a=3)
    assert rig.list_versions() == ["0", "20", ""]


@pytest.mark.behaviour("informers/RE32")
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("meta.k8s.io/v1", "Table"), ("meta.k8s.io/v1beta1", "Table"), ("example.com/v1", "Table")],
)
def test_a_table_is_not_a_list(rig, api_version, kind):
    table = {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": "1"}, "rows": []}
    rig.serve([Json(table), Json(pod_list(3, pod("a", 1)))]).synced()
    assert rig.held() == {"a": "1"}
    assert "Table" in str(rig.errors[0])


@pytest.mark.behaviour("informers/RE32")
def test_a_custom_kind_named_table_is_accepted(server):
    kinds = [{"name": "tables", "kind": "Table", "namespaced": True, "verbs": ["list", "watch"]}]
    server.on("GET", "/apis/example.com/v1", Json({"resources": kinds}))

    def table(name: str, version: int) -> dict:
        return {**pod(name, version), "kind": "Table", "apiVersion": "example.com/v1"}

    listed = {"kind": "TableList", "apiVersion": "example.com/v1", "metadata": {"resourceVersion": "1"}}
    frames = Frames({"type": "ADDED", "object": table("b", 2)})
    serve(server, "/apis/example.com/v1/tables", [Json({**listed, "items": [table("a", 1)]})], [frames])
    with InformerFactory(Client(server.url), options=ReflectorOptions(watch_list=False)) as factory:
        tables = factory.informer("example.com/v1", "Table")
        factory.start()
        eventually(lambda: {obj.name for obj in tables.lister.list()} == {"a", "b"})


@pytest.mark.behaviour("informers/RE29")
def test_the_memory_of_deleted_objects_is_freed(rig):
    pages = [
        Json(pod_list(9, *(pod(f"p{page}-{n}", 1) for n in range(100)), continue_="x" if page < 4 else ""))
        for page in range(5)
    ]
    frames = Frames()
    rig.serve(pages, [frames]).synced()
    full = rig.pods.status().bytes
    for page in range(5):
        for n in range(100):
            if (page, n) != (2, 50):
                frames.send_event(event("DELETED", pod(f"p{page}-{n}", 10)))
    eventually(lambda: len(rig.held()) == 1)
    assert rig.pods.status().bytes < full / 100


def test_missed_deletions_reach_the_handlers_as_tombstones(rig):
    deleted = []
    rig.pods.add_handler(on_delete=deleted.append)
    rig.serve(
        [Json(pod_list(3, pod("a", 1), pod("b", 2))), Json(pod_list(9, pod("b", 2)))],
        [Frames(error_event(410, "Expired")), Frames()],
    ).start()
    eventually(lambda: deleted)
    assert (deleted[0].key, deleted[0].object.resource_version) == ("default/a", "1")


@pytest.mark.behaviour("informers/RE4")
def test_a_reflector_stopped_before_its_start_sends_no_request(rig):
    rig.serve([Json(pod_list(1))])
    rig.pods.parts[0].reflector.stop()
    rig.start()
    assert rig.pods.parts[0].reflector.join(10)
    assert rig.server.requests == []


@pytest.mark.behaviour("informers/RE3")
def test_many_informers_start_and_stop_without_leaking_threads(server):

    server.on("GET", PODS, Json(pod_list(1)))
    before = set(threading.enumerate())
    for _ in range(20):
        rig = Rig(server, resync=0.001)
        rig.pods.add_handler(on_add=lambda *_: None)
        rig.start()
        rig.stop()
    # The timer of one that may run fires.
    resynced = threading.Event()
    rig = Rig(server, resync=0.001)
    rig.pods.add_handler(on_update=lambda *_: resynced.set())
    rig.serve([Json(pod_list(1, pod("a", 1)))]).synced()
    assert resynced.wait(10)
    rig.stop()
    names = [thread.name for thread in set(threading.enumerate()) - before]
    assert not [name for name in names if name.startswith(("reflector", "handlers", "resync"))], names


@pytest.mark.behaviour("informers/RE27")
@pytest.mark.parametrize(("shortest", "low", "high"), [(None, 300, 600), (1.0, 300, 600), (1800.0, 1800, 3600)])
def test_watches_last_a_random_time_between_the_shortest_and_twice_that(server, shortest, low, high):

    server.on("GET", PODS, Json({}))
    client = Client(server.url)
    options = ReflectorOptions() if shortest is None else ReflectorOptions(min_watch_timeout=shortest)
    negotiation = Negotiation("v1", "Pod", SharedInformer("pods", "v1", "Pod"), options.encodings)
    requests = ListWatch(client.transport, options, negotiation, rng=random.Random(1))
    for _ in range(20):
        steps = requests.watch(client.resource("v1", "Pod"), "1")
        carry_out(steps, lambda step: step.transport.open(step.request)).close()
    timeouts = [int(request.query["timeoutSeconds"]) for request in server.requests]
    assert all(low <= seconds <= high for seconds in timeouts)
    assert len(set(timeouts)) > 10


@pytest.mark.behaviour("informers/RE28")
def test_the_resume_version_is_that_of_the_last_event(rig):
    frames = Frames()
    rig.serve([Json(pod_list(1))], [frames]).synced()
    for frame, version in (
        (event("ADDED", pod("a", 10)), "10"),
        (event("MODIFIED", pod("a", 20)), "20"),
        (bookmark(30), "30"),
        (event("DELETED", pod("a", 40)), "40"),
    ):
        frames.send_event(frame)
        eventually(lambda version=version: rig.pods.last_resource_version == version)
    assert rig.status.bookmarks == 1
