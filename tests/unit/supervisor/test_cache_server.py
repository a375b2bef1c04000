"""Lists and watches of the feed, as a raw client sees them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost import Client, _core
from ctrlhost.informers.declarations import scope_of
from ctrlhost.supervisor.cache_server import FeedLimits
from tests.support import objects
from tests.support.feeds import CONFIGS, METADATA, PODS, FeedRig, short
from tests.support.http_client import names
from tests.support.objects import config_map
from tests.support.stub_api_server import (
    Failure,
    Frames,
    Hang,
    Json,
    StubApiServer,
    bookmark,
    error_event,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import create_eventually, eventually

behaviour = pytest.mark.behaviour
Feeds = Callable[..., FeedRig]
LIMITS: Any = {
    "window_events": 10,
    "window_bytes": 1 << 20,
    "waiting_events": 10,
    "waiting_bytes": 1 << 20,
    "patience": 1.0,
    "bookmark": 60.0,
}


@pytest.fixture
def frames() -> Frames:
    """The watch of the host's informer."""
    return Frames()


@pytest.fixture
def feed(server: StubApiServer, client: Client, frames: Frames, feed_of: Feeds) -> FeedRig:
    """A feed of pods, of which the host lists two at version 10."""
    serve(server, PODS, [Json(pod_list(10, pod("a", 1), pod("b", 2)))], [frames])
    return feed_of(client)


@behaviour("supervision/FD1")
def test_a_list_and_its_watch_come_from_the_cache(sandbox_client: Client, feed_of: Feeds) -> None:
    create_eventually(sandbox_client, objects.pod("c000"))
    for number in range(1, 1000):
        sandbox_client.create(objects.pod(f"c{number:03}"))
    feed = feed_of(sandbox_client)
    api = feed.serving()
    api.listed(PODS)
    eventually(lambda: [informer.state for informer in feed.factory.informers()] == ["watching"])
    requests = feed.client.transport.metrics.requests()
    listed = api.get(PODS, resourceVersion="0", limit=500).json()
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert "continue" not in listed["metadata"]
    assert sorted(item["metadata"]["name"] for item in listed["items"]) == [f"c{n:03}" for n in range(1000)]
    assert not any("managedFields" in item["metadata"] for item in listed["items"])
    version = listed["metadata"]["resourceVersion"]
    events = api.watch(PODS, resourceVersion=version)
    assert events.headers["content-type"] == "application/json"
    assert feed.client.transport.metrics.requests() == requests
    sent = []
    for turn, number in enumerate((3, 1, 3, 2)):
        labels = {"metadata": {"labels": {"n": str(turn)}}}
        patched = sandbox_client.patch("v1", "Pod", f"c00{number}", "default", labels)
        sent.append((patched["metadata"]["name"], patched["metadata"]["resourceVersion"]))
    sandbox_client.delete("v1", "Pod", "c004", "default")
    # A pod without a node is marked before it is gone.
    got = events.take(6)
    assert [event["type"] for event in got] == ["MODIFIED"] * 5 + ["DELETED"]
    changes = [(event["object"]["metadata"]["name"], event["object"]["metadata"]["resourceVersion"]) for event in got]
    assert changes[:4] == sent
    versions = [int(version) for _, version in changes]
    assert versions == sorted(versions)


@behaviour("supervision/FD3")
def test_a_version_before_the_window_has_expired(
    server: StubApiServer, client: Client, frames: Frames, feed_of: Feeds
) -> None:
    serve(server, PODS, [Json(pod_list(10, pod("a", 1)))], [frames])
    api = feed_of(client, window_events=5).serving()
    version = api.listed(PODS)["metadata"]["resourceVersion"]
    for number in range(11, 21):
        frames.send_event(event("MODIFIED", pod("a", number)))
    eventually(lambda: api.listed(PODS)["metadata"]["resourceVersion"] == "20")
    events = api.watch(PODS, resourceVersion=version)
    assert events.status == 200
    (only,) = events.rest()
    assert only["type"] == "ERROR"
    assert (only["object"]["kind"], only["object"]["code"], only["object"]["reason"]) == ("Status", 410, "Expired")
    fresh = api.watch(PODS, resourceVersion=api.listed(PODS)["metadata"]["resourceVersion"])
    frames.send_event(event("MODIFIED", pod("a", 21)))
    assert short(fresh.next()) == "MODIFIED a 21"
    assert (FeedLimits().window_events, FeedLimits().window_bytes) == (10_000, 16 << 20)


