"""What is deleted before what: circles of owners, and the pods of a namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_client import Api
from tests.support.objects import config_map, core, pod
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("findings/FS29")
FINALIZER = "t.example.org/hold"


def owned_by(owner: dict[str, Any]) -> dict[str, Any]:
    reference = {key: owner["metadata"][key] for key in ("name", "uid")}
    reference |= {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return {"metadata": {"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}}


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_circle_of_owners_is_deleted_in_the_foreground(api: Api, ns: str, size: int) -> None:
    paths = [core(ns, "configmaps", f"c{index}") for index in range(size)]
    config_maps = [api.post(core(ns, "configmaps"), config_map(f"c{index}")).expect(201) for index in range(size)]
    for index, path in enumerate(paths):
        api.patch(path, owned_by(config_maps[index - 1])).expect(200)
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": config_maps[0]["metadata"]["uid"]}}
    api.delete(paths[0], options).expect(200)
    for path in paths:
        api.gone(path)


def test_a_blocking_dependent_outside_of_a_circle_is_still_waited_for(api: Api, ns: str) -> None:
    owner, dependent, last = (core(ns, "configmaps", name) for name in "abc")
    config_maps = [api.post(core(ns, "configmaps"), config_map(name)).expect(201) for name in "abc"]
    api.patch(dependent, owned_by(config_maps[0])).expect(200)
    api.patch(last, owned_by(config_maps[1])).expect(200)
    api.patch(last, {"metadata": {"finalizers": [FINALIZER]}}).expect(200)
    api.delete(owner, {"propagationPolicy": "Foreground"}).expect(200)
    eventually(lambda: "deletionTimestamp" in api.get(last).expect(200)["metadata"])
    for path in (owner, dependent):
        assert api.get(path).expect(200)["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.patch(last, {"metadata": {"finalizers": None}}).expect(200)
    for path in (last, dependent, owner):
        api.gone(path)


def test_a_namespace_loses_its_pods_before_everything_else(api: Api, ns: str) -> None:
    held, other = core(ns, "pods", "p"), core(ns, "configmaps", "a")
    api.post(core(ns, "pods"), {**pod(), "metadata": {"name": "p", "finalizers": [FINALIZER]}}).expect(201)
    api.post(core(ns, "configmaps"), config_map("a")).expect(201)
    namespace = f"/api/v1/namespaces/{ns}"
    api.delete(namespace).expect(200)

    def conditions() -> dict[str, str]:
        return {
            condition["type"]: condition["status"]
            for condition in api.get(namespace).json()["status"].get("conditions") or ()
        }

    eventually(conditions)
    assert "NamespaceDeletionContentFailure" in conditions()
    assert api.get(namespace).json()["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in api.get(held).expect(200)["metadata"]
    assert "deletionTimestamp" not in api.get(other).expect(200)["metadata"]
    api.patch(held, {"metadata": {"finalizers": None}}).expect(200)
    for path in (held, other, namespace):
        api.gone(path)
