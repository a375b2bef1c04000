"""The engine of a sharded informer: what it takes, how ranges come and go."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from ctrlhost import _core
from ctrlhost._core import shard_hash
from ctrlhost.cache import SharedInformer
from ctrlhost.informers.held_ranges import LINES, HeldRanges
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.reflector.ranges import END, Ranges
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.shared_informers import delivered, pod, queued, relist, watch

behaviour = pytest.mark.behaviour


def exactly(*texts: str) -> list[tuple[int, int]]:
    """Return the ranges of these namespaces or uids alone."""
    return [(shard_hash(text), shard_hash(text) + 1) for text in texts]


def engine(by: Any, *held: str) -> SharedInformer:
    informer = SharedInformer("pods", "v1", "Pod", shard_by=by)
    informer.hold(exactly(*held))
    return informer


def owned(name: str, version: int, owner: str, **reference: Any) -> dict[str, Any]:
    """Return a pod with an owner; the one that controls it unless the reference says otherwise."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True, **reference}
    return pod(name, version, ownerReferences=[{**reference, "uid": owner}])


def names(informer: SharedInformer) -> list[str]:
    return sorted(obj.name for obj in informer.indexer.list())


def add_range(informer: SharedInformer, held: Iterable[str], *pods: dict[str, Any], version: int) -> None:
    """List ranges that come."""
    informer.begin_range(exactly(*held))
    body = {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(pods)}
    informer.feed_list(json.dumps(body).encode())
    informer.replace(informer.end_page().resource_version)
    informer.process()


@behaviour("shards/SH06")
@pytest.mark.parametrize(
    ("by", "held"), [("namespace", ["mine"]), ("name", ["a"]), ("uid", ["uid-a"]), ("owner", ["owner-a"])]
)
def test_what_others_hold_is_neither_cached_nor_told_and_the_version_advances(by: Any, held: list[str]) -> None:
    informer = engine(by, *held)
    listener, queue = informer.add_listener(), WorkQueue()
    informer.enqueue_to(queue)

    def own(version: int) -> dict[str, Any]:
        obj = owned("a", version, "owner-a")
        obj["metadata"]["namespace"] = "mine"
        return obj

    foreign = [owned(f"p{number}", number, f"owner-{number}") for number in range(1, 100)]
    relist(informer, own(5), *foreign, version=100)
    assert names(informer) == ["a"]
    for number, kind in enumerate(("ADDED", "MODIFIED", "DELETED"), 101):
        watch(informer, kind, owned("other", number, "owner-x"), process=False)
        assert informer.stats()["queued"] == 0
        informer.process()
        assert informer.last_resource_version == str(number)
    watch(informer, "MODIFIED", own(104))
    assert delivered(listener) == [("add", "a5", True), ("update", "a5", "a104")]
    assert {name for name, *_ in queued(queue)} == {"a"}
    assert informer.stats()["filtered"] == len(foreign) + 3


@behaviour("shards/SH17")
@pytest.mark.parametrize(
    ("by", "text", "described"),
    [
        ("namespace", "default", "namespace default"),
        ("name", "a", "Pod a"),
        ("uid", "uid-a", "Pod default/a"),
        ("owner", "owner-a", "ReplicaSet default/rs"),
    ],
)
def test_what_has_a_hash_is_described_by_what_it_is_held_for(by: Any, text: str, described: str) -> None:
    informer = engine(by, text)
    obj = owned("a", 1, "owner-a")
    obj["metadata"]["namespace"] = "default"
    relist(informer, obj)
    scope = Scope("v1", "Pod", shard_by=by)
    part = SimpleNamespace(scope=scope, engine=informer)
    ranges = HeldRanges(lambda: [SimpleNamespace(scope=scope, parts=[part])], ManualClock())  # type: ignore[list-item]
    assert ranges.describe(LINES[by], shard_hash(text)) == described
    assert ranges.describe(LINES[by], 255) == f"hash 00000000000000ff of line {LINES[by]}"


@behaviour("shards/SH08")
def test_children_are_held_by_the_uid_of_the_owner_that_controls_them() -> None:
    informer = engine("owner", "mine")
    second = {**owned("second", 4, "other")["metadata"]}
    second["ownerReferences"] += owned("second", 4, "mine", controller=False)["metadata"]["ownerReferences"]
    relist(
        informer,
        owned("mine", 1, "mine"),
        owned("other", 2, "other"),
        pod("none", 3),
        {**pod("second", 4), "metadata": second},
        owned("not-controlled", 5, "mine", controller=False),
    )
    assert names(informer) == ["mine"]