@behaviour("supervision/FD4")
def test_watches_end_when_the_host_lists_again(server: StubApiServer, client: Client, feed_of: Feeds) -> None:
    first, second = Frames(), Frames()
    lists = [Json(pod_list(10, pod("a", 1))), Json(pod_list(20, pod("b", 19)))]
    serve(server, PODS, lists, [first, second])
    api = feed_of(client).serving()
    api.listed(PODS)
    watches = [api.watch(PODS, resourceVersion="10"), api.watch(PODS, resourceVersion="10")]
    first.send_event(error_event(410, "Expired"))
    for events in watches:
        assert [short(event) for event in events.rest()] == ["ERROR 410"]
    listed = api.listed(PODS)
    assert (listed["metadata"]["resourceVersion"], len(listed["items"])) == ("20", 1)
    assert listed["items"][0]["metadata"]["name"] == "b"
    events = api.watch(PODS, resourceVersion="20")
    second.send_event(event("MODIFIED", pod("b", 21)))
    assert short(events.next()) == "MODIFIED b 21"


@behaviour("supervision/FD7")
def test_bookmarks_come_in_quiet_times_and_from_the_informer(
    server: StubApiServer, client: Client, frames: Frames, feed_of: Feeds
) -> None:
    assert FeedLimits().bookmark == 60
    serve(server, PODS, [Json(pod_list(10, pod("a", 1)))], [frames])
    api = feed_of(client, bookmark=0.02).serving()
    api.listed(PODS)
    events = api.watch(PODS, resourceVersion="10", allowWatchBookmarks="true")
    seen = [events.next()]
    frames.send_event(event("MODIFIED", pod("a", 12)))
    while "12" not in short(seen[-1]) or len(seen) < 5 or seen[-1]["type"] != "BOOKMARK":
        seen.append(events.next())
    assert short(seen[0]) == "BOOKMARK 10"
    assert seen[0]["object"]["kind"] == "Pod"
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(versions)
    assert set(versions) == {10, 12}


@behaviour("supervision/FD7")
def test_only_who_asks_gets_the_bookmarks_of_the_informer(feed: FeedRig, frames: Frames) -> None:
    api = feed.serving()
    api.listed(PODS)
    asking = api.watch(PODS, resourceVersion="10", allowWatchBookmarks="true")
    silent = api.watch(PODS, resourceVersion="10")
    frames.send_event(bookmark(11))
    frames.send_event(event("ADDED", pod("c", 12)))
    assert [short(event) for event in asking.take(2)] == ["BOOKMARK 11", "ADDED c 12"]
    assert short(silent.next()) == "ADDED c 12"


@behaviour("supervision/FD8")
def test_an_object_that_leaves_a_selection_is_deleted(feed: FeedRig, frames: Frames) -> None:
    api = feed.serving()
    api.listed(PODS)
    events = api.watch(PODS, resourceVersion="10", labelSelector="app=web")
    for obj in (
        pod("a", 11),
        pod("a", 12, app="web"),
        pod("a", 13, app="web", more="x"),
        pod("a", 14, app="db"),
        pod("a", 15),
        pod("a", 16, app="web"),
    ):
        frames.send_event(event("MODIFIED", obj))
    frames.send_event(event("DELETED", pod("a", 17, app="web")))
    got = events.take(5)
    assert [short(event) for event in got] == [
        "ADDED a 12",
        "MODIFIED a 13",
        "DELETED a 14",
        "ADDED a 16",
        "DELETED a 17",
    ]
    # The last state that matched.
    assert got[2]["object"]["metadata"]["labels"] == {"app": "web", "more": "x"}
    assert api.get(PODS, labelSelector="app=web").json()["items"] == []
    assert api.get(PODS, labelSelector="app===").fails(400, "BadRequest")


