"""Watches and lists of custom objects by their names and their selectable fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import Api, Events, names

pytestmark = pytest.mark.behaviour("findings/FS29")


def seen(watch: Events, count: int) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in watch.take(count)]


def test_a_watch_of_one_name_sees_nothing_of_another(api: Api, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(scope="Cluster").establish()
    path = f"/apis/{crd.group}/v1/{crd.plural}"
    watches = {name: api.watch(path, fieldSelector=f"metadata.name={name}") for name in ("a", "b")}
    for name in watches:
        api.post(path, crd.obj(name)).expect(201)
    for name in watches:
        patch = [{"op": "add", "path": "/spec", "value": {"size": 1}}]
        api.patch(f"{path}/{name}", patch, "application/json-patch+json").expect(200)
    for name in watches:
        api.delete(f"{path}/{name}").expect(200)
    for name, watch in watches.items():
        assert seen(watch, 3) == [("ADDED", name), ("MODIFIED", name), ("DELETED", name)]


def test_each_version_has_its_own_selectable_fields(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(selectableFields=[{"jsonPath": ".spec.color"}])
    (version,) = crd.body["spec"]["versions"]
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]
    # Versions with the same schema must have the same selectable fields.
    schema = {"openAPIV3Schema": {**version["schema"]["openAPIV3Schema"], "description": "the second"}}
    second = {"name": "v2", "storage": False, "schema": schema, "selectableFields": fields}
    crd.body["spec"]["versions"].append({**version, **second})
    crd.establish()
    first, newer = crd.path(ns), crd.path(ns, version="v2")
    in_first = api.watch(first, fieldSelector="spec.color=red")
    in_second = api.watch(newer, fieldSelector="spec.color=red,spec.size=1")
    api.get(first, fieldSelector="spec.size=1").fails(400, "BadRequest")
    for name, color, size in (("a", "red", 1), ("b", "red", 2), ("c", "blue", 1)):
        body = {**crd.obj(name, color=color, size=size), "apiVersion": f"{crd.group}/v2"}
        api.post(newer, body).expect(201)
    assert names(api.get(first, fieldSelector="spec.color=red")) == ["a", "b"]
    assert names(api.get(newer, fieldSelector="spec.color=red,spec.size=1")) == ["a"]
    # One is deleted, the other one leaves the selection: a watch sees the end of both.
    api.delete(newer, fieldSelector="spec.color=red,spec.size=1").expect(200)
    api.patch(crd.path(ns, "b", "v2"), {"spec": {"color": "blue"}}).expect(200)
    assert names(api.get(first, fieldSelector="spec.color=red")) == []
    assert names(api.get(newer, fieldSelector="spec.color=blue")) == ["b", "c"]
    assert seen(in_first, 4) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")]
    assert seen(in_second, 2) == [("ADDED", "a"), ("DELETED", "a")]
