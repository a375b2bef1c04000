"""Watches."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox
from urllib3.exceptions import HTTPError

from sandbox.tests.conftest import Crd
from tests.support.http_client import TABLE, Api
from tests.support.objects import config_map, core

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def version(event: dict[str, Any]) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])


@pytest.mark.behaviour("sandbox/WA-01")
@pytest.mark.behaviour("sandbox/WA-03")
def test_changes_arrive_in_order(api: Api, ns: str, widgets: Crd) -> None:
    watch = api.watch(widgets.path(ns), resourceVersion=api.revision(widgets.path(ns)))
    assert (watch.status, watch.headers["content-type"]) == (200, "application/json")
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    api.patch(widgets.path(ns, "a"), {"spec": {"size": 2}}).expect(200)
    api.delete(widgets.path(ns, "a")).expect(200)
    events = watch.take(3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [version(event) for event in events]
    assert versions == sorted(set(versions))


@pytest.mark.behaviour("sandbox/WA-02")
@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_without_a_version_a_watch_starts_with_the_current_objects(
    api: Api, ns: str, widgets: Crd, query: dict[str, str]
) -> None:
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    watch = api.watch(widgets.path(ns), **query)
    assert watch.next()["type"] == "ADDED"
    api.patch(widgets.path(ns, "a"), {"spec": {"size": 2}}).expect(200)
    assert watch.next()["type"] == "MODIFIED"


@pytest.mark.behaviour("sandbox/WA-04")
def test_a_watch_ends_when_its_time_is_up(api: Api, ns: str) -> None:
    began = time.monotonic()
    assert api.watch(core(ns, "secrets"), timeoutSeconds=2).rest() == []
    assert time.monotonic() - began >= 2


@pytest.mark.behaviour("sandbox/WA-05")
def test_an_expired_version_is_an_error_event(api: Api, ns: str, widgets: Crd) -> None:
    watch = api.watch(widgets.path(ns), resourceVersion=1)
    assert watch.status == 200
    (event,) = watch.rest()
    assert (event["type"], event["object"]["kind"]) == ("ERROR", "Status")
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


@pytest.mark.behaviour("sandbox/WA-06")
def test_objects_enter_and_leave_a_selector(api: Api, ns: str, widgets: Crd) -> None:
    path = widgets.path(ns, "a")
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    watch = api.watch(widgets.path(ns), labelSelector="k=v")
    api.patch(path, {"metadata": {"labels": {"k": "v"}}}).expect(200)
    api.patch(path, {"spec": {"size": 2}}).expect(200)
    last = api.patch(path, {"metadata": {"labels": None}}).expect(200)
    events = watch.take(3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"k": "v"}
    assert version(events[2]) == int(last["metadata"]["resourceVersion"])


@pytest.mark.behaviour("sandbox/WA-07")
def test_a_deletion_is_not_seen_twice(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    watch = api.watch(widgets.path(ns))
    api.patch(widgets.path(ns, "a"), {"spec": {"size": 2}}).expect(200)
    api.delete(widgets.path(ns, "a")).expect(200)
    _, modified, deleted = watch.take(3)
    assert version(deleted) > version(modified)
    assert api.watch(widgets.path(ns), resourceVersion=version(deleted), timeoutSeconds=1).rest() == []


@pytest.mark.behaviour("sandbox/WA-08")
def test_a_watch_resumes_from_its_version(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    path = widgets.path(ns, "a")
    versions = [api.patch(path, {"spec": {"size": n}}).expect(200)["metadata"]["resourceVersion"] for n in range(3)]
    watch = api.watch(widgets.path(ns), resourceVersion=versions[1])
    later = api.post(widgets.path(ns), widgets.obj("b")).expect(201)
    resource_versions = [event["object"]["metadata"]["resourceVersion"] for event in watch.take(2)]
    assert resource_versions == [versions[2], later["metadata"]["resourceVersion"]]


@pytest.mark.behaviour("sandbox/WA-09")
def test_a_watch_of_one_namespace_or_of_all(api: Api, ns: str, widgets: Crd) -> None:
    narrow, both = api.watch(widgets.path(ns)), api.watch(f"/apis/{widgets.group}/v1/widgets")
    for namespace, name in (("default", "x"), (ns, "y")):
        api.post(widgets.path(namespace), widgets.obj(name)).expect(201)
    assert narrow.next()["object"]["metadata"]["name"] == "y"
    assert [event["object"]["metadata"]["name"] for event in both.take(2)] == ["x", "y"]


@pytest.mark.behaviour("sandbox/WA-10")
def test_a_watch_of_one_name(api: Api, ns: str) -> None:
    watch = api.watch(core(ns, "configmaps"), fieldSelector="metadata.name=a")
    for name in "ba":
        api.post(core(ns, "configmaps"), config_map(name)).expect(201)
    assert watch.next()["object"]["metadata"]["name"] == "a"


@pytest.mark.behaviour("sandbox/WA-11")
def test_removing_the_last_finalizer_sends_one_deletion(api: Api, ns: str, widgets: Crd) -> None:
    body = {**widgets.obj(), "metadata": {"name": "a", "finalizers": ["t.example.org/f"]}}
    api.post(widgets.path(ns), body).expect(201)
    watch = api.watch(widgets.path(ns))
    api.delete(widgets.path(ns, "a")).expect(200)
    api.patch(widgets.path(ns, "a"), {"metadata": {"finalizers": None}}).expect(200)
    api.post(widgets.path(ns), widgets.obj("b")).expect(201)
    _, going, gone, after = watch.take(4)
    assert going["type"] == "MODIFIED"
    assert "deletionTimestamp" in going["object"]["metadata"]
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["finalizers"] == ["t.example.org/f"]
    assert after["object"]["metadata"]["name"] == "b"


@pytest.mark.behaviour("sandbox/WA-12")
@pytest.mark.behaviour("sandbox/WA-27")
def test_unchanged_objects_and_dry_runs_send_no_events(api: Api, ns: str, widgets: Crd) -> None:
    obj = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    watch = api.watch(widgets.path(ns), resourceVersion=obj["metadata"]["resourceVersion"])
    path = widgets.path(ns, "a")
    api.put(path, obj).expect(200)
    api.put(path, {**obj, "spec": {"size": 6}}, dryRun="All").expect(200)
    api.patch(path, {"spec": {"size": 7}}, dryRun="All").expect(200)
    api.apply(path, widgets.obj(color="red"), "m", dryRun="All").expect(200)
    api.put(f"{path}/status", {**obj, "status": {"x": 1}}, dryRun="All").expect(200)
    api.post(widgets.path(ns), widgets.obj("b"), dryRun="All").expect(201)
    api.delete(path, dryRun="All").expect(200)
    api.delete(widgets.path(ns), dryRun="All").expect(200)
    api.patch(path, {"spec": {"size": 2}}).expect(200)
    event = watch.next()
    assert (event["type"], event["object"]["spec"]["size"]) == ("MODIFIED", 2)


@pytest.mark.behaviour("sandbox/WA-13")
def test_a_status_write_is_seen_without_a_new_generation(api: Api, ns: str, widgets: Crd) -> None:
    old = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    watch = api.watch(widgets.path(ns))
    api.put(widgets.path(ns, "a") + "/status", {**old, "status": {"x": 1}}).expect(200)
    before, after = watch.take(2)
    assert (after["type"], after["object"]["status"]) == ("MODIFIED", {"x": 1})
    assert after["object"]["metadata"]["generation"] == before["object"]["metadata"]["generation"]


@pytest.mark.behaviour("sandbox/WA-14")
def test_bookmarks_are_sent_on_request(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    start = api.revision(widgets.path(ns))
    watch = api.watch(widgets.path(ns), allowWatchBookmarks="true", timeoutSeconds=2, resourceVersion=start)
    events = watch.rest()
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert {event["object"]["kind"] for event in events} == {"Widget"}
    assert all(version(event) >= int(start) for event in events)


@pytest.mark.behaviour("sandbox/WA-15")
def test_no_bookmarks_are_sent_without_a_request(api: Api, ns: str, server: Sandbox) -> None:
    watch = api.watch(core(ns, "secrets"), timeoutSeconds=2)
    server.send_bookmarks()
    assert watch.rest() == []


@pytest.mark.behaviour("sandbox/WA-16")
def test_a_streaming_list(api: Api, ns: str, widgets: Crd) -> None:
    for name in "abc":
        api.post(widgets.path(ns), widgets.obj(name)).expect(201)
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = api.watch(widgets.path(ns), **query)
    *added, bookmark = watch.take(4)
    assert [event["type"] for event in added] == ["ADDED"] * 3
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    later = api.post(widgets.path(ns), widgets.obj("d")).expect(201)
    assert watch.next()["object"] == later


@pytest.mark.behaviour("sandbox/WA-17")
@pytest.mark.behaviour("sandbox/WA-19")
@pytest.mark.parametrize(
    "query", [{"sendInitialEvents": "true"}, {"resourceVersionMatch": "NotOlderThan"}, {"resourceVersion": "abc"}]
)
def test_invalid_watch_options_are_refused(api: Api, ns: str, query: dict[str, str]) -> None:
    api.get(core(ns, "configmaps"), watch="true", **query).fails(422, "Invalid")


@pytest.mark.behaviour("sandbox/WA-18")
def test_a_namespace_may_be_watched_before_it_exists(api: Api, ns: str) -> None:
    name = f"{ns}-later"
    watch = api.watch(core(name, "configmaps"), fieldSelector="metadata.name!=kube-root-ca.crt")
    assert watch.status == 200
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    created = api.post(core(name, "configmaps"), config_map()).expect(201)
    assert watch.next() == {"type": "ADDED", "object": created}


@pytest.mark.behaviour("sandbox/WA-20")
def test_a_watch_of_tables(api: Api, ns: str, widgets: Crd) -> None:
    watch = api.watch(widgets.path(ns), TABLE)
    for name in "ab":
        api.post(widgets.path(ns), widgets.obj(name)).expect(201)
    first, second = (event["object"] for event in watch.take(2))
    assert {first["kind"], second["kind"]} == {"Table"}
    assert (len(first["rows"]), len(second["rows"])) == (1, 1)
    assert first["columnDefinitions"]
    assert not second["columnDefinitions"]


@pytest.mark.behaviour("sandbox/WA-21")
def test_a_watch_of_metadata(api: Api, ns: str) -> None:
    watch = api.watch(core(ns, "configmaps"), PARTIAL)
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    event = watch.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]


@pytest.mark.behaviour("sandbox/WA-22")
def test_two_watchers_see_the_same(api: Api, ns: str) -> None:
    watches = [api.watch(core(ns, "secrets")) for _ in range(2)]

    def write(start: int) -> None:
        for number in range(start, start + 10):
            api.post(core(ns, "secrets"), {"metadata": {"name": f"s{number}"}}).expect(201)

    threads = [threading.Thread(target=write, args=(10 * n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = (watch.take(50) for watch in watches)
    assert first == second


@pytest.mark.behaviour("sandbox/WA-23")
def test_a_watch_ends_with_its_crd(api: Api, ns: str, widgets: Crd) -> None:
    for name in "ab":
        api.post(widgets.path(ns), widgets.obj(name)).expect(201)
    watch = api.watch(widgets.path(ns), resourceVersion=api.revision(widgets.path(ns)))
    api.delete(widgets.url).expect(200)
    events = watch.rest()
    steps = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
    assert sorted(steps) == [("DELETED", "a"), ("DELETED", "b")]


@pytest.mark.behaviour("sandbox/WA-24")
def test_a_watcher_that_does_not_read_blocks_no_other(api: Api, ns: str, server: Sandbox) -> None:
    with Api(server.url, server.ca, server.token) as lazy:
        unread = lazy.watch(core(ns, "configmaps"))
        reader = api.watch(core(ns, "configmaps"), timeoutSeconds=60)
        api.post(core(ns, "configmaps"), config_map()).expect(201)
        text = "x" * 40_000
        seen: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: seen.extend(reader.take(501)))
        thread.start()
        for number in range(500):
            api.patch(core(ns, "configmaps", "a"), {"data": {"k": f"{number}{text}"}}).expect(200)
        thread.join(30)
        assert len(seen) == 501
        # The server has closed its connection: what was sent before is in order.
        behind: list[dict[str, Any]] = []
        with pytest.raises(HTTPError):
            behind.extend(iter(unread.next, None))
        assert len(behind) < 501
        assert behind == seen[: len(behind)]


@pytest.mark.behaviour("sandbox/WA-25")
def test_a_name_in_the_path_is_read_and_not_watched(api: Api, ns: str, widgets: Crd) -> None:
    created = api.post(widgets.path(ns), widgets.obj()).expect(201)
    assert api.get(widgets.path(ns, "a"), watch="true").expect(200) == created


@pytest.mark.behaviour("sandbox/WA-26")
def test_compacted_history_is_expired(api: Api, ns: str, widgets: Crd) -> None:
    for name in "abc":
        api.post(widgets.path(ns), widgets.obj(name)).expect(201)
    page = api.get(widgets.path(ns), limit=1).expect(200)
    old, token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
    api.patch(widgets.path(ns, "a"), {"spec": {"size": 2}}).expect(200)
    api.post("/sandbox/v1/compact", {}).expect(200)
    (event,) = api.watch(widgets.path(ns), resourceVersion=old).rest()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    status = api.get(widgets.path(ns), **{"limit": 1, "continue": token}).fails(410, "Expired")
    fresh = api.get(widgets.path(ns), **{"limit": 9, "continue": status["metadata"]["continue"]}).expect(200)
    assert [item["metadata"]["name"] for item in fresh["items"]] == ["b", "c"]
    api.get(widgets.path(ns), resourceVersion=old, resourceVersionMatch="Exact").fails(410, "Expired")
