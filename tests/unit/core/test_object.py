"""Cached objects in Python: `ctrlhost.cache.Object` and its views."""

from __future__ import annotations

import collections.abc
import copy
import json
import pickle
from typing import Any

import msgspec
import pytest

from ctrlhost.cache import ListView, MapView, Object, PartialObject, SharedInformer

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "5f0c",
        "resourceVersion": "17",
        "generation": 3,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web", "ünïcode": '✓ "quoted" \\ \n'},
        "annotations": {"note": "a/b"},
        "finalizers": ["example.org/one", "example.org/two"],
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": "web",
                "uid": "77",
                "controller": True,
                "blockOwnerDeletion": True,
            },
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "shared", "uid": "78"},
        ],
    },
    "spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}], "nodeName": None, "ratio": 0.5},
    "status": {"phase": "Running", "ready": True, "restarts": 0},
}


class Status(msgspec.Struct):
    phase: str
    restarts: int


class TypedPod(msgspec.Struct):
    status: Status


class Wrong(msgspec.Struct):
    status: int


@pytest.fixture
def pod() -> Object:
    return Object(POD)


def test_the_attributes_match_the_metadata(pod: Object) -> None:
    assert (pod.api_version, pod.kind, pod.name, pod.namespace, pod.key) == ("v1", "Pod", "web-0", "shop", "shop/web-0")
    assert (pod.uid, pod.resource_version, pod.generation) == ("5f0c", "17", 3)
    assert pod.deletion_timestamp == "2026-01-01T00:00:00Z"
    assert pod.labels == POD["metadata"]["labels"]
    assert pod.annotations == {"note": "a/b"}
    assert pod.finalizers == ("example.org/one", "example.org/two")
    controller, other = pod.owner_references
    assert (controller.api_version, controller.kind, controller.name, controller.uid) == (
        "apps/v1",
        "StatefulSet",
        "web",
        "77",
    )
    assert controller.controller
    assert controller.block_owner_deletion
    assert (other.name, other.controller, other.block_owner_deletion) == ("shared", False, False)
    assert not pod.partial


def test_absent_fields_are_empty() -> None:
    bare = Object({"metadata": {"name": "a"}})
    assert (bare.api_version, bare.kind, bare.namespace, bare.uid, bare.resource_version) == ("", "", "", "", "")
    assert bare.generation == 0
    assert bare.deletion_timestamp is None
    assert bare.labels == bare.annotations == {}
    assert repr(bare.labels) == "{}"
    assert bare.owner_references == bare.finalizers == ()
    assert bare.key == "a"


def test_fields_of_a_wrong_type_are_treated_as_absent() -> None:
    odd = Object({"metadata": {"name": "a", "namespace": None, "uid": 7, "labels": [1], "generation": "x"}})
    assert (odd.namespace, odd.uid, odd.generation, odd.key) == ("", "", 0, "a")
    assert odd.labels == {}
    assert odd.labels == Object({"metadata": {"name": "b", "labels": None}}).labels
    assert odd["metadata"]["uid"] == 7


def test_it_reads_like_a_mapping(pod: Object) -> None:
    assert isinstance(pod, collections.abc.Mapping)
    assert list(pod) == pod.keys() == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert len(pod) == 5
    assert "spec" in pod
    assert "nothing" not in pod
    assert 7 not in pod
    assert pod.get(7, 2) == pod["spec"].get(7, 2) == 2  # type: ignore[arg-type]
    assert pod.get("nothing") is None
    assert pod.get("nothing", 1) == 1
    with pytest.raises(KeyError, match="nothing"):
        pod["nothing"]
    assert dict(pod) == POD
    assert {**pod} == POD
    assert dict(pod.items()) == POD
    assert pod.values()[4] == POD["status"]


