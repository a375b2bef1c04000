"""Server-side apply: the answers of the sandbox and of a real kube-apiserver to the same requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.compared import Pair
from tests.support.http_client import APPLY, MERGE
from tests.support.objects import config_map, core

MANAGED = {"content_type": APPLY, "fieldManager": "m"}


def applied(pair: Pair, path: str, body: Any, **more: Any) -> tuple[int, dict[str, Any]]:
    return pair.ask("PATCH", path, body, **MANAGED, **more)


@pytest.mark.behaviour("findings/FS5")
@pytest.mark.parametrize("metadata", [None, {}, "missing"])
def test_a_configuration_without_a_name_is_applied_to_the_object_of_the_url(
    pair: Pair, pair_crd: Callable[..., Crd], metadata: Any
) -> None:
    crd = pair_crd()
    path = crd.path(pair.namespace, "a")
    pair.done("POST", crd.path(pair.namespace), crd.obj())
    named = {} if metadata == "missing" else {"metadata": metadata}
    kind = {"apiVersion": f"{crd.group}/v1", "kind": crd.kind, **named}
    for obj in pair.done("PATCH", f"{path}/status", {**kind, "status": {"ready": True}}, **MANAGED):
        assert obj["status"] == {"ready": True}
        (entry,) = obj["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"], entry["subresource"]) == ("m", "Apply", "status")
        assert entry["fieldsV1"] == {"f:status": {"f:ready": {}}}
    for obj in pair.done("PATCH", path, {**kind, "spec": {"size": 2}}, **MANAGED):
        assert (obj["spec"], obj["status"]) == ({"size": 2}, {"ready": True})
    # An object that does not exist needs its name, and has no status.
    assert applied(pair, crd.path(pair.namespace, "b"), kind)[0] == 400
    assert applied(pair, f"{crd.path(pair.namespace, 'b')}/status", kind)[0] == 404


MISFITS: dict[str, dict[str, Any]] = {
    "unknown field": {"foo": 1},
    "unknown metadata": {"metadata": {"name": "a", "foo": 1}},
    "text as metadata": {"metadata": "x"},
    "list as metadata": {"metadata": ["x", 1, None]},
    "number as a name": {"metadata": {"name": 3}},
    "object as a name": {"metadata": {"name": {"b": ["x", True], "a": 1.5}}},
    "other name": {"metadata": {"name": "b"}},
    "other namespace": {"metadata": {"name": "a", "namespace": "other"}},
    "managers": {"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}},
    "text as an object": {"spec": "x"},
    "object as a list": {"spec": {"list": {"a": 1}}},
    "text as a number": {"spec": {"size": "x"}},
    "number as a boolean": {"spec": {"on": 1}},
    "object as a number or text": {"spec": {"either": {"a": 1}}},
    "two problems": {"spec": {"size": "x", "list": [1]}},
    "item twice": {"spec": {"keyed": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}},
    "item without keys": {"spec": {"keyed": [{"size": 1}]}},
    "null as an item": {"spec": {"keyed": [None]}},
    "text as an item": {"spec": {"keyed": ["x"]}},
    "field of an item": {"spec": {"keyed": [{"name": "a", "size": "x"}]}},
    "member twice": {"spec": {"members": ["a", "a"]}},
    "object as a member": {"spec": {"members": [{}]}},
    "list as a member": {"spec": {"members": [[]]}},
    "null as a member": {"spec": {"members": [None]}},
    "no kind": {"kind": None},
    "other kind": {"kind": "Pod"},
    "other version": {"apiVersion": "v2"},
    "other group": {"apiVersion": "example.org/v1"},
}
ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}, "required": ["name"]}
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SPEC = {
    "size": {"type": "integer"},
    "on": {"type": "boolean"},
    "either": {"x-kubernetes-int-or-string": True},
    "list": {"type": "array", "items": {"type": "string"}},
    "keyed": {"type": "array", "items": ITEM, **KEYED},
    "members": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
}


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22e")
def test_a_custom_configuration_that_does_not_fit_is_refused(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}})
    for changes in MISFITS.values():
        body = {**crd.obj(), **changes}
        assert applied(pair, crd.path(pair.namespace, "a"), body)[0] >= 400
    pair.done("PATCH", crd.path(pair.namespace, "a"), crd.obj(size=1), **MANAGED)
    for changes in MISFITS.values():
        for mode in ("Strict", "Warn", "Ignore"):
            body = {**crd.obj(), **changes}
            assert applied(pair, crd.path(pair.namespace, "a"), body, fieldValidation=mode)[0] >= 400


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22e")
@pytest.mark.parametrize("stored", [False, True])
def test_a_built_in_configuration_that_does_not_fit_is_refused(pair: Pair, stored: bool) -> None:
    path = core(pair.namespace, "pods", "a")
    container = {"name": "c", "image": "i"}
    good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    if stored:
        pair.done("PATCH", path, good, **MANAGED)
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]
    for changes in (
        {"foo": 1},
        {"spec": {"containers": [{**container, "foo": 1}]}},
        {"spec": {"containers": [container, container]}},
        {"spec": {"containers": [{**container, "ports": ports}]}},
        {"spec": {"containers": [{**container, "resources": {"limits": {"cpu": []}}}]}},
        {"spec": {"containers": [{**container, "tty": "x"}]}},
        {"spec": {"containers": [container], "activeDeadlineSeconds": {"x": 1}}},
        {"spec": {"containers": "x"}},
        {"spec": 7},
    ):
        assert applied(pair, path, {**good, **changes})[0] >= 400
    for text in (b"- a", b"3", b"x", b"", b"{}"):
        assert applied(pair, path, text)[0] == 400
    assert applied(pair, core(pair.namespace, "configmaps", "c"), {**config_map("c"), "data": {"a": 1}})[0] == 500


@pytest.mark.behaviour("findings/FS5")
@pytest.mark.parametrize("forgotten", [False, True])
def test_an_object_with_duplicates_in_a_list_can_be_applied_to(pair: Pair, *, forgotten: bool) -> None:
    path = core(pair.namespace, "serviceaccounts")
    twice = [{"name": "a"}, {"name": "a"}]
    pair.done("POST", path, {"metadata": {"name": "twice"}, "secrets": twice})
    path = f"{path}/twice"
    if forgotten:
        pair.done("PATCH", path, {"metadata": {"managedFields": [{}]}}, content_type=MERGE)
    wanted = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "twice", "labels": {"x": "y"}}}
    for account in pair.done("PATCH", path, wanted, **MANAGED):
        assert (account["metadata"]["labels"], account["secrets"]) == ({"x": "y"}, twice)
        others = {entry["manager"] for entry in account["metadata"]["managedFields"]} - {"m"}
        assert ("before-first-apply" in others) is forgotten
    # A configuration must not have duplicates.
    assert applied(pair, path, {**wanted, "secrets": twice})[0] == 500
    pair.done("DELETE", path)
