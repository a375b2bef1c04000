"""Handlers that enqueue requests: the keys and priorities of each change."""

from __future__ import annotations

import json
import queue as queues
from typing import Any

import pytest

from ctrlhost import Client, InformerFactory, Request, _core
from ctrlhost.workqueue import WorkQueue
from tests.support.recording_handler import RecordingHandler
from tests.support.shared_informers import deliver
from tests.support.waiting import eventually

DEPLOYMENT = _core.Owner("apps/v1", "Deployment", controller=False, cluster_scoped=False)
CONTROLLER = _core.Owner("apps/v1", "Deployment", controller=True, cluster_scoped=False)


def owner(name: str, kind: str = "Deployment", api_version: str = "apps/v1", *, controller: bool = False) -> dict:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


def pod(version: int, name: str = "baz", owners: tuple[dict, ...] = (), **labels: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "biz",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels,
        "ownerReferences": list(owners),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


class MappingRig:
    """An informer engine with a queue; every step returns the enqueued keys with their priorities."""

    def __init__(self, mapping: Any, *listed: dict[str, Any], **options: Any) -> None:
        self.queue = WorkQueue()
        self._engine = _core.SharedInformer("pods", "v1", "Pod")
        self._added = self._engine.enqueue_to(self.queue, mapping, **options)
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": listed}
        self._engine.begin_list()
        self._engine.feed_list(json.dumps(body).encode())
        self._engine.end_page()
        self._engine.replace("1")
        self._engine.process()
        deliver(self._added)
        self.first = self.keys()

    def keys(self) -> list[tuple[Request, int]]:
        keys = []
        while True:
            try:
                key, priority = self.queue.get_with_priority(0)
            except queues.Empty:
                return keys
            self.queue.done(key)
            keys.append((key, priority))

    def feed(self, frame: bytes) -> None:
        self._engine.feed_watch(frame)
        self._engine.process()
        deliver(self._added)

    def stats(self) -> dict[str, Any]:
        return self._engine.stats()

    def event(self, kind: str, obj: dict[str, Any]) -> list[tuple[Request, int]]:
        self.feed(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
        return self.keys()


def names(requests: list[tuple[Request, int]]) -> list[str]:
    return [key.name for key, _ in requests]


def two_keys(obj: Any) -> list[Request]:
    return [Request(f"{obj.name}-a"), Request(f"{obj.name}-b")]


def by_label(obj: Any) -> list[Request]:
    return [Request(value) for _, value in sorted(obj.labels.items())]


@pytest.mark.behaviour("workqueue/H1")
@pytest.mark.behaviour("workqueue/H2")
def test_an_object_is_its_own_key_in_every_change() -> None:
    rig = MappingRig("object")
    for kind, version in (("ADDED", 2), ("MODIFIED", 3), ("DELETED", 4)):
        assert rig.event(kind, pod(version)) == [(Request("baz", "biz"), 0)]


@pytest.mark.behaviour("workqueue/H3")
@pytest.mark.behaviour("workqueue/H16")
@pytest.mark.parametrize("mapping", ["object", DEPLOYMENT, two_keys])
def test_a_change_without_an_object_produces_no_key(mapping: Any) -> None:
    rig = MappingRig(mapping)
    rig.feed(b'{"type":"ADDED"}\n')
    assert rig.keys() == []
    assert rig.stats()["skipped"] == 1


@pytest.mark.behaviour("workqueue/H4")
def test_an_update_of_an_unknown_object_and_a_delete_of_a_known_one_produce_keys() -> None:
    rig = MappingRig("object")
    assert names(rig.event("MODIFIED", pod(2, "unknown"))) == ["unknown"]
    assert names(rig.event("DELETED", pod(3, "unknown"))) == ["unknown"]
    # The delete of an unknown object is ignored.
    assert rig.event("DELETED", pod(4, "never-seen")) == []


@pytest.mark.behaviour("workqueue/H5")
def test_a_function_may_return_several_keys() -> None:
    rig = MappingRig(two_keys)
    assert names(rig.event("ADDED", pod(2))) == ["baz-a", "baz-b"]
    assert names(rig.event("DELETED", pod(3))) == ["baz-a", "baz-b"]


@pytest.mark.behaviour("workqueue/H6")
def test_a_function_maps_both_objects_of_an_update_and_equal_keys_count_once() -> None:
    rig = MappingRig(by_label, pod(1, x="red", y="blue"))
    assert sorted(names(rig.event("MODIFIED", pod(2, x="red", y="green")))) == ["blue", "green", "red"]
    assert sorted(names(rig.event("MODIFIED", pod(3, x="red", y="green")))) == ["green", "red"]


@pytest.mark.behaviour("workqueue/H7")
def test_an_object_maps_to_its_owner_in_its_own_namespace() -> None:
    rig = MappingRig(DEPLOYMENT)
    for kind, version in (("ADDED", 2), ("DELETED", 3)):
        assert rig.event(kind, pod(version, owners=(owner("foo"),))) == [(Request("foo", "biz"), 0)]


@pytest.mark.behaviour("workqueue/H8")
@pytest.mark.behaviour("workqueue/H9")
def test_an_update_maps_to_the_old_and_new_owner_once_each() -> None:
    rig = MappingRig(DEPLOYMENT, pod(1, owners=(owner("old"),)))
    assert sorted(names(rig.event("MODIFIED", pod(2, owners=(owner("new"),))))) == ["new", "old"]
    assert names(rig.event("MODIFIED", pod(3, owners=(owner("new"),)))) == ["new"]


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param((), marks=pytest.mark.behaviour("workqueue/H10")),
        pytest.param((owner("foo", "ReplicaSet"),), marks=pytest.mark.behaviour("workqueue/H10")),
        pytest.param((owner("foo", api_version="extensions/v1"),), marks=pytest.mark.behaviour("workqueue/H10")),
        pytest.param((owner("foo", api_version="a/b/c"),), marks=pytest.mark.behaviour("workqueue/H18")),
    ],
)
def test_an_object_without_an_owner_of_the_kind_maps_to_nothing(owners: tuple[dict, ...]) -> None:
    rig = MappingRig(DEPLOYMENT)
    assert rig.event("ADDED", pod(2, owners=owners)) == []


