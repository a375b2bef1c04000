"""The predicate of declared controllers: the core decides as its definition in Python, in all forms of an object."""

from __future__ import annotations

import copy
import itertools
import json
import random
from typing import Any

import pytest

from ctrlhost import predicates
from ctrlhost._core import Predicate
from ctrlhost.cache import Object, SharedInformer
from ctrlhost.informers.predicates import in_core
from tests.support import protobuf
from tests.support.protobuf import message, string_map
from tests.support.waiting import eventually

OWN = ("mine/a", "mine/b")
FINALIZERS = (*OWN, "theirs/a", "theirs/b")
COUNT = 300
#: Long enough to be compressed.
LONG = "text " * 80


def passes(own: tuple[str, ...], old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Define the predicate over plain objects."""
    before, after = old["metadata"], new["metadata"]
    if after.get("generation"):
        desired = before.get("generation") != after["generation"]
    else:
        beside = {"apiVersion", "kind", "metadata", "status"}
        desired = any(old.get(name) != new.get(name) for name in {*old, *new} - beside)
    had, has = before.get("finalizers") or [], after.get("finalizers") or []
    if after.get("deletionTimestamp"):
        finalizers = [name for name in had if name not in own] != [name for name in has if name not in own]
    else:
        finalizers = had != [name for name in has if name in had or name not in own]
    texts = any((before.get(name) or {}) != (after.get(name) or {}) for name in ("labels", "annotations"))
    others = any(before.get(name) != after.get(name) for name in ("uid", "deletionTimestamp"))
    return desired or finalizers or texts or others


def variants(chance: random.Random, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return objects, each of which differs from another one in two fields at most."""
    objects = [first]
    while len(objects) < COUNT:
        obj = copy.deepcopy(chance.choice(objects))
        meta = obj["metadata"]
        for _ in range(chance.choice((0, 1, 1, 2))):
            match chance.randrange(9):
                case 0:
                    meta["generation"] = chance.choice((0, 1, 2))
                case 1:
                    meta["labels"] = {"a": chance.choice("12")}
                case 2:
                    meta["annotations"] = chance.choice(({}, {"a": "1"}, {"a": LONG}))
                case 3 | 4:
                    meta["finalizers"] = chance.sample(FINALIZERS, chance.randrange(4))
                case 5:
                    meta["deletionTimestamp"] = "2026-01-02T03:04:05Z"
                case 6:
                    obj["spec"]["nodeName"] = chance.choice(("n1", "n2")) + LONG
                case 7:
                    obj["status"] = {"phase": chance.choice(("Pending", "Running"))}
                case _:
                    meta["uid"] = chance.choice(("u1", "u1", "u2"))
        meta["resourceVersion"] = str(len(objects))
        objects.append(obj)
    for meta in (obj["metadata"] for obj in objects):
        for name in ("generation", "annotations", "finalizers"):
            if not meta.get(name):
                meta.pop(name, None)
    return objects


def encoded(obj: dict[str, Any]) -> bytes:
    meta = obj["metadata"]
    fields: list[tuple[int, Any]] = [(1, meta["name"]), (3, meta["namespace"]), (5, meta["uid"])]
    fields += [(6, meta["resourceVersion"]), (7, meta.get("generation", 0))]
    if "deletionTimestamp" in meta:
        fields.append((9, message((1, 1767323045), (2, 0))))
    fields += [*string_map(11, meta["labels"]), *string_map(12, meta.get("annotations", {}))]
    fields += [(14, name) for name in meta.get("finalizers", ())]
    spec = message((2, message((1, "c"), (8, b""))), (10, obj["spec"]["nodeName"]))
    return message((1, message(*fields)), (2, spec), (3, message((1, obj["status"]["phase"]))))


def held(pods: list[dict[str, Any]], *, compressed: bool) -> dict[str, list[Object]]:
    """Return the pods from a list in each encoding."""
    informer = SharedInformer("pods", "v1", "Pod", compression="on" if compressed else "off")
    informer.begin_list()
    for encoding in ("json", "protobuf"):
        named = [{**pod, "metadata": {**pod["metadata"], "name": f"{encoding}-{n}"}} for n, pod in enumerate(pods)]
        body = protobuf.pod_list(1, *map(encoded, named))
        if encoding == "json":
            listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": named}
            body = json.dumps(listed).encode()
        informer.begin_page("application/json" if encoding == "json" else protobuf.MEDIA)
        informer.feed_list(body)
        informer.end_page()
    informer.replace("1")
    informer.process()
    if compressed:
        eventually(lambda: informer.stats()["compressed_objects"] == 2 * len(pods))
    store = informer.indexer
    return {
        encoding: [store.get_by_key(f"default/{encoding}-{n}") for n in range(len(pods))]
        for encoding in ("json", "protobuf")
    }


def test_it_is_its_definition_on_random_pairs_in_all_forms():
    chance = random.Random(16)
    pods = variants(
        chance,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "default", "uid": "u1", "resourceVersion": "0", "labels": {}},
            "spec": {"nodeName": LONG, "containers": [{"name": "c", "resources": {}}]},
            "status": {"phase": "Running"},
        },
    )
    forms = [*held(pods, compressed=False).values(), *held(pods, compressed=True).values()]
    # Neighbours in this order differ in little.
    order = sorted(range(COUNT), key=lambda number: json.dumps(pods[number], sort_keys=True))
    pairs = [*itertools.pairwise(order), *itertools.pairwise(reversed(order)), *((state, state) for state in order)]
    pairs += [(chance.randrange(COUNT), chance.randrange(COUNT)) for _ in range(COUNT)]
    for own in ((), OWN):
        predicate = Predicate.desired_state_changed(*own)
        expected = [passes(own, pods[old], pods[new]) for old, new in pairs]
        assert 50 < sum(expected) < len(pairs) - COUNT - 50
        for before, after in itertools.product(forms, forms):
            for (old, new), wanted in zip(pairs, expected, strict=True):
                assert predicate(before[old], after[new]) is wanted, (pods[old], pods[new])


