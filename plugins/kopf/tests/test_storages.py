"""Storages and differences beside those of the installed kopf: the same names, values and patches."""

from __future__ import annotations

import copy
import json
from typing import Any

import ctrlhost_kopf
import kopf
import pytest
from ctrlhost_kopf.diffs import diff
from kopf._cogs.structs import diffs as kopf_diffs

pytestmark = pytest.mark.behaviour("kopf/KO2")

#: Ids as kopf makes them: short, long, of fields, of lambdas, of subhandlers.
IDS = [
    "create_fn",
    "create_fn/spec.field",
    "module.<locals>.create_fn",
    "parent/child/grandchild",
    "lambda:/a/path/of/some/file.py:12",
    "a" * 64,
    "a-very-long-name-of-a-handler-that-does-not-fit/spec.some.field.that.is/even.longer",
]
PREFIXES = ["kopf.zalando.org", "kopf.dev", "example.com", "a-long-name-of-an-operator.with-a-long-domain.example.com"]
DIFF_BASES: list[tuple[str, dict[str, Any]]] = [
    ("AnnotationsDiffBaseStorage", {}),
    ("AnnotationsDiffBaseStorage", {"prefix": "example.com", "key": "last", "ignored_fields": ["spec.a"]}),
    ("AnnotationsDiffBaseStorage", {"prefix": PREFIXES[-1], "v1": False}),
    ("StatusDiffBaseStorage", {}),
    ("StatusDiffBaseStorage", {"name": "mine"}),
    ("StatusDiffBaseStorage", {"field": "status.some.field", "ignored_fields": [("metadata", "labels")]}),
]
PROGRESSES: list[tuple[str, dict[str, Any]]] = [
    ("AnnotationsProgressStorage", {}),
    ("AnnotationsProgressStorage", {"prefix": "example.com", "verbose": True, "touch_key": "touched"}),
    ("AnnotationsProgressStorage", {"prefix": PREFIXES[-1], "v1": False}),
    ("StatusProgressStorage", {}),
    ("StatusProgressStorage", {"name": "mine", "touch_field": "status.touched"}),
    ("SmartProgressStorage", {}),
    ("SmartProgressStorage", {"prefix": "example.com", "name": "mine"}),
]
RECORD: Any = {
    "started": "2020-01-01T00:00:00.000000+00:00",
    "stopped": None,
    "delayed": "2020-01-01T00:01:00.000000+00:00",
    "purpose": "create",
    "retries": 1,
    "success": False,
    "failure": False,
    "message": "one",
    "subrefs": None,
}
BODY: dict[str, Any] = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {
        "name": "ex",
        "uid": "1",
        "finalizers": ["other"],
        "labels": {"a": "b"},
        "annotations": {
            "mine": "1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "other.kopf.zalando.org/create_fn": "{}",
            "marked.example.com/kopf-managed": "yes",
            "marked.example.com/anything": "1",
            "example.com/own": "1",
        },
    },
    "spec": {"a": 1, "b": {"c": [1, 2]}},
    "status": {"kopf": {"progress": {"create_fn": {"retries": 1}}}, "some": {"field": "{}"}, "x": 1},
}
BODIES = {
    "all": BODY,
    "bare": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ex"}, "data": {"a": "b"}},
    "replica set": {
        **BODY,
        "kind": "ReplicaSet",
        "metadata": {**BODY["metadata"], "ownerReferences": [{"kind": "Deployment", "name": "owner"}]},
    },
}


