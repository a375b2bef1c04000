"""Objects that came as JSON and as protobuf, and compressed ones of either, are the same."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import threading
from typing import Any

import msgspec
import pytest
from ctrlhost_sandbox._native import CelValidator

import ctrlhost
from ctrlhost.cache import Object, PartialObject, Predicate, SharedInformer
from ctrlhost.errors import DecodeError
from ctrlhost.informers.lister import Lister
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.informers.narrowing import scope_selects
from ctrlhost.workqueue import WorkQueue
from tests.support import protobuf
from tests.support.protobuf import message, string_map
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

FORMS = ("json", "protobuf", "json compressed", "protobuf compressed")

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
        # Long enough to be compressed.
        "annotations": {"note": 'quote " < \u2028 \U0001f600', "long": "text " * 60},
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


def informer_of(*bodies: bytes, reads: Any = None, compression: Any = "off") -> SharedInformer:
    return replace(SharedInformer("pods", "v1", "Pod", reads=reads, compression=compression), *bodies)


def page_of(**changed: Any) -> dict[str, bytes]:
    """Return a list of the pod in each encoding."""
    item = {**WHOLE, "metadata": {**WHOLE["metadata"], **changed}}
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [item]}
    return {"json": json.dumps(listed).encode(), "protobuf": protobuf.pod_list(1, encoded(**changed))}


@functools.cache
def compressing() -> SharedInformer:
    """Return an informer that compresses, and holds nothing."""
    numbers = range(300)
    as_json = [{**WHOLE, "metadata": {**WHOLE["metadata"], "name": f"json-{number}"}} for number in numbers]
    page = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": as_json}
    as_protobuf = protobuf.pod_list(1, *(encoded(name=f"protobuf-{number}") for number in numbers))
    informer = informer_of(json.dumps(page).encode(), as_protobuf, compression="on")
    eventually(lambda: informer.stats()["compressed_objects"] == 600)
    replace(informer)
    return informer


def replace(informer: SharedInformer, *bodies: bytes) -> SharedInformer:
    """Make these lists, each in its encoding, the content of the informer."""
    informer.begin_list()
    for body in bodies:
        informer.begin_page("application/json" if body.startswith(b"{") else protobuf.MEDIA)
        informer.feed_list(body)
        informer.end_page()
    informer.replace("1")
    informer.process()
    return informer


def informer_with(form: str, **changed: Any) -> SharedInformer:
    """Return an informer that holds the pod in one of the four forms."""
    encoding, _, compressed = form.partition(" ")
    if not compressed:
        return informer_of(page_of(**changed)[encoding])
    informer = replace(replace(compressing()), page_of(**changed)[encoding])
    assert informer.stats()["compressed_objects"] == 1
    return informer


def pods(reads: Any = None, **changed: Any) -> list[Object]:
    """Return the pod from each encoding; the whole pod compressed as well."""
    if reads is not None:
        informers = [informer_of(body, reads=reads) for body in page_of(**changed).values()]
        return [informer.indexer.get_by_key("default/a") for informer in informers]
    return [informer_with(form, **changed).indexer.get_by_key("default/a") for form in FORMS]


def both(of: Any) -> Any:
    """Return what `of` gives for the pod, which must be the same in all forms."""
    first, *others = [of(pod) for pod in pods()]
    for other in others:
        assert first == other
        assert type(first) is type(other)
    return first


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
    fields = ("api_version", "kind", "name", "uid", "controller", "block_owner_deletion")
    owners = both(lambda pod: [[getattr(owner, field) for field in fields] for owner in pod.owner_references])
    assert owners == [["apps/v1", "ReplicaSet", "rs", "u2", True, False]]
    for pod in pods():
        for mapping in (pod.labels, pod.annotations):
            with pytest.raises(TypeError, match="cannot be changed"):
                mapping["x"] = "y"
    assert both(lambda pod: pod.to_dict()) == WHOLE
    assert both(lambda pod: json.loads(pod.to_json())) == WHOLE
    assert both(repr) == f"Object(v1 Pod default/a, rv='7', uid='{meta['uid']}')"
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
    assert both(lambda pod: [container["name"] for container in pod["spec"]["containers"]]) == ["c1", "c2"]
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
    for name in FORMS:
        informer = informer_with(name)
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
        indexer.remove_indexers(["image", "first", "label", "phase", "kind", "all"])


@behaviour("scale/SC78")
@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("app=x", True),
        ("app=y", False),
        ("app!=x", False),
        ("gone!=x", True),
        ("app in (x, y),tier", True),
        ("app in (y)", False),
        ("app notin (y),gone notin (x)", True),
        ("tier notin (front)", False),
        ("empty", True),
        ("empty=", True),
        ("!gone", True),
        ("!app", False),
    ],
)
def test_label_selectors_select_the_same(selector, count):
    for form in FORMS:
        lister = Lister(informer_with(form).indexer)
        assert len(lister.list(label_selector=selector)) == count
        assert len(lister.list("default", selector)) == count
        assert lister.list("other", selector) == []
    assert both(lambda pod: scope_selects(Scope("v1", "Pod", label_selector=selector), pod)) == count


@behaviour("scale/SC78")
@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("metadata.name=a", True),
        ("metadata.name!=a", False),
        ("metadata.namespace=default,spec.nodeName=n1", True),
        ("spec.nodeName==n2", False),
        ("status.phase=Running", True),
        ("status.phase!=Running", False),
        ("status.nope=", True),
    ],
)
def test_field_selectors_select_the_same(selector, count):
    assert both(lambda pod: scope_selects(Scope("v1", "Pod", field_selector=selector), pod)) == count


@behaviour("scale/SC78")
@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("self.spec.containers.all(c, c.image.startsWith('i'))", True),
        ("self.spec.containers.map(c, c.name) == ['c1', 'c2']", True),
        ("self.spec.containers.exists(c, has(c.env) && c.env[0].value == '1')", True),
        ("self.metadata.name == 'a' && self.spec.nodeName == 'n2'", False),
    ],
)
def test_rules_find_the_same(rule, holds):
    string = {"type": "string"}
    env = {"type": "array", "items": {"type": "object", "properties": {"name": string, "value": string}}}
    container = {"type": "object", "properties": {"name": string, "image": string, "env": env}}
    spec = {
        "type": "object",
        "properties": {"nodeName": string, "containers": {"type": "array", "items": container}},
    }
    schema = {"type": "object", "properties": {"spec": spec}, "x-kubernetes-validations": [{"rule": rule}]}
    validator = CelValidator(json.dumps(schema))
    assert validator.problems == []

    def findings(pod: Object) -> Any:
        return validator.validate(json.dumps(json.loads(pod.to_json()), sort_keys=True))

    assert (both(findings) == []) == holds


@behaviour("scale/SC78")
@pytest.mark.parametrize("first", FORMS)
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
        informer = informer_with(first)
        informer.enqueue_to(queue := WorkQueue(), "object", predicates=[predicate])
        queue.done_many([queue.get(timeout=0) for _ in range(len(queue))])
        replace(informer, page_of(resourceVersion="8", **change)[second])
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
        assert ctrlhost.plain(pod["spec"]) == WHOLE["spec"]
        with pytest.raises(TypeError, match="unhashable"):
            hash(pod)
        match pod:
            case {"kind": "Pod", "status": {"phase": phase}}:
                assert phase == "Running"
            case _:
                pytest.fail("no match")


@behaviour("scale/SC80")
def test_an_object_equals_itself_in_the_other_encoding():
    different = pods(labels={"app": "y", "empty": "", "tier": "front"})
    for pod in pods():
        assert pod == WHOLE
        for same in pods():
            assert pod == same
            assert pod["spec"] == same["spec"]
            assert pod["spec"]["containers"] == same["spec"]["containers"]
        for other in different:
            assert pod != other
            assert pod["spec"] == other["spec"]
            assert pod["metadata"] != other["metadata"]


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


@behaviour("scale/SC81")
def test_projections_of_both_encodings_are_equal():
    (first, other) = pods(reads=["spec.containers[*].image", "metadata.name", "status.phase"])
    assert first == other
    assert first["spec"] == other["spec"] == {"containers": [{"image": "i1"}, {"image": "i2"}]}
    assert pods(reads=["spec.nodeName"])[1] != first
    for pod in (first, other):
        assert dict(pod)["status"] == {"phase": "Running"}
        assert pod.get_path("spec", "containers", 1) == {"image": "i2"}
        assert pod.get_path("spec", "containers", 0, "name") is None
        assert pod.get_path("metadata", "labels", "app") == "x"
        assert list(pod["metadata"]) == list(WHOLE["metadata"])
    (informer, other_informer) = (informer_of(body, reads=["spec.containers[*].image"]) for body in page_of().values())
    for shared in (informer, other_informer):
        shared.indexer.add_indexers({"image": "spec.containers[*].image", "name": "spec.containers[*].name"})
        assert sorted(shared.indexer.list_index_func_values("image")) == ["i1", "i2"]
        assert shared.indexer.list_index_func_values("name") == []


@behaviour("scale/SC74")
@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"quote\" back\\slash \u0000\u001f\n", 'quote" back\\slash \0\x1f\n'),
        (r"\u2028 \u2029 <>& \u003c\u003e\u0026", "\u2028 \u2029 <>& <>&"),
        (r"\ud83d\ude00 \u00e4", "\U0001f600 ä"),
        # A surrogate without its partner is U+FFFD, as in Go.
        (r"\ud83d x \ude00\ud83d", "\ufffd x \ufffd\ufffd"),
    ],
)
def test_strings_are_the_same_however_they_are_written(escaped, text):
    as_json = page_of(annotations={"note": "PLACE"})["json"].replace(b"PLACE", escaped.encode())
    bodies = [as_json, page_of(annotations={"note": text})["protobuf"]]
    (first, other) = (informer_of(body).indexer.get_by_key("default/a") for body in bodies)
    assert first == other
    for pod in (first, other):
        assert pod.annotations == {"note": text}
        assert pod.to_dict()["metadata"]["annotations"] == {"note": text}
        assert Object(pod.to_json()).annotations == {"note": text}


@behaviour("scale/SC142")
def test_the_deepest_objects_are_read_compared_and_dropped_on_a_small_stack():
    def revision(levels: int, *, as_json: bool) -> bytes:
        data = "[" * levels + "]" * levels
        if as_json:
            item = f'{{"metadata":{{"name":"a"}},"data":{data},"revision":1}}'
            return (
                f'{{"kind":"ControllerRevisionList","apiVersion":"apps/v1","metadata":{{}},"items":[{item}]}}'.encode()
            )
        item = message((1, message((1, "a"))), (2, message((1, data))), (3, 1))
        return protobuf.envelope("apps/v1", "ControllerRevisionList", message((1, b""), (2, item)))

    def read(levels: int, *, as_json: bool) -> Any:
        informer = SharedInformer("controllerrevisions", "apps/v1", "ControllerRevision")
        informer.begin_list()
        informer.begin_page("application/json" if as_json else protobuf.MEDIA)
        informer.feed_list(revision(levels, as_json=as_json))
        informer.end_page()
        informer.replace("1")
        informer.process()
        return informer.indexer.get_by_key("a")

    def deep() -> None:
        # The object is one more level.
        objects = [read(999, as_json=as_json) for as_json in (True, False)]
        first, other = objects
        assert first == other
        assert first["data"] == other["data"]
        for obj in objects:
            assert Object(obj.to_json()) == first
            # Python compares nested lists by recursion, up to its own limit.
            inner, levels = obj.to_dict()["data"], 1
            while inner:
                (inner,) = inner
                levels += 1
            assert levels == 999
        for as_json in (True, False):
            for levels in (1_000, 1_001, 100_000):
                with pytest.raises(DecodeError, match="nested too deep"):
                    read(levels, as_json=as_json)
        del objects, first, other, obj, inner
        done.append(True)

    done: list[bool] = []
    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=deep)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(60)
    assert done


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
        pod = informer.indexer.get_by_key("default/a")
        assert (pod.uid, pod.resource_version, pod.labels) == (WHOLE["metadata"]["uid"], "7", {"t": "1"}), name
        assert informer.stats()["transform_errors"] == 0


@behaviour("faster/FA13")
def test_of_duplicates_the_last_counts_compressed_or_not():
    body = page_of()["json"]
    assert body.endswith(b"}]}")
    metadata = json.dumps(WHOLE["metadata"]).encode()
    body = body[:-3] + b', "status": {"phase": "Older", "phase": "Last"}, "metadata": ' + metadata + b"}]}"
    for informer, compressed in ((informer_of(body), 0), (replace(replace(compressing()), body), 1)):
        assert informer.stats()["compressed_objects"] == compressed
        (pod,) = informer.indexer.list()
        assert pod.get_path("status", "phase") == "Last"
        (pod,) = informer.indexer.list()
        assert pod.get_path("metadata", "name") == "a"
        assert pod.get_path("metadata", "missing") is None
        assert pod.get_path("missing", "phase") is None
        assert pod.to_dict() == {**WHOLE, "status": {"phase": "Last"}}
