"""Objects that are compressed in the cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ctrlhost import _core
from ctrlhost.cache import Predicate, SharedInformer
from ctrlhost.errors import CtrlhostError
from ctrlhost.selectors import labels as selectors
from ctrlhost.workqueue import WorkQueue
from tests.support.waiting import eventually
from tests.unit.compressed import compressed, event, key_of, listed, random_map, varied_pod, varied_texts

behaviour = pytest.mark.behaviour

LARGE = 100
"""Variables of a pod of more than 5 KB."""


@pytest.fixture(scope="module")
def many() -> SharedInformer:
    """An informer of 300 compressed pods."""
    return compressed(listed(map(varied_pod, range(300))), 300)


def pod_in(informer: SharedInformer, pod: dict[str, Any]) -> Any:
    return informer.indexer.get_by_key(key_of(pod))


def decompressions(informer: SharedInformer) -> int:
    return informer.stats()["decompressions"]


@behaviour("scale/SC84")
def test_annotations_and_finalizers_that_are_not_there_are_known_without_decompressing(many):
    pod = varied_pod(7)
    before = decompressions(many)
    inflated = pod_in(many, pod)
    assert (dict(inflated.annotations), inflated.finalizers) == ({}, ())
    assert inflated.get_path("metadata", "annotations") is None
    assert decompressions(many) == before
    pod["metadata"] |= {"annotations": {"a": "b"}, "finalizers": ["f/g"], "resourceVersion": "2000000"}
    event(many, "MODIFIED", pod)
    inflated = pod_in(many, pod)
    assert (dict(inflated.annotations), inflated.finalizers) == ({"a": "b"}, ("f/g",))
    assert decompressions(many) == before + 1


@behaviour("scale/SC86")
def test_a_large_cache_is_compressed_by_itself():
    count = 100_000
    informer = listed(varied_texts(count), "auto")
    compressed(informer, count * 95 // 100 + 1)
    stats = informer.stats()
    # The plain ones are few enough to change nothing.
    assert stats["memory"]["body"] <= 0.25 * stats["plain_bytes"]
    assert stats["plain_bytes"] >= 1_000 * count
    assert stats["bytes"] < 0.6 * stats["plain_bytes"]


@behaviour("scale/SC87")
def test_compression_changes_no_call_and_no_state():
    pods = [varied_pod(number, env=50) for number in range(1_500)]
    frames = []
    for number in range(10_000):
        pod = {**pods[number * 7919 % 1_500], "status": {"phase": f"Phase{number % 7}"}}
        version = {"resourceVersion": str(2_000_000 + number), "annotations": {"n": str(number % 3)}}
        pod["metadata"] = {**pod["metadata"], **version}
        kind = "DELETED" if number % 50 == 49 else "MODIFIED"
        frames.append(json.dumps({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **pod}}).encode() + b"\n")

    def run(compression: str) -> tuple[Any, ...]:
        informer = SharedInformer("pods", "v1", "Pod", compression=compression)
        listener, calls = informer.add_listener(every_change=True), []
        informer.enqueue_to(queue := WorkQueue(), "object", predicates=[Predicate.annotations_changed()])
        listed(pods, informer=informer)
        if compression != "off":
            compressed(informer, 1_500)
        for at in range(0, len(frames), 100):
            for frame in frames[at : at + 100]:
                informer.feed_watch(frame)
                informer.process()
            for kind, old, new, initial in listener.next(0.0, 20_000):
                states = [obj and (obj.key, obj.resource_version, obj.to_json()) for obj in (old, new)]
                calls.append((kind, *states, initial))
        keys = [queue.get(timeout=0) for _ in range(len(queue))]
        held = {obj.key: (obj.resource_version, obj.to_dict()) for obj in informer.indexer.list()}
        assert (informer.stats()["compressed_objects"] == len(held)) is (compression != "off")
        return calls, keys, held, informer.last_resource_version

    plain = run("off")
    # A few deletions are of what is gone already.
    assert len(plain[0]) > 11_000
    assert len(plain[1]) == 1_500
    for compression in ("auto", "on"):
        for what, expected in zip(run(compression), plain, strict=True):
            assert what == expected


@behaviour("scale/SC88")
def test_auto_compresses_many_large_objects_and_on_compresses_fewer():
    def settled(informer: SharedInformer) -> int:
        """Return the number of compressed objects once a dictionary that is being learnt is there."""
        stats = informer.stats()
        if stats["objects"] > 1_000 and stats["plain_bytes"] > 4 << 20:
            compressed(informer, 1)
        return informer.stats()["compressed_objects"]

    large = [varied_pod(number, env=LARGE) for number in range(1_001)]
    tiny = [{"metadata": {"name": f"t{number}", "resourceVersion": "1"}} for number in range(2_000)]
    huge = varied_pod(5_000, env=40_000)
    assert 5_000 <= len(json.dumps(large[0])) <= 8_000
    assert len(json.dumps(tiny[0])) <= 100
    assert len(json.dumps(huge)) > 2 << 20
    assert settled(listed(large[:999], "auto")) == 0
    assert settled(listed(tiny, "auto")) == 0
    assert settled(listed([huge], "auto")) == 0
    compressed(listed(large, "auto"), 1_001)
    compressed(listed(large[:999], "on"), 999)
    # Too small, and too few to learn from: plain even so.
    assert listed(tiny, "on").stats()["dictionaries_learnt"] == 0
    assert listed([huge], "on").stats()["dictionaries_learnt"] == 0
    with_huge = compressed(listed([*large[:999], huge], "on"), 999)
    assert with_huge.stats()["compressed_objects"] == 999
    # One more by an event is enough.
    grown = listed(large[:1_000], "auto")
    assert grown.stats()["dictionaries_learnt"] == 0
    event(grown, "ADDED", large[1_000])
    compressed(grown, 1_001)


@behaviour("scale/SC89")
@pytest.mark.parametrize("compression", ["auto", "on"])
def test_random_content_stays_plain(compression):
    noise = [random_map(number) for number in range(1_100)]
    informer = listed(noise, compression, kind="ConfigMap")
    eventually(lambda: informer.stats()["compression_given_up"] == 1)
    stats = informer.stats()
    assert (stats["compressed_objects"], stats["dictionaries_learnt"], stats["memory"]["dictionary"]) == (0, 0, 0)
    # For good: neither a further event nor a further list begins again.
    for obj in noise:
        obj["metadata"]["resourceVersion"] = "5000"
    listed(noise, informer=informer, kind="ConfigMap")
    event(informer, "MODIFIED", {**noise[0], "metadata": {"name": "map-0", "resourceVersion": "5001"}}, "ConfigMap")
    assert informer.stats()["compressed_objects"] == 0
    assert informer.stats()["compression_given_up"] == 1


@behaviour("scale/SC90")
@pytest.mark.parametrize("compression", ["auto", "on"])
def test_secrets_are_never_compressed(compression):
    secrets = [{**varied_pod(number, env=LARGE), "type": "Opaque"} for number in range(1_500)]
    informer = listed(secrets, compression, kind="Secret")
    # The same objects of another kind are.
    compressed(listed(secrets, compression), 1_500)
    stats = informer.stats()
    assert (stats["compressed_objects"], stats["dictionaries_learnt"], stats["memory"]["dictionary"]) == (0, 0, 0)
    assert stats["memory"]["body"] >= stats["plain_bytes"]


@behaviour("scale/SC95")
def test_what_is_read_of_every_object_needs_no_decompression():
    pods = [varied_pod(number) for number in range(10_000)]
    informer = SharedInformer("pods", "v1", "Pod", compression="on")
    indexer = informer.indexer
    indexer.add_indexers({"node": "spec.nodeName"})
    compressed(listed(pods, informer=informer), 10_000)
    before = decompressions(informer)
    for pod in pods:
        meta, inflated = pod["metadata"], pod_in(informer, pod)
        assert (inflated.name, inflated.namespace, inflated.uid) == (meta["name"], meta["namespace"], meta["uid"])
        assert (inflated.resource_version, inflated.generation) == (meta["resourceVersion"], 0)
        assert inflated.deletion_timestamp is None
        assert inflated.labels == meta["labels"]
        assert inflated.labels["tier"] == "front"
        assert inflated.owner_references[0].name == meta["labels"]["app"]
    nodes = set(indexer.list_index_func_values("node"))
    assert nodes == {pod["spec"]["nodeName"] for pod in pods}
    count = sum(len(indexer.by_index("node", node)) for node in nodes)
    assert count == 10_000
    selected = Predicate.within((), labels=[("app", {"web-7"}, False)])
    informer.enqueue_to(queue := WorkQueue(), "object", predicates=[selected])
    assert len(queue) == 200
    assert len(indexer.select(None, selectors.native(selectors.parse("app in (web-7, web-8), tier!=back")))) == 400
    assert decompressions(informer) == before


@behaviour("scale/SC99")
def test_a_damaged_object_is_an_error_for_its_reader_and_is_listed_again(many):
    pod, good = varied_pod(11), varied_pod(12)
    key = key_of(pod)
    want = {"kind": "Pod", "apiVersion": "v1", **pod}
    assert pod_in(many, pod).to_dict() == want
    assert many.falsify(key, 77)
    damaged = pod_in(many, pod)
    assert damaged.name == pod["metadata"]["name"]
    before = many.stats()["damaged"]
    for read in (
        lambda: damaged.to_dict(),
        lambda: damaged.to_json(),
        lambda: damaged["spec"],
        lambda: damaged.get_path("status", "phase"),
        lambda: damaged == good,
        lambda: list(damaged),
    ):
        with pytest.raises(CtrlhostError, match=f"the cached state of Pod {key} is damaged"):
            read()
    assert many.stats()["damaged"] == before + 1
    assert pod_in(many, good).to_dict() == {"kind": "Pod", "apiVersion": "v1", **good}
    # The reflector is told with the next piece of its stream, once.
    bookmark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"3000000"}}}\n'
    assert many.feed_watch(bookmark).damaged == 1
    assert many.feed_watch(bookmark).damaged == 0
    # The list has the same versions, and yet replaces what is damaged.
    listed(map(varied_pod, range(300)), informer=many)
    assert pod_in(many, pod).to_dict() == want


@behaviour("scale/SC100")
def test_a_resync_and_a_relist_of_unchanged_objects_decompress_nothing():
    pods = [varied_pod(number) for number in range(1_000)]
    informer = SharedInformer("pods", "v1", "Pod", compression="on", resync=1.0)
    listener = informer.add_listener(every_change=True)
    compressed(listed(pods, informer=informer), 1_000)
    assert len(listener.next(0.0, 2_000)) == 1_000
    before = decompressions(informer)
    listed(pods, informer=informer)
    assert listener.next(0.0, 2_000) == []
    assert informer.stats()["unchanged"] >= 1_000
    queue = WorkQueue()
    informer.enqueue_to(queue, "object", predicates=[Predicate.resource_version_changed(), Predicate.labels_changed()])
    queue.done_many([queue.get(timeout=0) for _ in range(len(queue))])
    assert informer.resync() in (True, False)
    informer.process()
    assert len(queue) == 0
    assert decompressions(informer) == before


def test_an_unknown_compression_is_refused():
    with pytest.raises(ValueError, match='compression must be "off", "auto" or "on", got "fast"'):
        SharedInformer("pods", "v1", "Pod", compression="fast")  # type: ignore[call-overload]


def test_an_index_function_that_runs_while_objects_are_compressed_loses_none():
    informer = listed([varied_pod(number) for number in range(400)], "on")
    indexers: list[Any] = []

    def app(pod: Any) -> list[str]:
        # The objects of the first calls are plain ones, which compressed ones replace before the values arrive.
        compressed(informer, 400)
        return [pod.labels["tier"]]

    informer.indexer.add_indexers({"tier": _core.Deferred(app, indexers.append)})
    (index,) = indexers
    while index.deliver():
        pass
    assert len(informer.indexer.by_index("tier", "front")) == 400


def test_versions_of_an_object_in_a_list_are_counted_once():
    informer = SharedInformer("pods", "v1", "Pod")
    informer.begin_list()
    informer.begin_watch()

    def staged() -> int:
        return sum(informer.stats()["memory"].values())

    event(informer, "ADDED", varied_pod(1))
    single = staged()
    for version in range(2, 100):
        event(informer, "MODIFIED", varied_pod(1, version))
        event(informer, "ADDED", varied_pod(2, version))
        event(informer, "DELETED", varied_pod(2, version))
    assert 0.9 * single < staged() < 1.1 * single
    informer.abort_list()
    assert staged() < single