@behaviour("shards/SH08")
def test_a_child_that_gets_another_owner_is_gone_here_and_there_new() -> None:
    informer = engine("owner", "mine")
    listener = informer.add_listener()
    relist(informer, owned("a", 1, "mine"), owned("b", 2, "other"), version=2)
    watch(informer, "MODIFIED", owned("a", 3, "other"))
    watch(informer, "MODIFIED", owned("b", 4, "mine"))
    # Once it is gone, what happens to it is not told.
    watch(informer, "MODIFIED", owned("a", 5, "third"))
    watch(informer, "DELETED", owned("a", 6, "third"))
    assert delivered(listener) == [("add", "a1", True), ("gone", "a1"), ("add", "b4", False)]
    assert names(informer) == ["b"]


@behaviour("shards/SH54")
def test_the_replay_of_a_new_range_neither_goes_back_nor_brings_ghosts() -> None:
    informer = engine("uid", "uid-a")
    listener = informer.add_listener()
    relist(informer, pod("a", 5), pod("changed", 6), pod("deleted", 7), version=10)
    watch(informer, "MODIFIED", pod("a", 11))
    came = [f"uid-{name}" for name in ("changed", "deleted", "made", "brief", "later")]
    # The list is of version 20, and may show objects of ranges that were held before.
    add_range(informer, came, pod("changed", 15), pod("made", 16), pod("a", 18), version=20)
    assert informer.last_resource_version == "11"
    watch(informer, "MODIFIED", pod("changed", 12))
    watch(informer, "ADDED", pod("brief", 13))
    watch(informer, "DELETED", pod("deleted", 14), pod("brief", 14))
    watch(informer, "MODIFIED", pod("changed", 15))
    watch(informer, "ADDED", pod("made", 16))
    watch(informer, "MODIFIED", pod("a", 18))
    assert informer.last_resource_version == "18"
    watch(informer, "MODIFIED", pod("changed", 21))
    watch(informer, "ADDED", pod("later", 22))
    watch(informer, "DELETED", pod("made", 23))
    assert delivered(listener) == [
        ("add", "a5", True),
        ("update", "a5", "a11"),
        ("add", "changed15", True),
        ("add", "made16", True),
        ("update", "a11", "a18"),
        ("update", "changed15", "changed21"),
        ("add", "later22", False),
        ("delete", "made23"),
    ]
    assert names(informer) == ["a", "changed", "later"]


class History:
    """Random changes of a few objects, whose owners change too: their versions are 1, 2, 3 and so on."""

    def __init__(self, seed: int, by: str) -> None:
        rng = random.Random(seed)
        states: dict[str, dict[str, Any]] = {}
        #: The objects after each version, and the change that led there.
        self.states: list[dict[str, dict[str, Any]]] = [{}]
        self.events: list[tuple[str, dict[str, Any]]] = [("", {})]
        for version in range(1, 60):
            name = rng.choice("abcd")
            uid = states[name]["metadata"]["uid"] if name in states else f"u{version}"
            obj = owned(name, version, rng.choice("xyz"))
            obj["metadata"]["uid"] = uid
            if name in states and rng.random() < 0.3:
                if by == "owner" and rng.random() < 0.8:
                    # A deletion shows the last state, but for the version.
                    obj["metadata"]["ownerReferences"] = states[name]["metadata"]["ownerReferences"]
                del states[name]
                self.events.append(("DELETED", obj))
            else:
                self.events.append(("MODIFIED" if name in states else "ADDED", obj))
                states[name] = obj
            self.states.append(dict(states))

    def text(self, obj: dict[str, Any], by: str) -> str:
        metadata = obj["metadata"]
        return str(metadata["ownerReferences"][0]["uid"] if by == "owner" else metadata[by])


@behaviour("shards/SH54")
@pytest.mark.parametrize("by", ["uid", "owner", "name"])
@pytest.mark.parametrize("seed", range(40))
def test_ranges_come_and_go_at_any_moment(seed: int, by: Any) -> None:
    history, rng = History(seed, by), random.Random(seed)
    texts = sorted({history.text(obj, by) for state in history.states for obj in state.values()})
    informer, held = engine(by), set[str]()
    listener = informer.add_listener(every_change=True)
    told: dict[str, int] = {}
    informer.begin_list()
    informer.replace("1")
    informer.process()
    version = newest = 1
    while version < len(history.events) - 1:
        wanted = {text for text in texts if rng.random() < 0.5}
        gone, came = held - wanted, wanted - held
        known = {obj.name for obj in informer.indexer.list()}
        informer.hold(exactly(*(held & wanted)))
        forgotten = known - {obj.name for obj in informer.indexer.list()}
        assert not delivered(listener)
        for name in forgotten:
            told.pop(name)
        assert all(history.text(obj.to_dict(), by) not in gone for obj in informer.indexer.list())
        if came:
            # Each list is asked to be no older than the one before it.
            newest = rng.randint(max(version, newest), len(history.events) - 1)
            add_range(informer, came, *history.states[newest].values(), version=newest)
        held = wanted
        follow(delivered(listener), told)
        until = rng.randint(version + 1, len(history.events) - 1)
        for change in range(version + 1, until + 1):
            kind, obj = history.events[change]
            watch(informer, kind, obj)
            follow(delivered(listener), told)
        version = until
    final = history.states[version]
    expected = {name: version_of(obj) for name, obj in final.items() if history.text(obj, by) in held}
    cached = {obj.name: int(obj.resource_version) for obj in informer.indexer.list()}
    assert cached == expected == told


