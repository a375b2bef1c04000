"""Decoding of list pages and watch streams, valid and malformed, through `ctrlhost.cache.SharedInformer`."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ctrlhost.cache import DecodeError, SharedInformer

RANDOM_SEEDS = range(20)


def pod(name: str, version: int = 1, namespace: str = "ns", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **fields}


def frame(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def page(*items: Any, version: str = "9", **metadata: Any) -> bytes:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version, **metadata}}
    return json.dumps(body | {"items": list(items)}).encode()


def typed(obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", **obj}


def content(informer: SharedInformer) -> dict[str, Any]:
    informer.process()
    return {obj.key: obj.to_dict() for obj in informer.indexer.list()}


def cut(rng: random.Random, body: bytes) -> list[bytes]:
    places = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randrange(1, 40)))
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_pages_may_be_cut_anywhere(informer: SharedInformer, seed: int) -> None:
    rng = random.Random(seed)
    items = [pod(f"p{i}", i, text='"{[\\ üñ✓\n' * rng.randrange(4), list=[i, {"metadata": 1}]) for i in range(20)]
    informer.begin_list()
    for half in (items[:10], items[10:]):
        for piece in cut(rng, page(*half, remainingItemCount=10, **{"continue": "more"})):
            informer.feed_list(piece)
        meta = informer.end_page()
        assert (meta.count, meta.remaining_item_count, meta.continue_) == (10, 10, "more")
    informer.replace(meta.resource_version)
    assert content(informer) == {f"ns/p{i}": typed(items[i]) for i in range(20)}


def test_pages_may_arrive_byte_by_byte(informer: SharedInformer) -> None:
    informer.begin_list()
    body = page(pod("a", text='é\\u00e9\\"x'), pod("b", number=-1.5e-3, truth=True, nothing=None))
    for index in range(len(body)):
        informer.feed_list(body[index : index + 1])
    assert informer.end_page().count == 2
    informer.replace("9")
    assert set(content(informer)) == {"ns/a", "ns/b"}


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_watch_streams_may_be_cut_anywhere(informer: SharedInformer, seed: int) -> None:
    rng = random.Random(seed)
    expected: dict[str, Any] = {}
    body = b""
    for version in range(1, 60):
        name = f"p{rng.randrange(8)}"
        key = f"ns/{name}"
        obj = typed(pod(name, version, text="✓" * rng.randrange(20)))
        if key in expected and rng.random() < 0.3:
            body += frame("DELETED", obj)
            del expected[key]
        else:
            body += frame("MODIFIED" if key in expected else "ADDED", obj)
            expected[key] = obj
    events = 0
    for piece in cut(rng, body):
        events += informer.feed_watch(piece).events
        if rng.random() < 0.5:
            informer.process()
    informer.end_watch()
    assert events == 59
    assert content(informer) == expected
    assert informer.last_resource_version == "59"


def test_list_metadata_may_follow_the_items(informer: SharedInformer) -> None:
    informer.begin_list()
    informer.feed_list(
        b' {"items" : [ {"metadata":{"name":"a"}} ,\n {"metadata":{"name":"b"}}\t] ,"metadata":{"resourceVersion":"5"},'
    )
    informer.feed_list(b'"kind":"PodList"}\n')
    meta = informer.end_page()
    assert (meta.resource_version, meta.continue_, meta.remaining_item_count, meta.count) == ("5", "", None, 2)


@pytest.mark.parametrize("body", [b'{"metadata":{},"items":null}', b'{"items":[]}', b'{"kind":"List","items":[]}'])
def test_a_list_may_be_empty(informer: SharedInformer, body: bytes) -> None:
    informer.begin_list()
    informer.feed_list(body)
    assert informer.end_page().count == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "unexpected end of the page"),
        (b"<!DOCTYPE html><html>proxy says no</html>", "expected `{`"),
        (b"[1]", "expected `{`"),
        (b'{"kind":"PodList","items":[{"metadata":{"name":"a"}}', "unexpected end of the page"),
        (b'{"kind":"PodList","items":[{"metadata":{"name":"a"', "unexpected end of the page"),
        (b'{"kind":"PodList","items":{}}', "`items` is not a list"),
        (b'{"kind":"PodList","items":[7]}', "an item is not an object"),
        (b'{"kind":"PodList","items":[{"a":1},]}', "an item is not an object"),
        (b'{"kind":"PodList","items":[{"a":1}{"b":1}]}', "punctuation"),
        (b'{"kind":"PodList","items":[{"a":tru}]}', "expected a value"),
        (b'{"kind":"PodList","items":[{"a":"\xff"}]}', "not UTF-8"),
        (b'{"kind":"PodList","items":[]} {"kind":"PodList"}', "unexpected data after"),
        (b'{"kind":"PodList","items":[{"a":' + b"[" * 100_000, "nested too deep"),
        (b'{"kind":"PodList","other":' + b"[" * 100_000, "nested too deep"),
        (b'{"' + b"k" * 10_000, "key too long"),
        (b'{"kind":"Table","rows":[]}', "expected a list, got a Table"),
        (b'{"kind":"ServiceList","items":[]}', "expected a list, got a ServiceList"),
        (b"\x1f\x8b\x08\x00gzip", "expected `{`"),
        (b"{}", "the body has no items"),
        (b'{"kind":"PodList","metadata":{"resourceVersion":"5"}}', "the body has no items"),
    ],
)
def test_a_malformed_page_is_an_error_with_its_position(informer: SharedInformer, body: bytes, message: str) -> None:
    informer.begin_list()

    def read() -> None:
        informer.feed_list(body)
        informer.end_page()

    with pytest.raises(DecodeError, match=message) as caught:
        read()
    error = caught.value
    assert error.resource == "pods"
    assert str(error).startswith(f"pods: byte {error.offset}: ")
    assert error.first_bytes == body[:64]
    assert 0 <= error.offset <= len(body)
    informer.abort_list()
    assert content(informer) == {}
    assert informer.stats()["decode_errors"] == 1
    informer.begin_list()
    informer.feed_list(page(pod("a")))
    informer.end_page()
    informer.replace("9")
    assert set(content(informer)) == {"ns/a"}


@pytest.mark.parametrize("list_kind", ["GreetingList", "Greetings", "GreetingCollection"])
def test_a_custom_resource_may_have_any_list_kind(list_kind: str) -> None:
    informer = SharedInformer("greetings", "example.org/v1", "Greeting")
    informer.begin_list()
    informer.feed_list(json.dumps({"kind": list_kind, "items": [{"metadata": {"name": "a"}}]}).encode())
    assert informer.end_page().count == 1
    informer.feed_list(b'{"kind":"Table","items":[]}')
    with pytest.raises(DecodeError, match="Table"):
        informer.end_page()


def test_a_status_instead_of_a_list_is_part_of_the_error(informer: SharedInformer) -> None:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": 410,
        "reason": "Expired",
    }
    informer.begin_list()
    informer.feed_list(json.dumps(status).encode())
    with pytest.raises(DecodeError, match="Status") as caught:
        informer.end_page()
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>\n", "expected a value"),
        (b'{"type":"ADDED","object":{"metadata":{"name":"a"}}\n', "unexpected end of the frame"),
        (b'{"type":"ADDED","object":{"metadata":{"name":"\xfe"}}}\n', "not UTF-8"),
        (b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n", "nested too deep"),
        (b'{"type":7,"object":{}}\n', "not a watch frame"),
        (b'{"object":{}}\n', "not a watch frame"),
        (b"7\n", "unexpected end of the frame|not a watch frame"),
        (b'"text"\n', "not a watch frame"),
        (b"[]\n", "not a watch frame"),
    ],
)
def test_a_malformed_frame_is_an_error_and_earlier_frames_are_applied(
    informer: SharedInformer, body: bytes, message: str
) -> None:
    good = frame("ADDED", typed(pod("good", 5)))
    with pytest.raises(DecodeError, match=message) as caught:
        informer.feed_watch(good + body)
    assert caught.value.first_bytes.rstrip() == body[:64].rstrip()
    assert len(good) <= caught.value.offset <= len(good) + len(body)
    assert set(content(informer)) == {"ns/good"}
    assert informer.last_resource_version == "5"


def test_data_after_a_frame_is_a_separate_error(informer: SharedInformer) -> None:
    with pytest.raises(DecodeError, match="expected a value") as caught:
        informer.feed_watch(frame("ADDED", typed(pod("a", 5))).rstrip() + b"}\n")
    assert caught.value.first_bytes == b"}\n"
    assert set(content(informer)) == {"ns/a"}


def test_a_stream_cut_in_a_frame_keeps_no_partial_object(informer: SharedInformer) -> None:
    whole = frame("ADDED", typed(pod("a", 5)))
    half = frame("ADDED", typed(pod("b", 6)))[:-20]
    informer.feed_watch(whole + half)
    with pytest.raises(DecodeError, match="unexpected end"):
        informer.end_watch()
    assert set(content(informer)) == {"ns/a"}
    informer.feed_watch(frame("ADDED", typed(pod("c", 7))))
    assert set(content(informer)) == {"ns/a", "ns/c"}


def test_a_last_frame_without_a_line_end_is_applied(informer: SharedInformer) -> None:
    informer.feed_watch(frame("ADDED", typed(pod("a", 5)))[:-1])
    assert informer.end_watch().events == 1
    assert set(content(informer)) == {"ns/a"}


def test_empty_lines_and_several_frames_per_line_are_accepted(informer: SharedInformer) -> None:
    first, second = frame("ADDED", typed(pod("a", 5))), frame("ADDED", typed(pod("b", 6)))
    progress = informer.feed_watch(b"\n\r\n" + first.rstrip() + b" " + second + b"\n")
    assert progress.events == 2
    assert set(content(informer)) == {"ns/a", "ns/b"}


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        ({}, "metadata.name"),
        (None, "metadata.name"),
        ([], "metadata.name"),
        (7, "metadata.name"),
        ({"metadata": None}, "metadata.name"),
        ({"metadata": {"namespace": "ns"}}, "metadata.name"),
        ({"metadata": {"name": ["a"]}}, "metadata.name"),
        ({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}}, "Service"),
        ({"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "a"}}, "v2"),
    ],
)
def test_an_invalid_object_is_skipped_counted_and_named(informer: SharedInformer, obj: Any, why: str) -> None:
    progress = informer.feed_watch(frame("ADDED", obj) + frame("ADDED", typed(pod("good", 5))))
    assert progress.events == 1
    assert set(content(informer)) == {"ns/good"}
    stats = informer.stats()
    assert stats["skipped"] == 1
    assert why in stats["last_skip"]


def test_an_unknown_type_of_frame_is_skipped(informer: SharedInformer) -> None:
    informer.feed_watch(frame("RENAMED", typed(pod("a"))) + frame("ADDED", typed(pod("b"))))
    assert set(content(informer)) == {"ns/b"}
    assert "RENAMED" in informer.stats()["last_skip"]


def test_the_last_of_duplicate_members_wins(informer: SharedInformer) -> None:
    raw = (
        b'{"type":"DELETED","type":"ADDED","object":{"metadata":{"name":"old"}},'
        b'"object":{"metadata":{"name":"x","name":"a","resourceVersion":"1"},"kind":"Pod","spec":1,"spec":2}}\n'
    )
    informer.feed_watch(raw)
    assert content(informer) == {
        "a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "1"}, "spec": 2}
    }


def test_an_error_frame_ends_the_stream(informer: SharedInformer) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    progress = informer.feed_watch(
        frame("ADDED", typed(pod("a", 5))) + frame("ERROR", status) + frame("ADDED", typed(pod("b", 6)))
    )
    assert progress.error == status
    assert progress.events == 1
    assert set(content(informer)) == {"ns/a"}
    assert informer.last_resource_version == "5"


def test_bookmarks_move_the_version_forward_only(informer: SharedInformer) -> None:
    def bookmark(version: str, **metadata: Any) -> bytes:
        return frame(
            "BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version, **metadata}}
        )

    assert informer.feed_watch(bookmark("10")).resource_version == "10"
    assert informer.feed_watch(bookmark("9")).resource_version == "10"
    assert informer.feed_watch(bookmark("")).resource_version == "10"
    assert informer.feed_watch(bookmark("100")).resource_version == "100"
    assert informer.stats()["backward_bookmarks"] == 1
    end = bookmark("101", annotations={"k8s.io/initial-events-end": "true"})
    progress = informer.feed_watch(end)
    assert progress.initial_events_end
    assert progress.bookmarks == 1
    assert informer.feed_watch(bookmark("opaque")).resource_version == "opaque"


def test_changes_in_one_chunk_with_the_end_of_a_streaming_list_move_the_version(
    informer: SharedInformer,
) -> None:
    annotations = {"k8s.io/initial-events-end": "true"}
    end = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "10", "annotations": annotations}}
    informer.begin_list()
    changed = frame("MODIFIED", typed(pod("a", 11))) + frame("DELETED", typed(pod("b", 12)))
    progress = informer.feed_watch(
        frame("ADDED", typed(pod("a", 4))) + frame("ADDED", typed(pod("b", 3))) + frame("BOOKMARK", end) + changed
    )
    assert progress.initial_events_end
    assert progress.resource_version == "12"
    informer.replace(progress.resource_version)
    informer.process()
    assert set(content(informer)) == {"ns/a"}
    assert informer.last_resource_version == "12"


def test_an_object_over_the_cap_is_an_error_before_it_is_complete() -> None:
    informer = SharedInformer("pods", "v1", "Pod", max_object_bytes=10_000)
    fits = typed(pod("a", text="x" * 9_000))
    informer.feed_watch(frame("ADDED", fits))
    assert set(content(informer)) == {"ns/a"}
    with pytest.raises(DecodeError, match="larger than 10000 bytes"):
        informer.feed_watch(b'{"type":"ADDED","object":{"metadata":{"name":"b"},"text":"' + b"x" * 12_000)
    informer.begin_list()
    with pytest.raises(DecodeError, match="larger than 10000 bytes"):
        informer.feed_list(b'{"items":[{"metadata":{"name":"b"},"text":"' + b"x" * 12_000)
    informer.begin_list()
    with pytest.raises(DecodeError, match="larger than 10000 bytes"):
        informer.feed_list(page(pod("b", text="x" * 12_000)))
    assert set(content(informer)) == {"ns/a"}


def test_an_oversized_body_next_to_the_items_is_an_error() -> None:
    informer = SharedInformer("pods", "v1", "Pod", max_object_bytes=10_000)
    informer.begin_list()
    informer.feed_list(b"{")

    def feed() -> None:
        for number in range(100_000):
            informer.feed_list(b'"member%d":"xxxxxxxxxxxxxxxx",' % number)

    with pytest.raises(DecodeError, match="larger"):
        feed()


def test_unusual_values_are_decoded(informer: SharedInformer) -> None:
    values = rb'"n":1e400,"s":"\ud800","i":123456789012345678901234567890'
    informer.feed_watch(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"},' + values + b"}}\n")
    (obj,) = content(informer).values()
    assert obj["n"] == float("inf")
    assert obj["s"] == "\ufffd"
    assert obj["i"] == 123456789012345678901234567890


def test_items_get_the_kind_that_the_list_omits(informer: SharedInformer) -> None:
    informer.begin_list()
    informer.feed_list(page(pod("a"), {"kind": "", "apiVersion": "", "metadata": {"name": "b"}}))
    informer.end_page()
    informer.replace("9")
    objects = content(informer)
    assert objects["ns/a"] == typed(pod("a"))
    assert objects["b"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}


def test_metadata_only_reads_keep_the_metadata_of_any_object() -> None:
    informer = SharedInformer("pods", "v1", "Pod", reads="metadata")
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}
    informer.feed_watch(frame("ADDED", partial) + frame("ADDED", typed(pod("b", spec={"x": 1}))))
    informer.begin_list()
    informer.feed_list(b'{"kind":"PartialObjectMetadataList","items":[' + json.dumps(partial).encode() + b"]}")
    assert informer.end_page().count == 1
    informer.abort_list()
    informer.process()
    objects = {obj.key: dict(obj) for obj in informer.indexer.list()}
    assert objects == {
        "a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        "ns/b": {"apiVersion": "v1", "kind": "Pod", "metadata": pod("b")["metadata"]},
    }
    assert all(obj.partial and obj.kind == "Pod" for obj in informer.indexer.list())
