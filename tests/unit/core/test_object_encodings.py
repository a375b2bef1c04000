"""Objects that came as JSON and as protobuf are the same."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest

from ctrlhost.cache import Object, PartialObject, Predicate, SharedInformer
from ctrlhost.workqueue import WorkQueue
from tests.support import protobuf
from tests.support.protobuf import message, string_map

behaviour = pytest.mark.behaviour

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u2", "controller": True}
WHOLE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "namespace": "default",
        "uid": "01234567-89ab-cdef-0123-456789abcdef",
        "resourceVersion": "7",
        "generation": 3,
        "deletionTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "x", "empty": "", "tier": "front"},
        "annotations": {"note": 'quote " < \u2028 \U0001f600'},
        "ownerReferences": [{**OWNER, "blockOwnerDeletion": False}],
        "finalizers": ["one/f", "two/f"],
    },
    "spec": {
        "containers": [
            {"name": "c1", "image": "i1", "env": [{"name": "A", "value": "1"}], "resources": {}},
            {"name": "c2", "image": "i2", "resources": {}},
        ],
        "nodeName": "n1",
    },
    "status": {"phase": "Running"},
}


def encoded(**changed: Any) -> bytes:
    """Return the pod as protobuf, with other values of metadata."""
    meta = {**WHOLE["metadata"], **changed}
    owner = message((1, "ReplicaSet"), (3, "rs"), (4, "u2"), (5, "apps/v1"), (6, 1), (7, 0))
    metadata = message(
        (1, meta["name"]),
        (2, ""),
        (3, "default"),
        (5, meta["uid"]),
        (6, meta["resourceVersion"]),
        (7, meta["generation"]),
        (9, message((1, 1767323045), (2, 0))),
        *string_map(11, meta["labels"]),
        *string_map(12, meta["annotations"]),
        (13, owner),
        (14, "one/f"),
        (14, "two/f"),
        (17, message((1, "somebody"))),
    )
    env = message((1, "A"), (2, "1"))
    first = message((1, "c1"), (2, "i1"), (7, env), (8, b""))
    second = message((1, "c2"), (2, "i2"), (8, b""))
    return message((1, metadata), (2, message((2, first), (2, second), (10, "n1"))), (3, message((1, "Running"))))


def informer_of(*bodies: bytes, reads: Any = None) -> SharedInformer:
    informer = SharedInformer("pods", "v1", "Pod", reads=reads)
    informer.begin_list()
    for body in bodies:
        as_json = body.startswith(b"{")
        informer.begin_page("application/json" if as_json else protobuf.MEDIA)
        informer.feed_list(body)
        informer.end_page()
    informer.replace("1")
    informer.process()
    return informer


def page_of(**changed: Any) -> dict[str, bytes]:
    """Return a list of the pod in each encoding."""
    item = {**WHOLE, "metadata": {**WHOLE["metadata"], **changed}}
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [item]}
    return {"json": json.dumps(listed).encode(), "protobuf": protobuf.pod_list(1, encoded(**changed))}


def pods(reads: Any = None, **changed: Any) -> list[Object]:
    """Return the pod from each encoding."""
    return [informer_of(body, reads=reads).indexer.get_by_key("default/a") for body in page_of(**changed).values()]


def both(of: Any) -> Any:
    """Return what `of` gives for the pod, which must be the same in both encodings."""
    results = [of(each) for each in pods()]
    assert results[0] == results[1]
    assert type(results[0]) is type(results[1])
    return results[0]


@behaviour("scale/SC75")
def test_every_accessor_gives_equal_values_of_equal_types():
    meta = WHOLE["metadata"]
    for name, expected in {
        "api_version": "v1",
        "kind": "Pod",
        "name": "a",
        "namespace": "default",
        "key": "default/a",
        "uid": meta["uid"],
        "resource_version": "7",
        "generation": 3,
        "deletion_timestamp": "2026-01-02T03:04:05Z",
        "labels": meta["labels"],
        "annotations": meta["annotations"],
        "finalizers": ("one/f", "two/f"),
        "partial": False,
    }.items():
        assert both(lambda pod, name=name: getattr(pod, name)) == expected, name
    (owner,) = pods()[1].owner_references
    (same,) = pods()[0].owner_references
    fields = ("api_version", "kind", "name", "uid", "controller", "block_owner_deletion")
    assert [getattr(owner, each) for each in fields] == [getattr(same, each) for each in fields]
    assert owner.controller is True
    for pod in pods():
        for mapping in (pod.labels, pod.annotations):
            with pytest.raises(TypeError, match="cannot be changed"):
                mapping["x"] = "y"
    assert both(lambda pod: pod.to_dict()) == WHOLE
    assert both(lambda pod: json.loads(pod.to_json())) == WHOLE
    assert both(repr) == "<Object v1 Pod default/a>"
    assert both(lambda pod: sorted(pod)) == sorted(WHOLE)
    assert both(len) == 5
    assert both(lambda pod: ("spec" in pod, "x" in pod, 1 in pod)) == (True, False, False)


@behaviour("scale/SC76")
@pytest.mark.parametrize(
    "uid", ["01234567-89AB-CDEF-0123-456789ABCDEF", "", "no uuid", "01234567-89ab-cdef-0123-456789abcdef"]
)
@pytest.mark.parametrize("version", ["0", "007", str(2**63), str(2**64), "abc", "7"])
def test_a_uid_and_a_version_are_text_as_sent(uid, version):
    for pod in pods(uid=uid, resourceVersion=version):
        assert (pod.uid, pod.resource_version) == (uid, version)
        assert pod.to_dict()["metadata"].get("uid", "") == uid
        assert pod.to_dict()["metadata"]["resourceVersion"] == version


@behaviour("scale/SC77")
def test_paths_and_views_lead_to_the_same():
    missing = object()
    for path, expected in [
        (("spec", "containers", 0, "env"), WHOLE["spec"]["containers"][0]["env"]),
        (("spec", "containers", 0, "env", 0, "value"), "1"),
        (("spec", "containers", -1, "name"), "c2"),
        (("spec", "containers", 2), missing),
        (("spec", "containers", "name"), missing),
        (("spec", "nope", "deeper"), missing),
        (("metadata", "labels", "app"), "x"),
        (("metadata", "labels", "empty"), ""),
        (("metadata", "managedFields"), missing),
        (("metadata", "creationTimestamp"), missing),
        (("status", "phase"), "Running"),
        (("kind",), "Pod"),
        (("apiVersion",), "v1"),
        ((), WHOLE),
    ]:
        assert both(lambda pod, path=path: pod.get_path(*path, default=missing)) == expected, path
    assert both(lambda pod: pod["spec"]["containers"][0]["env"]) == [{"name": "A", "value": "1"}]
    assert both(lambda pod: [each["name"] for each in pod["spec"]["containers"]]) == ["c1", "c2"]
    assert both(lambda pod: pod.get("nope", 1)) == 1
    for pod in pods():
        # Before and after a document of the whole is there.
        assert pod.get_path("status", "phase") == "Running"
        assert pod["status"].to_dict() == {"phase": "Running"}
        assert pod.get_path("status", "phase") == "Running"
        assert pod.get_path("spec", "containers", 1, "image") == "i2"
        with pytest.raises(TypeError, match="cannot be changed"):
            pod["spec"] = {}
        with pytest.raises(TypeError, match="cannot be changed"):
            pod["spec"]["nodeName"] = "n2"
        with pytest.raises(KeyError):
            pod["nope"]


@behaviour("scale/SC78")
def test_selectors_predicates_index_paths_and_projections_give_the_same():
    for name, body in page_of().items():
        informer = informer_of(body)
        indexer = informer.indexer
        indexer.add_indexers(
            {
                "image": "spec.containers[*].image",
                "first": "spec.containers[0].name",
                "label": 'metadata.labels["app"]',
                "phase": "status.phase",
                "kind": "kind",
                "all": "metadata.labels[*]",
            }
        )
        for index, values in {
            "image": ["i1", "i2"],
            "first": ["c1"],
            "label": ["x"],
            "phase": ["Running"],
            "kind": ["Pod"],
            "all": ["x", "", "front"],
        }.items():
            assert sorted(indexer.list_index_func_values(index)) == sorted(values), (name, index)
        queue = WorkQueue()
        selected = Predicate.within((), labels=[("app", {"x"}, False), ("gone", None, True)])
        other = Predicate.within((), labels=[("app", {"y"}, False)])
        informer.enqueue_to(queue, "object", predicates=[selected])
        assert len(queue) == 1, name
        informer.enqueue_to(none := WorkQueue(), "object", predicates=[other])
        assert len(none) == 0, name


@behaviour("scale/SC78")
@pytest.mark.parametrize("first", ["json", "protobuf"])
@pytest.mark.parametrize("second", ["json", "protobuf"])
@pytest.mark.parametrize(
    ("changed", "passing"),
    [
        ({"labels": {"app": "y"}}, Predicate.labels_changed()),
        ({"annotations": {}}, Predicate.annotations_changed()),
        ({"generation": 4}, Predicate.generation_changed()),
    ],
)
def test_predicates_compare_across_encodings(first, second, changed, passing):
    def seen(predicate: Any, **change: Any) -> int:
        informer = informer_of(page_of()[first])
        informer.enqueue_to(queue := WorkQueue(), "object", predicates=[predicate])
        queue.done_many([queue.get(timeout=0) for _ in range(len(queue))])
        informer.begin_list()
        informer.begin_page("application/json" if second == "json" else protobuf.MEDIA)
        informer.feed_list(page_of(resourceVersion="8", **change)[second])
        informer.end_page()
        informer.replace("8")
        informer.process()
        return len(queue)

    assert (seen(passing, **changed), seen(passing)) == (1, 0)


class Meta(msgspec.Struct):
    name: str
    labels: dict[str, str]


class Typed(msgspec.Struct):
    metadata: Meta


@behaviour("scale/SC79")
def test_copies_pickles_matches_and_types_are_the_same():
    assert both(dict) == WHOLE
    assert both(lambda pod: pod.decode(Typed)).metadata.labels == WHOLE["metadata"]["labels"]
    for pod in pods():
        again = pickle.loads(pickle.dumps(pod))
        assert again == pod
        assert again.to_dict() == WHOLE
        assert copy.copy(pod) is pod
        assert copy.deepcopy(pod) is pod
        assert copy.deepcopy(pod["spec"]) == WHOLE["spec"]
        with pytest.raises(TypeError, match="unhashable"):
            hash(pod)
        match pod:
            case {"kind": "Pod", "status": {"phase": phase}}:
                assert phase == "Running"
            case _:
                pytest.fail("no match")


@behaviour("scale/SC80")
def test_an_object_equals_itself_in_the_other_encoding():
    as_json, as_protobuf = pods()
    assert as_json == as_protobuf
    assert as_protobuf == as_json
    assert as_protobuf == pods()[1]
    assert as_protobuf == WHOLE
    assert as_protobuf["spec"] == as_json["spec"]
    other = pods(labels={"app": "y", "empty": "", "tier": "front"})
    for each in (as_json, as_protobuf):
        assert each != other[0]
        assert each != other[1]


@behaviour("scale/SC81")
def test_a_projection_keeps_only_its_paths():
    kept = ["spec.containers[*].image", "status"]
    expected = {
        **{name: WHOLE[name] for name in ("apiVersion", "kind", "metadata", "status")},
        "spec": {"containers": [{"image": "i1"}, {"image": "i2"}]},
    }
    for pod in pods(reads=kept):
        assert json.loads(pod.to_json()) == expected
        assert pod.partial
        assert pod.get_path("spec", "nodeName") is None
        with pytest.raises(PartialObject, match="only a part of Pod default/a"):
            pod.to_dict()
    for pod in pods(reads="metadata"):
        assert json.loads(pod.to_json()) == {name: WHOLE[name] for name in ("apiVersion", "kind", "metadata")}
        assert pod.get_path("spec", "nodeName") is None
        assert pod.labels == WHOLE["metadata"]["labels"]
        with pytest.raises(PartialObject):
            pod.to_dict()


@behaviour("scale/SC75")
def test_a_transform_sees_the_same_and_cannot_change_the_identity():
    def transform(pod: Object) -> Any:
        content = pod.to_dict()
        assert content == WHOLE
        content["metadata"] = {"name": "other", "resourceVersion": "99", "labels": {"t": "1"}}
        return content

    for name, body in page_of().items():
        informer = SharedInformer("pods", "v1", "Pod", transform=transform)
        informer.begin_list()
        informer.begin_page("application/json" if name == "json" else protobuf.MEDIA)
        informer.feed_list(body)
        informer.end_page()
        informer.replace("1")
        informer.process()
        found = informer.indexer.get_by_key("default/a")
        assert (found.uid, found.resource_version, found.labels) == (WHOLE["metadata"]["uid"], "7", {"t": "1"}), name
        assert informer.stats()["transform_errors"] == 0
