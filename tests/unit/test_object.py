"""Cached objects as Python sees them: `ctrlhost.cache.Object` and the views it gives."""

from __future__ import annotations

import collections.abc
import copy
import json
import math
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


def test_the_attributes_are_those_of_the_metadata(pod: Object) -> None:
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


def test_what_is_absent_is_empty() -> None:
    bare = Object({"metadata": {"name": "a"}})
    assert (bare.api_version, bare.kind, bare.namespace, bare.uid, bare.resource_version) == ("", "", "", "", "")
    assert bare.generation == 0
    assert bare.deletion_timestamp is None
    assert bare.labels == bare.annotations == {}
    assert repr(bare.labels) == "{}"
    assert bare.owner_references == bare.finalizers == ()
    assert bare.key == "a"


def test_fields_of_a_wrong_type_are_as_good_as_absent() -> None:
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
        with pytest.raises(TypeError, match="can not be changed"):
            change()
    with pytest.raises(AttributeError):
        pod.name = "other"  # type: ignore[misc]


def test_get_path_gives_the_default_for_what_is_missing_or_null(pod: Object) -> None:
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


def test_match_works(pod: Object) -> None:
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
    spec = copy.deepcopy(pod["spec"])
    assert type(spec) is dict
    spec["nodeName"] = "n1"
    assert pod["spec"]["nodeName"] is None
    assert type(copy.deepcopy(pod["spec"]["containers"])) is list
    assert pod["spec"].to_dict() == POD["spec"]
    assert pod["spec"]["containers"].to_list() == POD["spec"]["containers"]
    assert pickle.loads(pickle.dumps(pod["spec"])) == POD["spec"]
    assert copy.copy(pod["spec"]) == pod["spec"]


def test_decode_gives_a_typed_object(pod: Object) -> None:
    assert pod.decode(TypedPod).status == Status("Running", 0)
    with pytest.raises(msgspec.ValidationError):
        pod.decode(Wrong)


def test_an_object_may_hold_views_of_another(pod: Object) -> None:
    made = Object({"metadata": {"name": "b"}, "spec": pod["spec"], "list": pod["spec"]["containers"], "whole": pod})
    assert made["spec"] == POD["spec"]
    assert made["list"] == POD["spec"]["containers"]
    assert made["whole"] == POD
    assert Object(pod) == pod
    assert Object(collections.ChainMap({"metadata": {"name": "c"}})).name == "c"