@pytest.mark.behaviour("workqueue/H11")
def test_the_version_in_the_owners_reference_does_not_matter() -> None:
    rig = MappingRig(DEPLOYMENT)
    assert names(rig.event("ADDED", pod(2, owners=(owner("foo", api_version="apps/v1beta1"),)))) == ["foo"]


@pytest.mark.behaviour("workqueue/H12")
def test_a_cluster_scoped_owner_has_no_namespace() -> None:
    rig = MappingRig(_core.Owner("v1", "Node", controller=False, cluster_scoped=True))
    requests = rig.event("ADDED", pod(2, owners=(owner("node-1", "Node", "v1"),)))
    assert requests == [(Request("node-1"), 0)]


@pytest.mark.behaviour("workqueue/H13")
def test_only_the_controlling_owner_counts_on_request() -> None:
    rig = MappingRig(CONTROLLER)
    owners = (owner("one"), owner("two", controller=True), owner("three"))
    assert names(rig.event("ADDED", pod(2, owners=owners))) == ["two"]


@pytest.mark.behaviour("workqueue/H14")
@pytest.mark.parametrize("owners", [(), (owner("one"), owner("two"))])
def test_an_object_without_a_controlling_owner_maps_to_nothing(owners: tuple[dict, ...]) -> None:
    assert MappingRig(CONTROLLER).event("ADDED", pod(2, owners=owners)) == []


@pytest.mark.behaviour("workqueue/H15")
def test_every_owner_of_the_kind_counts_by_default() -> None:
    owners = (owner("one"), owner("two"), owner("three"))
    assert sorted(names(MappingRig(DEPLOYMENT).event("ADDED", pod(2, owners=owners)))) == ["one", "three", "two"]