def test_views_are_read_only_and_parse_on_demand(pod: Object) -> None:
    spec = pod["spec"]
    assert isinstance(spec, MapView)
    assert isinstance(spec, collections.abc.Mapping)
    containers = spec["containers"]
    assert isinstance(containers, ListView)
    assert isinstance(containers, collections.abc.Sequence)
    assert containers[0]["ports"][-1]["containerPort"] == 80
    assert [c["name"] for c in containers] == ["main"]
    assert len(containers) == 1
    assert containers[:1] == [POD["spec"]["containers"][0]]
    assert POD["spec"]["containers"][0] in containers
    assert containers.index(POD["spec"]["containers"][0]) == 0
    assert spec.get_path("containers", 0, "name") == "main"
    with pytest.raises(IndexError):
        containers[1]
    with pytest.raises(KeyError):
        spec["nothing"]
    assert repr(spec) == repr(POD["spec"])
    for change in (
        lambda: pod.__setitem__("spec", {}),  # type: ignore[operator]
        lambda: pod.__delitem__("spec"),  # type: ignore[operator]
        lambda: spec.__setitem__("nodeName", "n"),
        lambda: spec.__delitem__("nodeName"),
        lambda: containers.__setitem__(0, {}),
        lambda: containers.__delitem__(0),
        lambda: pod.labels.__setitem__("a", "b"),  # type: ignore[operator]
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    with pytest.raises(AttributeError):
        pod.name = "other"  # type: ignore[misc]


def test_get_path_returns_the_default_for_missing_or_null_fields(pod: Object) -> None:
    assert pod.get_path("status", "phase") == "Running"
    assert pod.get_path("spec", "containers", 0, "ports", 0) == {"containerPort": 80}
    assert pod.get_path("spec", "containers", -1, "name") == "main"
    assert pod.get_path("spec", "nodeName", default="none") == "none"
    assert pod.get_path("spec", "containers", 5, default=1) == 1
    assert pod.get_path("spec", "containers", -5, default=1) == 1
    assert pod.get_path("status", "phase", "deeper", default=2) == 2
    assert pod.get_path("status", 0, default=3) == 3
    assert pod.get_path("nothing") is None
    with pytest.raises(TypeError, match="position"):
        pod.get_path("spec", 1.5)  # type: ignore[arg-type]


def test_pattern_matching_works(pod: Object) -> None:
    match pod:
        case {"kind": "Pod", "spec": {"containers": [{"name": name}, *rest]}, "status": {"ready": True}}:
            assert name == "main"
            assert rest == []
        case _:
            pytest.fail("no match")


def test_to_dict_is_fresh_mutable_and_complete(pod: Object) -> None:
    first, second = pod.to_dict(), pod.to_dict()
    assert first == second == POD
    first["spec"]["containers"][0]["name"] = "changed"
    first["metadata"]["labels"].clear()
    assert second == POD
    assert pod == POD
    assert json.loads(pod.to_json()) == POD


def test_equality_is_by_content(pod: Object) -> None:
    shuffled = Object(json.dumps(dict(reversed(POD.items())), indent=1))
    assert pod == shuffled
    assert pod == POD
    assert POD == pod  # noqa: SIM300 - the other way round
    assert pod["spec"] == POD["spec"]
    assert pod["spec"]["containers"] == POD["spec"]["containers"]
    assert POD["spec"]["containers"] == pod["spec"]["containers"]
    assert pod["spec"] == shuffled["spec"]
    assert pod["spec"]["containers"] == shuffled["spec"]["containers"]
    assert pod != Object({"metadata": {"name": "web-0"}})
    assert pod != "web-0"
    assert pod["spec"] != pod["status"]
    for unhashable in (pod, pod["spec"], pod["spec"]["containers"]):
        with pytest.raises(TypeError, match="unhashable"):
            hash(unhashable)


def test_copies(pod: Object) -> None:
    assert copy.copy(pod) is pod
    assert copy.deepcopy(pod) is pod
    assert pickle.loads(pickle.dumps(pod)) == pod
    assert pod["spec"].to_dict() == POD["spec"]
    assert pod["spec"]["containers"].to_list() == POD["spec"]["containers"]
    assert pickle.loads(pickle.dumps(pod["spec"])) == POD["spec"]
    assert copy.copy(pod["spec"]) == pod["spec"]


def test_decode_returns_a_typed_object(pod: Object) -> None:
    assert pod.decode(TypedPod).status == Status("Running", 0)
    with pytest.raises(msgspec.ValidationError):
        pod.decode(Wrong)


def test_an_object_may_hold_views_of_another(pod: Object) -> None:
    composed = Object({"metadata": {"name": "b"}, "spec": pod["spec"], "list": pod["spec"]["containers"], "whole": pod})
    assert composed["spec"] == POD["spec"]
    assert composed["list"] == POD["spec"]["containers"]
    assert composed["whole"] == POD
    assert Object(pod) == pod
    assert Object(collections.ChainMap({"metadata": {"name": "c"}})).name == "c"


def test_managed_fields_are_dropped_only_from_the_metadata() -> None:
    raw = {"metadata": {"managedFields": [{"manager": "x"}], "name": "a"}, "spec": {"managedFields": [1]}}
    obj = Object(raw)
    assert "managedFields" not in obj["metadata"]
    assert obj["spec"]["managedFields"] == [1]
    only = Object({"metadata": {"name": "a", "managedFields": []}})
    assert only["metadata"] == {"name": "a"}


def test_whitespace_between_tokens_changes_nothing() -> None:
    obj = Object(json.dumps(POD, indent=3))
    assert obj == POD
    assert obj.labels == POD["metadata"]["labels"]


def partial_pod() -> Object:
    informer = SharedInformer("pods", "v1", "Pod", reads=("spec.containers[*].name", "status.phase"))
    informer.begin_list()
    informer.feed_list(json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [POD]}).encode())
    informer.end_page()
    informer.replace("1")
    informer.process()
    (pod,) = informer.indexer.list()
    return pod


def test_a_partial_object_is_marked_and_cannot_be_read_whole() -> None:
    pod = partial_pod()
    assert pod.partial
    assert pod["spec"] == {"containers": [{"name": "main"}]}
    assert pod["status"] == {"phase": "Running"}
    assert pod.labels["app"] == "web"
    with pytest.raises(PartialObject, match="shop/web-0") as caught:
        pod.to_dict()
    assert caught.value.hint is not None
    assert "reads=" in caught.value.hint
    restored = pickle.loads(pickle.dumps(pod))
    assert restored.partial
    assert "partial" in repr(restored)


@pytest.mark.behaviour("findings3/NA16")
@pytest.mark.parametrize(
    ("path", "name", "hint"),
    [
        ((), "metadata", 'use `obj.name`, `obj.namespace`, `obj.labels` …, or `obj["metadata"]`'),
        ((), "data", 'members are items: `obj["data"]`, or `obj.get("data")`'),
        (("data",), "x", 'members are items: `obj["x"]`, or `obj.get("x")`'),
    ],
)
def test_a_missing_attribute_says_how_members_are_read(path: tuple[str, ...], name: str, hint: str) -> None:
    obj = Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": {"y": 1}}})
    read = obj.get_path(*path) if path else obj
    with pytest.raises(AttributeError) as raised:
        getattr(read, name)
    assert str(raised.value) == f"'{type(read).__name__}' has no attribute '{name}'; {hint}"
    assert not hasattr(read, name)