def version_of(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def follow(events: list[tuple[Any, ...]], told: dict[str, int]) -> None:
    """Apply notifications to what a handler knows; none repeats a state or leads to an older one."""
    for event in events:
        if event[0] == "add":
            assert event[1][0] not in told
            told[event[1][0]] = int(event[1][1:])
        elif event[0] == "update":
            assert told[event[1][0]] == int(event[1][1:]) < int(event[2][1:])
            told[event[2][0]] = int(event[2][1:])
        else:
            assert event[1][0] in told
            del told[event[1][0]]


@behaviour("shards/SH52")
def test_a_range_that_goes_leaves_the_cache_without_a_word() -> None:
    informer = engine("namespace", "kept", "lost")
    informer.indexer.add_indexers({"app": lambda obj: [obj.labels["app"]]})
    listener, queue = informer.add_listener(), WorkQueue()
    informer.enqueue_to(queue)
    pods = [pod(name, 1, namespace=name, labels={"app": "x"}) for name in ("kept", "lost")]
    relist(informer, *pods)
    assert len(delivered(listener)) == len(queued(queue)) == 2
    informer.hold(exactly("kept"))
    assert names(informer) == ["kept"]
    assert [obj.name for obj in informer.indexer.by_index("app", "x")] == ["kept"]
    assert informer.indexer.by_index("namespace", "lost") == []
    assert (delivered(listener), queued(queue)) == ([], [])
    # What comes for it is dropped, and a list of all that is held says nothing of it either.
    watch(informer, "DELETED", pod("lost", 3, namespace="lost"))
    relist(informer, pod("kept", 1, namespace="kept", labels={"app": "x"}), version=4)
    assert delivered(listener) == []
    assert informer.hashes() == [(shard_hash("kept"), 1)]
    assert [obj.name for obj in informer.objects_of([(0, END)])] == ["kept"]
    assert informer.objects_of(exactly("lost")) == []


@behaviour("shards/SH54")
def test_a_new_range_is_queued_as_a_first_list() -> None:
    informer, queue = engine("name", "a"), WorkQueue()
    informer.enqueue_to(queue, low_priority=-7)
    relist(informer, pod("a", 1), version=1)
    assert queued(queue) == [("a", "ns", -7)]
    add_range(informer, ["b"], pod("b", 2), version=3)
    watch(informer, "MODIFIED", pod("a", 4))
    assert queued(queue) == [("a", "ns", 0), ("b", "ns", -7)]


@behaviour("shards/SH56")
def test_a_list_of_a_range_that_is_given_up_changes_nothing() -> None:
    informer = engine("name", "a")
    relist(informer, pod("a", 1), version=1)
    informer.begin_range(exactly("b"))
    informer.feed_list(b'{"kind": "PodList", "items": [')
    informer.abort_list()
    watch(informer, "ADDED", pod("b", 2), pod("a", 3))
    assert [(obj.name, obj.resource_version) for obj in informer.indexer.list()] == [("a", "3")]


def test_ranges_are_sets() -> None:
    rng = random.Random(1)
    for _ in range(300):
        sets = [
            Ranges.of(
                (start, start + length) for start, length in zip(rng.sample(range(40), 4), (1, 2, 5, 3), strict=True)
            )
            for _ in range(2)
        ]
        one, other = ({place for place in range(64) if place in ranges} for ranges in sets)
        results = (sets[0] & sets[1], one & other), (sets[0] | sets[1], one | other), (sets[0] - sets[1], one - other)
        for ranges, expected in results:
            assert {place for place in range(64) if place in ranges} == expected
            assert ranges == Ranges.of(ranges.pairs)
        assert sets[0].cover(3, 5) == ({3, 4} <= one)
    assert Ranges.of([(0, END)]) - Ranges.of([(0, 1)]) == Ranges(((1, END),))
    assert not Ranges()


@pytest.mark.parametrize("pair", [(5, 5), (6, 5), (-1, 2), (0, END + 1)])
def test_an_invalid_range_is_refused(pair: tuple[int, int]) -> None:
    for refused in (lambda: Ranges.of([pair]), lambda: engine("uid").hold([pair])):
        with pytest.raises((ValueError, OverflowError)):
            refused()


def test_the_selector_is_empty_where_only_the_reader_can_choose() -> None:
    assert _core.shard_selector("uid", [(0, END)]).startswith("shardRange(object.metadata.uid, ")
    assert _core.shard_selector("name", [(0, END)]) == _core.shard_selector("owner", [(0, END)]) == ""
    with pytest.raises(ValueError, match="shard_by must be"):
        _core.shard_selector("labels", [])  # type: ignore[arg-type]