@behaviour("supervision/FD8")
def test_fields_are_served_by_name_and_namespace_and_as_declared(
    feed: FeedRig, frames: Frames, server: StubApiServer
) -> None:
    serve(server, PODS, [Json(pod_list(10, pod("a", 1), pod("b", 2)))], [frames, Frames()])
    reader, api = feed.open()
    reader.declare(scope_of("v1", "Pod"))
    api.listed(PODS)
    # The second watch is that of the second informer.
    assert frames.opened.wait(20)
    reader.declare(scope_of("v1", "Pod", field_selector="spec.nodeName=n1"))
    assert names(api.get(PODS, fieldSelector="metadata.name=a")) == ["a"]
    assert names(api.get(PODS, fieldSelector="metadata.name!=a,metadata.namespace=default")) == ["b"]
    assert names(api.get(PODS, fieldSelector="metadata.namespace=other")) == []
    events = api.watch(PODS, resourceVersion="10", fieldSelector="metadata.name=b")
    frames.send_event(event("MODIFIED", pod("a", 11)))
    frames.send_event(event("MODIFIED", pod("b", 12)))
    assert short(events.next()) == "MODIFIED b 12"
    # The API server selected these: the host asked it so.
    api.listed(PODS, fieldSelector="spec.nodeName=n1")
    assert {request.query.get("fieldSelector") for request in server.received(watch=False)} == {
        None,
        "spec.nodeName=n1",
    }
    api.get(PODS, fieldSelector="spec.nodeName=n2").fails(403, "Forbidden")


@behaviour("supervision/FD9")
def test_a_watch_in_a_namespace_gets_that_namespace_only(feed: FeedRig, frames: Frames) -> None:
    api = feed.serving()
    api.listed(PODS)
    path = "/api/v1/namespaces/other/pods"
    events = api.watch(path, resourceVersion="10")
    there = pod("c", 12)
    there["metadata"]["namespace"] = "other"
    frames.send_event(event("MODIFIED", pod("a", 11)))
    frames.send_event(event("ADDED", there))
    assert short(events.next()) == "ADDED c 12"
    assert names(api.get(path)) == ["c"]
    assert sorted(names(api.get("/api/v1/namespaces/default/pods"))) == ["a", "b"]
    assert len(feed.factory.informers()) == 1


@behaviour("supervision/FD10")
def test_metadata_and_whole_objects_come_from_two_informers(sandbox_client: Client, feed_of: Feeds) -> None:
    sandbox_client.create(config_map("a", {"key": "value"}))
    feed = feed_of(sandbox_client)
    metadata = feed.serving(kind="ConfigMap", plugin="one", namespaces=["default"], reads="metadata")
    listed = metadata.listed(CONFIGS)
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    whole = feed.serving(kind="ConfigMap", plugin="two", namespaces=["default"])
    of = {item["metadata"]["name"]: item for item in whole.listed(CONFIGS)["items"]}
    assert (of["a"]["data"], of["a"]["kind"]) == ({"key": "value"}, "ConfigMap")
    for accept in (None, "application/json", METADATA):
        items = metadata.get(CONFIGS, accept).json()["items"]
        assert {item["kind"] for item in items} == {"PartialObjectMetadata"}
        assert not any("data" in item for item in items)
    assert sorted(str(informer.scope.reads) for informer in feed.factory.informers()) == ["None", "metadata"]
    version = whole.listed(CONFIGS)["metadata"]["resourceVersion"]
    streams = [
        metadata.watch(CONFIGS, resourceVersion=version),
        whole.watch(CONFIGS, METADATA, resourceVersion=version),
    ]
    full = whole.watch(CONFIGS, resourceVersion=version)
    sandbox_client.patch("v1", "ConfigMap", "a", "default", {"data": {"key": "other"}})
    for events in streams:
        changed = events.next()["object"]
        assert (changed["kind"], changed["metadata"]["name"]) == ("PartialObjectMetadata", "a")
        assert "data" not in changed
    assert full.next()["object"]["data"] == {"key": "other"}