def both(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    return getattr(kopf, name)(**options), getattr(ctrlhost_kopf, name)(**options)


def merged(body: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the object after a merge patch."""
    result = copy.deepcopy(body)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("key", IDS)
def test_annotations_have_the_names_of_kopf(prefix: str, key: str) -> None:
    theirs, ours = both("AnnotationsProgressStorage", {"prefix": prefix})
    for body in BODIES.values():
        assert ours.make_keys(key, body=body) == list(theirs.make_keys(key, body=kopf.Body(body)))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("name", "options"), DIFF_BASES)
def test_the_last_handled_configuration_is_that_of_kopf(name: str, options: dict[str, Any], body: str) -> None:
    theirs, ours = both(name, options)
    raw = BODIES[body]
    fields = [("status", "x"), ("spec", "missing")]
    essence = theirs.build(body=kopf.Body(raw), extra_fields=fields)
    assert ours.build(body=ctrlhost_kopf.Body(raw), extra_fields=fields) == essence
    their_patch, our_patch = kopf.Patch(), ctrlhost_kopf.Patch()
    theirs.store(body=kopf.Body(raw), patch=their_patch, essence=essence)
    ours.store(body=ctrlhost_kopf.Body(raw), patch=our_patch, essence=essence)
    assert dict(our_patch) == dict(their_patch)
    stored = merged(raw, our_patch)
    assert theirs.fetch(body=kopf.Body(stored)) == ours.fetch(body=ctrlhost_kopf.Body(stored)) == essence
    assert ours.build(body=ctrlhost_kopf.Body(stored)) == theirs.build(body=kopf.Body(stored))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("name", "options"), PROGRESSES)
def test_the_progress_is_that_of_kopf(name: str, options: dict[str, Any], body: str) -> None:
    theirs, ours = both(name, options)
    raw = BODIES[body]
    their_body, our_body = kopf.Body(raw), ctrlhost_kopf.Body(raw)
    assert ours.fetch(key="create_fn", body=our_body) == theirs.fetch(key="create_fn", body=their_body)
    their_patch, our_patch = kopf.Patch(), ctrlhost_kopf.Patch()
    for storage, seen, patch in ((theirs, their_body, their_patch), (ours, our_body, our_patch)):
        for key in IDS:
            storage.store(key=key, record=RECORD, body=seen, patch=patch)
        storage.touch(body=seen, patch=patch, value="now")
    assert dict(our_patch) == dict(their_patch)
    stored = merged(raw, our_patch)
    after = [(theirs, kopf.Body(stored), kopf.Patch()), (ours, ctrlhost_kopf.Body(stored), ctrlhost_kopf.Patch())]
    for storage, seen, patch in after:
        assert {key: storage.fetch(key=key, body=seen) for key in IDS} == {
            key: theirs.fetch(key=key, body=kopf.Body(stored)) for key in IDS
        }
        for key in [*IDS, "unknown"]:
            storage.purge(key=key, body=seen, patch=patch)
        storage.touch(body=seen, patch=patch, value=None)
    assert dict(after[0][2]) == dict(after[1][2])
    assert ours.clear(essence=copy.deepcopy(stored)) == theirs.clear(essence=copy.deepcopy(stored))


def test_several_storages_read_the_first_and_write_all() -> None:
    for module in (kopf, ctrlhost_kopf):
        bases = [module.AnnotationsDiffBaseStorage(prefix="example.com"), module.StatusDiffBaseStorage()]
        storage, patch = module.MultiDiffBaseStorage(bases), module.Patch()
        essence = storage.build(body=module.Body(BODY))
        storage.store(body=module.Body(BODY), patch=patch, essence=essence)
        stored = merged(BODY, patch)
        assert storage.fetch(body=module.Body(stored)) == bases[1].fetch(body=module.Body(stored)) == essence
        assert json.loads(stored["metadata"]["annotations"]["example.com/last-handled-configuration"]) == essence


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, {"spec": {"a": 1}}),
        ({"spec": {"a": 1}}, None),
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 2, "c": 3}}),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": {"b": 2}, "x": {"y": 1}}}),
        ({"spec": {"a": {"b": {"c": 1}}}}, {"spec": {}}),
        ({"spec": [1]}, {"spec": [2]}),
        ({"spec": {"a": 1}}, {"spec": {"a": 1}}),
    ],
)
def test_differences_are_those_of_kopf(old: Any, new: Any) -> None:
    theirs, ours = kopf_diffs.diff(old, new), diff(old, new)
    assert sorted(ours, key=repr) == sorted(map(tuple, theirs), key=repr)
    for path in ((), ("spec",), ("spec", "a"), ("spec", "a", "b"), ("status",)):
        reduced = kopf_diffs.reduce(theirs, path)
        assert sorted(ours.reduce(path), key=repr) == sorted(map(tuple, reduced), key=repr)