OWNED = (owner("foo", controller=True),)
MAPPINGS: list[Any] = ["object", DEPLOYMENT, CONTROLLER, lambda obj: [Request(obj.name)]]


@pytest.mark.behaviour("workqueue/H21")
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_objects_of_the_first_list_have_low_priority(mapping: Any) -> None:
    rig = MappingRig(mapping, pod(1, owners=OWNED))
    assert [priority for _, priority in rig.first] == [-100]


@pytest.mark.behaviour("workqueue/H22")
@pytest.mark.behaviour("workqueue/H24")
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_later_changes_have_default_priority(mapping: Any) -> None:
    rig = MappingRig(mapping)
    for kind, version in (("ADDED", 2), ("MODIFIED", 3)):
        assert [priority for _, priority in rig.event(kind, pod(version, owners=OWNED))] == [0]


@pytest.mark.behaviour("workqueue/H23")
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_an_update_to_the_same_version_has_low_priority(mapping: Any) -> None:
    rig = MappingRig(mapping)
    rig.event("ADDED", pod(2, owners=OWNED))
    assert [priority for _, priority in rig.event("MODIFIED", pod(2, owners=OWNED))] == [-100]


@pytest.mark.behaviour("workqueue/H25")
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_priority_set_on_the_handler_applies_to_every_change(mapping: Any) -> None:
    rig = MappingRig(mapping, pod(1, owners=OWNED), priority=100, low_priority=100)
    # In the first list; changed; unchanged; gone; created later.
    changes = [("MODIFIED", 2), ("MODIFIED", 2), ("DELETED", 3), ("ADDED", 4)]
    requests = rig.first + [key for kind, version in changes for key in rig.event(kind, pod(version, owners=OWNED))]
    assert [priority for _, priority in requests] == [100] * 5


@pytest.mark.behaviour("workqueue/H19")
@pytest.mark.behaviour("workqueue/H20")
@pytest.mark.parametrize("functions", [("add", "update", "delete"), ("update",), ()])
def test_a_handler_receives_the_changes_that_it_has_functions_for(sandbox, functions: tuple[str, ...]) -> None:
    some, every = RecordingHandler(), RecordingHandler()
    client = Client.load(sandbox.kubeconfig)
    with InformerFactory(client) as factory:
        informer = factory.informer("v1", "ConfigMap", namespaces=["default"], label_selector="mine")
        informer.add_handler(**{f"on_{name}": getattr(some, f"on_{name}") for name in functions})
        every.to(informer)
        factory.start()
        assert factory.wait_for_sync(10)
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "baz", "labels": {"mine": "1"}}}
        client.create(obj)
        client.patch("v1", "ConfigMap", "baz", "default", {"data": {"a": "1"}})
        client.delete("v1", "ConfigMap", "baz", "default")
        eventually(lambda: len(every.events) == 3 and not informer.pending)
    assert every.events == [(name, "baz") for name in ("add", "update", "delete")]
    assert some.events == [(name, "baz") for name in ("add", "update", "delete") if name in functions]
    client.close()


def failing(*_: Any) -> Any:
    raise RuntimeError("a fault in a plugin")


def test_a_failing_predicate_passes_the_change() -> None:
    # A superfluous reconcile is harmless, a lost one is not.
    rig = MappingRig("object", predicates=[failing])
    assert names(rig.event("ADDED", pod(2))) == ["baz"]


def test_a_failing_map_function_drops_only_that_change() -> None:
    def fail_for_bad(obj: Any) -> list[Request]:
        return failing() if obj.name == "bad" else [Request(obj.name)]

    rig = MappingRig(fail_for_bad)
    assert rig.event("ADDED", pod(2, "bad")) == []
    assert names(rig.event("ADDED", pod(3, "good"))) == ["good"]