def test_managed_fields_are_dropped_and_others_of_that_name_stay() -> None:
    raw = {"metadata": {"managedFields": [{"manager": "x"}], "name": "a"}, "spec": {"managedFields": [1]}}
    obj = Object(raw)
    assert "managedFields" not in obj["metadata"]
    assert obj["spec"]["managedFields"] == [1]
    only = Object({"metadata": {"name": "a", "managedFields": []}})
    assert only["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "ends too early"),
        (b"[]", "not a JSON object"),
        (b"7 ", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{", "ends too early"),
        (b'{"metadata":{"name":"a"}', "ends too early"),
        (b'{"metadata":{"name":"a"}} x', "something follows"),
        (b'{"metadata":{"name":"a"},}', "a key was expected"),
        (b'{"metadata":{"name":"a"},"b":01}', "not a number"),
        (b'{"metadata":{"name":"a"},"b":1.}', "not a number"),
        (b'{"metadata":{"name":"a"},"b":+1}', "a value was expected"),
        (b'{"metadata":{"name":"a"},"b":nul}', "a value was expected"),
        (b'{"metadata":{"name":"a"},"b":NaN}', "a value was expected"),
        (b'{"metadata":{"name":"a"},"b":"\\x"}', "unknown escape"),
        (b'{"metadata":{"name":"a"},"b":"\\u12g4"}', "escape"),
        (b'{"metadata":{"name":"a"},"b":"\n"}', "control character"),
        (b'{"metadata":{"name":"a"},"b":[1 2]}', "was expected"),
        (b'{"metadata":{"name":"a"},"b":[1}', "was expected"),
        (b'{"metadata":{"name":"a"},"b":{1:2}}', "was expected"),
        (b'{"metadata":{"name":"a"} "b":1}', "was expected"),
        (b'{"metadata":{"name":"\xff"}}', "UTF-8"),
        (b"{}", "metadata.name"),
        (b'{"metadata":null}', "metadata.name"),
        (b'{"metadata":{}}', "metadata.name"),
        (b'{"metadata":{"name":""}}', "metadata.name"),
        (b'{"metadata":{"name":7}}', "metadata.name"),
        (b'{"metadata":{"name":"a/b"}}', "metadata.name"),
        (b'{"metadata":{"name":"a"},"metadata":null}', "metadata.name"),
        (b"<html></html>", "a value was expected"),
        (b'{"metadata":{"name":"a"},"b":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_object_is_refused(raw: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Object(raw)


@pytest.mark.parametrize("raw", [7, None, ["a"], object()])
def test_what_is_no_mapping_is_a_type_error(raw: Any) -> None:
    with pytest.raises(TypeError):
        Object(raw)


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, {"a": {1, 2}}, b"bytes"])
def test_what_json_can_not_say_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        Object({"metadata": {"name": "a"}, "spec": value})


def test_a_mapping_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {"metadata": {"name": "a"}}
    loop["self"] = loop
    with pytest.raises(ValueError, match="nested too deep"):
        Object(loop)
    with pytest.raises(ValueError, match="NaN"):
        Object({"metadata": {"name": "a"}, "x": math.nan})


def test_nesting_up_to_the_limit_is_kept() -> None:
    deep: Any = 1
    for _ in range(998):
        deep = [deep]
    obj = Object({"metadata": {"name": "a"}, "deep": deep})
    for found in (obj["deep"], obj.to_dict()["deep"]):
        levels = 0
        while not isinstance(found, int):
            (found,) = found
            levels += 1
        assert levels == 998


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("-0", 0),
        ("-0.0", -0.0),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("-9223372036854775809", -(2**63) - 1),
        pytest.param("1" + "0" * 10_000, 10**10_000, id="10001 digits"),
        pytest.param("-" + "12" * 5_000, -(12 * (100**5_000 - 1) // 99), id="10000 digits"),
        ("1.5e3", 1500.0),
        ("0.1", 0.1),
    ],
)
def test_numbers_are_exact_and_infinite_beyond_the_range_of_doubles(text: str, value: Any) -> None:
    obj = Object(f'{{"metadata":{{"name":"a"}},"n":{text}}}')
    assert obj["n"] == value
    assert type(obj["n"]) is type(value)
    again = Object(obj.to_dict())
    assert again["n"] == value


def test_lone_surrogates_become_replacement_characters() -> None:
    obj = Object(rb'{"metadata":{"name":"a"},"s":"\ud83d\ude00 \ud800 \udc00x \ud800\u0041","\ud800":1}')
    assert obj["s"] == "\U0001f600 \ufffd \ufffdx \ufffdA"
    assert obj["\ufffd"] == 1
    from_python = Object({"metadata": {"name": "a"}, "s": "x\ud800y"})
    assert from_python["s"] == "x\ufffdy"


def test_of_duplicate_keys_the_last_counts_everywhere() -> None:
    raw = (
        b'{"kind":"A","kind":"B","spec":{"x":1,"x":2},"spec":{"y":1,"y":2},"metadata":{"name":"old","uid":"1"},'
        b'"metadata":{"name":"a","name":"b","labels":{"l":"1"},"labels":{"l":"2","l":"3"}}}'
    )
    obj = Object(raw)
    assert (obj.kind, obj.name, obj.uid) == ("B", "b", "")
    assert obj.labels == {"l": "3"}
    assert obj["spec"] == {"y": 2}
    assert obj["spec"]["y"] == 2
    assert len(obj["spec"]) == 1
    assert obj.to_dict() == json.loads(raw)
    assert len(obj) == 3


def test_keys_that_are_escaped_are_read_all_the_same() -> None:
    obj = Object(rb'{"\u006detadata":{"n\u0061me":"a\u0062","managed\u0046ields":[1]},"s\u0070ec":{"\u0061":1}}')
    assert obj.name == "ab"
    assert obj["metadata"] == {"name": "ab"}
    assert obj["spec"]["a"] == 1


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


def test_a_partial_object_says_so_and_is_not_given_out_whole() -> None:
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