def config_map(**members: Any) -> Object:
    return Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **members})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "1"}}, False),
        ({"data": {"a": "1"}}, {"data": {"a": "2"}}, True),
        ({"data": {"a": "1", "b": "2"}}, {"data": {"b": "2", "a": "1"}}, False),
        ({"data": {"a": "1"}}, {"data": {"a": "1"}, "status": {"size": 1}}, False),
        ({"data": {"a": "1"}}, {"data": {"a": "1"}, "immutable": None}, False),
        ({"data": {"a": "1"}}, {"data": {"a": "1"}, "immutable": False}, True),
        ({"data": {"a": "1"}}, {}, True),
        ({"size": 1, "status": 1}, {"size": 1.0, "status": 2}, False),
    ],
)
def test_without_a_generation_every_member_but_the_status_counts(old: Any, new: Any, expected: bool):
    assert Predicate.desired_state_changed()(config_map(**old), config_map(**new)) is expected
    assert predicates.desired_state_changed(config_map(**old), config_map(**new)) is expected


def test_a_generation_that_an_object_gains_or_loses_is_a_change_only_if_the_content_is():
    def pod(generation: int | None, size: int) -> Object:
        metadata = {"name": "a"} if generation is None else {"name": "a", "generation": generation}
        return Object({"kind": "Memcached", "metadata": metadata, "spec": {"size": size}})

    predicate = Predicate.desired_state_changed()
    assert predicate(pod(None, 1), pod(1, 1))
    assert not predicate(pod(1, 1), pod(None, 1))
    assert predicate(pod(1, 1), pod(None, 2))
    assert not predicate(pod(1, 1), pod(1, 2))


def finalized(*finalizers: str, deleting: bool = False) -> Object:
    deleted = {"deletionTimestamp": "2026-01-02T03:04:05Z"} if deleting else {}
    return Object(
        {"kind": "Pod", "metadata": {"name": "a", "generation": 1, "finalizers": list(finalizers), **deleted}}
    )


def test_only_what_the_host_does_to_its_finalizers_is_ignored():
    ours, theirs = OWN[0], "theirs/a"
    predicate = Predicate.desired_state_changed(*OWN)
    assert not predicate(finalized(theirs), finalized(theirs, ours))
    assert predicate(finalized(theirs, ours), finalized(theirs))
    assert predicate(finalized(ours), finalized(ours, theirs))
    assert not predicate(finalized(theirs, ours, deleting=True), finalized(theirs, deleting=True))
    assert predicate(finalized(theirs, ours, deleting=True), finalized(ours, deleting=True))
    assert Predicate.desired_state_changed()(finalized(theirs), finalized(theirs, ours))


def test_adds_and_deletes_pass_and_it_combines():
    whole, labelled = config_map(), Object({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"a": "1"}}})
    assert predicates.desired_state_changed(None, whole)
    assert predicates.desired_state_changed(whole, None)
    combined = in_core(predicates.not_(predicates.desired_state_changed))
    assert isinstance(combined, Predicate)
    assert not combined(whole, labelled)
    assert combined(whole, whole)
    assert repr(combined) == "<Predicate negate(desired_state_changed)>"
