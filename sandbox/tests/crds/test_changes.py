"""Changes of a CRD while its kind is watched, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory
from sandbox.tests.conftest import Crd
from tests.support.http_client import Api, Events
from tests.support.waiting import eventually

Change = Callable[[dict[str, Any]], Any]


def first(spec: dict[str, Any]) -> dict[str, Any]:
    version: dict[str, Any] = spec["versions"][0]
    return version


def version(name: str, **changes: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **changes}


CHANGES: dict[str, Change] = {
    "schema": lambda spec: first(spec)["schema"]["openAPIV3Schema"].update(description="x"),
    "schema of the other version": lambda spec: spec["versions"][1].update(version("v2", deprecated=True)),
    "new version": lambda spec: spec["versions"].append(version("v3")),
    "version no longer served": lambda spec: spec["versions"][1].update(served=False),
    "storage version": lambda spec: (first(spec).update(storage=False), spec["versions"][1].update(storage=True)),
    "short name": lambda spec: spec["names"].update(shortNames=["wdgt"]),
    "category": lambda spec: spec["names"].update(categories=["all"]),
    "subresource": lambda spec: first(spec).update(subresources={}),
    "column": lambda spec: first(spec).update(
        additionalPrinterColumns=[{"name": "S", "type": "integer", "jsonPath": ".spec.size"}]
    ),
    "selectable field": lambda spec: first(spec).update(selectableFields=[{"jsonPath": ".spec.color"}]),
}


def changed(api: Api, crd: Crd, change: Change) -> None:
    def write() -> bool:
        body = api.get(crd.url).expect(200)
        change(body["spec"])
        return api.put(crd.url, body).status == 200

    assert eventually(write)


def watches(api: Api, crd: Crd, namespace: str) -> list[Events]:
    """Watch both versions, from now on."""
    paths = [crd.path(namespace, version=name) for name in ("v2", "v1")]

    def opened() -> list[Events] | None:
        # A real server makes the storage of a version when it is first asked for, and answers 429 meanwhile.
        lists = [api.get(path) for path in paths]
        if any(answer.status != 200 for answer in lists):
            return None
        versions = [answer.json()["metadata"]["resourceVersion"] for answer in lists]
        streams = [
            api.watch(path, resourceVersion=start, timeoutSeconds=60)
            for path, start in zip(paths, versions, strict=True)
        ]
        return streams if all(watch.status == 200 for watch in streams) else None

    streams: list[Events] = eventually(opened)
    return streams


@pytest.fixture
def crd(each_crd: Callable[..., Crd]) -> Crd:
    """A CRD with the versions v1 and v2."""
    grown = each_crd()
    changed(grown.api, grown, lambda spec: spec["versions"].append(version("v2")))
    return grown


@pytest.mark.behaviour("findings3/NS4")
@pytest.mark.parametrize("case", CHANGES)
def test_watches_of_all_versions_end_with_a_change(each_api: Api, namespace: str, crd: Crd, case: str) -> None:
    open_watches = watches(each_api, crd, namespace)
    changed(each_api, crd, CHANGES[case])
    # Each stream ends properly and without an error: an incomplete one would raise here.
    assert [watch.rest() for watch in open_watches] == [[], []]


@pytest.mark.behaviour("findings3/NS4")
def test_a_label_of_a_crd_ends_no_watch(each_api: Api, namespace: str, crd: Crd) -> None:
    open_watches = watches(each_api, crd, namespace)
    each_api.patch(crd.url, {"metadata": {"labels": {"a": "b"}}}).expect(200)
    each_api.post(crd.path(namespace), crd.obj()).expect(201)
    assert [watch.next()["type"] for watch in open_watches] == ["ADDED", "ADDED"]


@pytest.mark.behaviour("findings3/NS4")
@pytest.mark.parametrize("case", CHANGES)
def test_informers_continue_without_another_list(api: Api, ns: str, server: Sandbox, make_crd: Any, case: str) -> None:
    crd: Crd = make_crd().establish()
    changed(api, crd, lambda spec: spec["versions"].append(version("v2")))
    api.post(crd.path(ns), crd.obj("before")).expect(201)
    factory = InformerFactory(Client(server.url, server.token, server.ca))
    informer = factory.informer(f"{crd.group}/v1", "Widget", namespaces=[ns])
    with factory:
        assert factory.wait_for_sync(10)
        changed(api, crd, CHANGES[case])
        api.post(crd.path(ns), crd.obj("after")).expect(201)
        eventually(lambda: {widget.name for widget in informer.lister.list()} == {"before", "after"})
        assert informer.status().relists == 0
