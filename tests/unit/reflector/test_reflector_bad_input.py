"""Invalid data from the server: logged once, counted and survived."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from ctrlhost.testing import ManualClock
from tests.support.informer_rig import Rig
from tests.support.stub_api_server import Body, Failure, Frames, Json, bookmark, event, pod, pod_list
from tests.support.waiting import eventually

FIRST = Json(pod_list(1, pod("foo", 1)))
#: The limit of the core for one object.
CAP = 16 << 20


def messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def stats(rig: Rig) -> dict[str, Any]:
    return rig.pods.parts[0].engine.stats()


LEFT_OUT = [
    pytest.param(b'{"type":"MAGIC","object":{"kind":"Pod","metadata":{"name":"x"}}}', "MAGIC", id="unknown type"),
    pytest.param(b'{"type":"ADDED"}', "metadata", id="no object"),
    pytest.param(b'{"type":"ADDED","object":null}', "metadata", id="a null object"),
    pytest.param(b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}', "metadata", id="no metadata"),
    pytest.param(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"uid":"u"}}}', "name", id="no name"),
    pytest.param(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":""}}}', "name", id="an empty name"),
    pytest.param(
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":7}}}', "name", id="a name that is no text"
    ),
    pytest.param(
        b'{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"x"}}}',
        "Service",
        id="another kind",
    ),
]


@pytest.mark.parametrize(("frame", "named"), LEFT_OUT)
def test_an_invalid_frame_is_skipped_logged_once_a_minute_and_counted(rig_with, caplog, frame, named):
    clock = ManualClock()
    rig = rig_with(clock=clock)
    frames = Frames()
    rig.serve([FIRST], [frames]).synced()
    for number in range(3):
        frames.send_bytes(frame + b"\n")
        frames.send_event(event("ADDED", pod(f"good{number}", 10 + number)))
    rig.holds(foo=1, good0=10, good1=11, good2=12)
    eventually(lambda: messages(caplog))
    assert stats(rig)["skipped"] == 3
    assert len(messages(caplog)) == 1
    assert "of Pod" in messages(caplog)[0]
    assert named in messages(caplog)[0]
    clock.advance(61)
    frames.send_bytes(frame + b"\n")
    eventually(lambda: len(messages(caplog)) == 2)
    assert (len(rig.lists), len(rig.watches)) == (1, 1)
    assert rig.errors == []


@pytest.mark.parametrize("item", [{}, {"metadata": {}}, {"metadata": {"name": ""}}])
def test_an_invalid_list_item_is_skipped_logged_and_counted(rig, caplog, item):
    listed = pod_list(3, pod("a", 1), pod("b", 2))
    listed["items"].insert(1, item)
    rig.serve([Json(listed)]).synced()
    assert rig.held() == {"a": "1", "b": "2"}
    assert stats(rig)["skipped"] == 1
    eventually(lambda: messages(caplog))
    assert len(messages(caplog)) == 1
    assert "a list item" in messages(caplog)[0]


def broken(name: str) -> bytes:
    frame = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"x","resourceVersion":"9"},"spec":'
    return {
        "a number": b"7",
        "null": b"null",
        "html": b"<html>please log in</html>",
        "not UTF-8": frame + b'"\xff\xfe"}}',
        "nesting": frame + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        "over the cap": frame + b'"' + b"x" * CAP + b'"}}',
        "no end": frame + b'"' + b"x" * (CAP + 4096),
    }[name]


@pytest.mark.parametrize("name", ["html", "not UTF-8", "nesting", "over the cap", "no end"])
def test_an_unreadable_stream_is_logged_once_counted_and_reopened(rig, caplog, name):
    def bad() -> Frames:
        frames = Frames()
        frames.send_bytes(broken(name) + (b"" if name == "no end" else b"\n"))
        return frames

    rig.serve([FIRST], [bad(), bad(), bad(), Frames(event("ADDED", pod("good", 20)))]).start()
    rig.holds(foo=1, good=20)
    assert rig.status.errors == {"DecodeError": 3}
    assert stats(rig)["decode_errors"] >= 3
    assert len(messages(caplog)) == 1, messages(caplog)
    assert messages(caplog)[0].startswith("cannot watch Pod: pods")


@pytest.mark.parametrize("name", ["html", "not UTF-8", "over the cap", "a number", "null"])
def test_an_unreadable_list_is_logged_once_counted_and_retried(rig, caplog, name):
    item = broken(name)
    page = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[' + item + b"]}"
    bad = Body(page if name != "html" else item, content_type="application/json")
    rig.serve([bad, bad, bad, FIRST]).synced()
    assert rig.held() == {"foo": "1"}
    assert rig.status.errors == {"DecodeError": 3}
    assert len(messages(caplog)) == 1, messages(caplog)


def test_frames_before_a_broken_one_are_applied_so_the_cache_never_goes_back(rig):
    story: list[tuple[str, str]] = []
    rig.pods.add_handler(
        on_add=lambda obj, _: story.append((obj.name, obj.resource_version)),
        on_update=lambda _, new: story.append((new.name, new.resource_version)),
    )
    frames = Frames()
    changes = [event("ADDED", pod("a", 5)), event("MODIFIED", pod("a", 6)), event("MODIFIED", pod("a", 7))]
    # In one chunk, so that the broken frame is found while the valid ones are pending.
    frames.send_bytes(b"".join(json.dumps(change).encode() + b"\n" for change in changes) + b"<html>\n")
    rig.serve([FIRST], [frames, Frames(event("ADDED", pod("b", 8)))]).start()
    rig.holds(foo=1, a=7, b=8)
    assert [watch.query["resourceVersion"] for watch in rig.watches] == ["1", "7"]
    eventually(lambda: story[-1] == ("b", "8"))
    versions = [int(version) for name, version in story if name == "a"]
    assert versions == sorted(versions)


def test_a_number_beyond_doubles_is_kept_unchanged(rig):
    frames = Frames()
    rig.serve([FIRST], [frames]).start()
    text = json.dumps(event("ADDED", {**pod("a", 5), "spec": {"n": "NUMBER"}})).replace('"NUMBER"', "1" + "0" * 400)
    frames.send_bytes(text.encode() + b"\n")
    rig.holds(foo=1, a=5)
    assert rig.pods.lister.get("a", "default")["spec"]["n"] == 10**400


def test_the_last_of_two_list_items_with_one_name_wins(rig):
    rig.serve([Json(pod_list(9, pod("a", 1), pod("b", 2), pod("a", 3)))]).synced()
    assert rig.held() == {"a": "3", "b": "2"}


def test_the_last_version_of_pages_that_disagree_wins(rig):
    pages = [Json(pod_list(5, pod("a", 1), continue_="x")), Json(pod_list(8, pod("b", 2)))]
    rig.serve(pages).synced()
    assert rig.held() == {"a": "1", "b": "2"}
    eventually(lambda: rig.watches)
    assert rig.watches[0].query["resourceVersion"] == "8"


def test_pages_that_disagree_about_the_kind_are_refused(rig, caplog):
    services = {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": []}
    rig.serve([Json(pod_list(5, pod("a", 1), continue_="x")), Json(services), Json(pod_list(6, pod("c", 2)))]).synced()
    assert rig.held() == {"c": "2"}
    assert rig.status.errors == {"DecodeError": 1}
    assert "ServiceList" in messages(caplog)[0]


def test_repeatedly_expiring_tokens_end_in_a_list_without_pages(rig_with):
    rig = rig_with(page_size=1)
    first, expired = Json(pod_list(5, pod("a", 1), continue_="x")), Failure(410, "Expired")
    rig.serve([first, expired, Failure(500), first, expired, Json(pod_list(7, pod("a", 1), pod("b", 2)))]).synced()
    assert rig.held() == {"a": "1", "b": "2"}
    assert "limit" not in rig.lists[-1].query


def test_older_bookmarks_are_logged_counted_and_ignored(rig, caplog):
    frames = Frames(bookmark(70), bookmark(60), bookmark(65))
    rig.serve([FIRST], [frames]).start()
    eventually(lambda: rig.status.bookmarks == 3)
    assert stats(rig)["backward_bookmarks"] == 2
    assert rig.pods.last_resource_version == "70"
    eventually(lambda: len(messages(caplog)) == 1)
    assert "bookmarks of Pod: older version" in messages(caplog)[0]


def test_a_stream_that_only_repeats_events_is_reopened_after_a_pause(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock)
    rig.serve([FIRST], [Frames(event("ADDED", pod("foo", 1))).end(), Frames()]).start()
    eventually(lambda: clock.waiters() == 1)
    assert len(rig.watches) == 1
    clock.advance(2)
    eventually(lambda: len(rig.watches) == 2)