@behaviour("supervision/FD11")
def test_what_is_not_served_is_a_status(server: StubApiServer, feed: FeedRig) -> None:
    serve(server, "/api/v1/namespaces/default/pods", [Json(pod_list(10))], [Frames()])
    api = feed.serving(namespaces=["default"])
    api.listed("/api/v1/namespaces/default/pods")
    for path in ("/api/v1/secrets", "/apis/apps/v1/deployments", "/api/v1/namespaces/other/pods", PODS):
        api.get(path).fails(403, "Forbidden")
    assert api.watch("/api/v1/secrets").status == 403
    for verb in (api.put, api.post, api.patch):
        verb("/api/v1/namespaces/default/pods/a", {}).fails(405, "MethodNotAllowed")
    api.delete("/api/v1/namespaces/default/pods/a").fails(405, "MethodNotAllowed")
    api.delete(PODS).fails(405, "MethodNotAllowed")
    for path in ("/", "/healthz", "/api", "/api/v1", "/apis", "/api/v1/namespaces/default/pods/a", "/openapi/v3"):
        api.get(path).fails(404, "NotFound")
    api.get(PODS, "application/vnd.kubernetes.protobuf").fails(406, "NotAcceptable")


@behaviour("supervision/FD12")
def test_before_the_first_list_the_client_is_asked_to_come_back(
    server: StubApiServer, client: Client, feed_of: Feeds
) -> None:
    hang = Hang()
    serve(server, PODS, [hang], [Frames()])
    api = feed_of(client).serving()
    eventually(lambda: server.received(watch=False))
    for query in ({}, {"watch": "true", "resourceVersion": "10"}):
        answer = api.get(PODS, **query)
        answer.fails(503, "ServiceUnavailable")
        assert answer.headers["retry-after"] == "1"
    # The thread that lists ends.
    server.stopping.set()


@behaviour("supervision/FD12")
def test_a_kind_that_is_not_discovered_yet_may_come(server: StubApiServer, client: Client, feed_of: Feeds) -> None:
    server.on("GET", "/apis/example.com/v1", Failure(404, "NotFound"))
    feed = feed_of(client)
    api = feed.serving("example.com/v1", "Widget")
    api.get("/apis/example.com/v1/widgets").fails(503, "ServiceUnavailable")
    widgets = {"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": ["list", "watch"]}
    listed = {"kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": {"resourceVersion": "5"}, "items": []}
    serve(server, "/apis/example.com/v1/widgets", [Json(listed)], [Frames()])
    server.on("GET", "/apis/example.com/v1", Json({"kind": "APIResourceList", "resources": [widgets]}))
    assert api.listed("/apis/example.com/v1/widgets")["metadata"]["resourceVersion"] == "5"
    api.get("/apis/example.com/v1/gadgets").fails(403, "Forbidden")


def test_a_kind_that_the_host_may_not_list_is_refused(server: StubApiServer, client: Client, feed_of: Feeds) -> None:
    serve(server, PODS, [Failure(403, "Forbidden", "pods is forbidden to the host")], [Frames()])
    api = feed_of(client).serving()
    eventually(lambda: api.get(PODS).status == 403)
    for query in ({}, {"watch": "true", "resourceVersion": "10"}):
        answer = api.get(PODS, **query)
        answer.fails(403, "Forbidden")
        assert answer.json()["message"] == "pods is forbidden to the host"
    serve(server, PODS, [Json(pod_list(10, pod("a", 5)))], [Frames()])
    eventually(lambda: api.get(PODS).status == 200)


@behaviour("supervision/FD15")
def test_a_deletion_has_its_version_and_the_stream_ends_with_the_informer(feed: FeedRig, frames: Frames) -> None:
    api = feed.serving()
    api.listed(PODS)
    events = api.watch(PODS, resourceVersion="10")
    frames.send_event(event("DELETED", pod("a", 13)))
    assert short(events.next()) == "DELETED a 13"
    feed.factory.stop()
    assert events.rest() == []
    api.get(PODS).fails(503, "ServiceUnavailable")


