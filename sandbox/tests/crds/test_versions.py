"""The versions of a CRD: conversion, storage, serving, deprecation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import Api
from tests.support.waiting import eventually


@pytest.fixture
def versions(api: Api, make_crd: Callable[..., Crd]) -> Crd:
    crd = make_crd()
    crd.body["spec"]["versions"].append(
        {**copy.deepcopy(crd.body["spec"]["versions"][0]), "name": "v2", "storage": False}
    )
    return crd.establish()


@pytest.mark.behaviour("sandbox/CD-20")
@pytest.mark.behaviour("sandbox/CD-22")
def test_one_object_in_two_versions(api: Api, ns: str, versions: Crd) -> None:
    old = api.post(versions.path(ns), versions.obj(size=1)).expect(201)
    event = api.watch(versions.path(ns, "", "v2")).next()
    assert event["type"] == "ADDED"
    for two in (api.get(versions.path(ns, "a", "v2")).expect(200), event["object"]):
        assert (two["apiVersion"], two["spec"]) == (f"{versions.group}/v2", {"size": 1})
        for name in ("uid", "resourceVersion"):
            assert two["metadata"][name] == old["metadata"][name]
    body = api.get(versions.url).json()
    first, second = body["spec"]["versions"]
    first["storage"], second["storage"] = False, True
    body = api.put(versions.url, body).expect(200)
    assert body["status"]["storedVersions"] == ["v1", "v2"]
    assert api.get(versions.url).json()["status"]["storedVersions"] == ["v1", "v2"]
    del body["spec"]["versions"][0]
    api.put(versions.url, body).fails(422, "Invalid")
    assert api.get(versions.path(ns, "a")).expect(200)["apiVersion"] == f"{versions.group}/v1"


@pytest.mark.behaviour("sandbox/CD-21")
@pytest.mark.parametrize(("unserved", "served"), [("v1", "v2"), ("v2", "v1")])
def test_an_unserved_version(api: Api, ns: str, versions: Crd, unserved: str, served: str) -> None:
    # v1 is the storage version, served or not.
    metadata = api.post(versions.path(ns), versions.obj(size=1)).expect(201)["metadata"]
    body = api.get(versions.url).json()
    next(version for version in body["spec"]["versions"] if version["name"] == unserved)["served"] = False
    api.put(versions.url, body).expect(200)
    eventually(lambda: api.get(versions.path(ns, "a", unserved)).status == 404)
    assert api.get(versions.path(ns, "", unserved)).status == 404
    assert api.get(f"/apis/{versions.group}/{unserved}").status == 404
    group = api.get(f"/apis/{versions.group}").expect(200)
    assert [item["version"] for item in group["versions"]] == [served]
    (listed,) = (group for group in api.get("/apis").json()["groups"] if group["name"] == versions.group)
    assert [item["version"] for item in listed["versions"]] == [served]
    assert api.get(versions.path(ns, "a", served)).expect(200)["metadata"]["uid"] == metadata["uid"]


@pytest.mark.behaviour("sandbox/CD-27")
def test_a_deprecated_version_sends_its_warning(api: Api, ns: str, versions: Crd) -> None:
    body = api.get(versions.url).json()
    body["spec"]["versions"][0].update(deprecated=True, deprecationWarning="use something else")
    api.put(versions.url, body).expect(200)
    eventually(lambda: api.get(versions.path(ns)).warnings == ['299 - "use something else"'])
    assert api.get(versions.path(ns, "", "v2")).warnings == []


@pytest.mark.behaviour("findings/FS16")
def test_the_warning_of_a_deprecated_version_names_the_best_newer_one(
    each_api: Api, namespace: str, each_crd: Callable[..., Crd]
) -> None:
    crd = each_crd(deprecated=True)
    body, path = each_api.get(crd.url).json(), crd.path(namespace)
    old = f"{crd.group}/v1 Widget is deprecated"

    def add(name: str, **changes: Any) -> None:
        new = {**body["spec"]["versions"][0], "name": name, "storage": False, "deprecated": False, **changes}
        body["spec"]["versions"].append(new)
        body["metadata"].pop("resourceVersion", None)
        each_api.patch(crd.url, {"spec": body["spec"]}).expect(200)

    def warned(text: str) -> None:
        eventually(lambda: each_api.get(path).warnings == [f'299 - "{text}"'], 30)

    warned(old)
    # Older, deprecated and unserved versions are no replacement.
    add("v1beta1")
    add("v4", deprecated=True)
    add("v5", served=False)
    add("v2")
    warned(f"{old}; use {crd.group}/v2 Widget")
    add("v3")
    warned(f"{old}; use {crd.group}/v3 Widget")