def test_a_watch_without_a_version_begins_with_all_objects(feed: FeedRig, frames: Frames) -> None:
    api = feed.serving()
    api.listed(PODS)
    plain, zero = api.watch(PODS), api.watch(PODS, resourceVersion="0", labelSelector="app")
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    initial = api.watch(PODS, **options)
    assert sorted(map(short, plain.take(2))) == ["ADDED a 1", "ADDED b 2"]
    assert sorted(map(short, initial.take(2))) == ["ADDED a 1", "ADDED b 2"]
    end = initial.next()
    assert short(end) == "BOOKMARK 10"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    frames.send_event(event("ADDED", pod("c", 11, app="x")))
    for events in (plain, zero, initial):
        assert short(events.next()) == "ADDED c 11"


def test_a_watch_ends_after_its_timeout(feed: FeedRig) -> None:
    api = feed.serving()
    api.listed(PODS)
    assert api.watch(PODS, resourceVersion="10", timeoutSeconds=1).rest() == []


@behaviour("supervision/FD10")
def test_metadata_never_take_the_place_of_whole_objects(server: StubApiServer, client: Client, feed_of: Feeds) -> None:
    serve(server, PODS, [Json(pod_list(10, pod("a", 1))), Hang()], [Frames()])
    reader, api = feed_of(client).open()
    reader.declare(scope_of("v1", "Pod", reads="metadata"))
    assert api.listed(PODS)["kind"] == "PartialObjectMetadataList"
    reader.declare(scope_of("v1", "Pod"))
    # The second informer has no list yet.
    api.get(PODS).fails(503, "ServiceUnavailable")
    assert api.get(PODS, METADATA).json()["kind"] == "PartialObjectMetadataList"
    # The thread that lists ends.
    server.stopping.set()


@behaviour("supervision/FD10")
def test_an_engine_that_keeps_a_part_is_refused(feed: FeedRig) -> None:
    reader = _core.Feed(**LIMITS).open(feed.directory / "other.sock", os.geteuid())
    partial = _core.SharedInformer("pods", "v1", "Pod", reads=["spec"])
    changed = _core.SharedInformer("pods", "v1", "Pod", transform=lambda obj: obj)
    reader.declare("v1", "Pod", metadata=True).add("", partial)
    for kind, engine in ((reader.declare("v1", "Pod"), partial), (reader.declare("v1", "Pod", metadata=True), changed)):
        with pytest.raises(ValueError, match="does not keep its objects as the server sent them"):
            kind.add("", engine)


@behaviour("supervision/FD9")
def test_selected_namespaces_are_served_one_by_one(sandbox_client: Client, feed_of: Feeds) -> None:
    def create(namespace: str) -> None:
        sandbox_client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        sandbox_client.create(config_map("mine", namespace=namespace))

    create("team-a")
    feed = feed_of(sandbox_client)
    api = feed.serving(kind="ConfigMap", namespaces=["team-*"])
    path = "/api/v1/namespaces/{}/configmaps"
    assert "mine" in {item["metadata"]["name"] for item in api.listed(path.format("team-a"))["items"]}
    api.get("/api/v1/configmaps").fails(403, "Forbidden")
    # Whether a namespace is selected is known once the host has it.
    api.get(path.format("team-b")).fails(503, "ServiceUnavailable")
    create("team-b")
    eventually(lambda: (answer := api.get(path.format("team-b"))).status == 200 and "mine" in names(answer), 60)


@behaviour("supervision/FD9")
def test_a_kind_without_namespaces_has_one_list(sandbox_client: Client, feed_of: Feeds) -> None:
    api = feed_of(sandbox_client).serving(kind="Namespace", namespaces=["default"])
    assert "default" in {item["metadata"]["name"] for item in api.listed("/api/v1/namespaces")["items"]}
    assert names(api.get("/api/v1/namespaces", fieldSelector="metadata.name=default")) == ["default"]
    api.get("/api/v1/namespaces/default/namespaces").fails(403, "Forbidden")
