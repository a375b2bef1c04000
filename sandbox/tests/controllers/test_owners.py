"""Owners that the garbage collector cannot find, on the sandbox and on a real kube-apiserver with its controllers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.control_plane import ControlPlane, KubeApiserver
from tests.support.http_client import Api
from tests.support.objects import config_map, core
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@dataclass
class Family:
    """An owner in a namespace, and a way to make dependents."""

    api: Api
    namespace: str
    owner: dict[str, Any]

    def reference(self, **changes: Any) -> dict[str, Any]:
        metadata = self.owner["metadata"]
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"], **changes}

    def add(self, name: str, *references: dict[str, Any], namespace: str = "") -> str:
        """Make a ConfigMap with these owners; return its path."""
        namespace = namespace or self.namespace
        body = config_map(name, ownerReferences=list(references))
        self.api.post(core(namespace, "configmaps"), body).expect(201)
        return core(namespace, "configmaps", name)

    def delete_owner(self) -> None:
        """Delete the owner, and wait until an ordinary dependent is gone: the garbage collector has worked."""
        ordinary = self.add("ordinary", self.reference())
        self.api.delete(core(self.namespace, "configmaps", "owner"), propagationPolicy="Background").expect(200)
        self.api.gone(ordinary)

    def settle(self) -> None:
        """Wait until the garbage collector has handled what was made before."""
        self.api.gone(self.add(f"stray-{uuid.uuid4().hex[:8]}", self.reference(uid=str(uuid.uuid4()))))

    def reports(self, name: str, namespace: str) -> list[dict[str, Any]]:
        """Return the Events about an owner in another namespace."""
        events = self.api.get(core(namespace, "events"), fieldSelector=f"involvedObject.name={name}").json()["items"]
        return [event for event in events if event["reason"] == "OwnerRefInvalidNamespace"]


@pytest.fixture
def family(control_plane: ControlPlane, namespace: str) -> Iterator[Family]:
    """An owner on each server."""
    if isinstance(control_plane, KubeApiserver):
        control_plane.start_controllers()
    with api_of(control_plane.kubeconfig) as api:
        owner = api.post(core(namespace, "configmaps"), config_map("owner")).expect(201)
        yield Family(api, namespace, owner)


@pytest.mark.behaviour("findings3/NS3")
def test_a_cluster_scoped_child_of_a_namespaced_owner_stays(family: Family) -> None:
    name = f"child-of-{family.namespace}"
    body = {"metadata": {"name": name, "ownerReferences": [family.reference()]}, "rules": []}
    family.api.post(ROLES, body).expect(201)
    never = {"metadata": {"name": f"{name}-never", "ownerReferences": [family.reference(uid=str(uuid.uuid4()))]}}
    family.api.post(ROLES, {**never, "rules": []}).expect(201)
    (report,) = eventually(lambda: family.reports(name, "default"))
    assert (report["type"], report["source"]) == ("Warning", {"component": "garbage-collector-controller"})
    assert report["involvedObject"]["kind"] == "ClusterRole"
    assert "namespace" not in report["involvedObject"]
    uid = family.owner["metadata"]["uid"]
    owner = f"[v1/ConfigMap, namespace: , name: owner, uid: {uid}]"
    assert report["message"] == f'ownerRef {owner} does not exist in namespace ""'
    family.delete_owner()
    family.settle()
    for path in (f"{ROLES}/{name}", f"{ROLES}/{name}-never"):
        assert len(family.api.get(path).expect(200)["metadata"]["ownerReferences"]) == 1
        family.api.delete(path).expect(200)


@pytest.mark.behaviour("findings3/NB5")
def test_a_child_of_an_owner_in_another_namespace_is_collected_with_an_event(family: Family) -> None:
    other = f"{family.namespace}-other"
    family.api.post("/api/v1/namespaces", {"metadata": {"name": other}}).expect(201)
    family.api.gone(family.add("child", family.reference(), namespace=other))
    (report,) = eventually(lambda: family.reports("child", other))
    owner = f"[v1/ConfigMap, namespace: {other}, name: owner, uid: {family.owner['metadata']['uid']}]"
    assert report["message"] == f'ownerRef {owner} does not exist in namespace "{other}"'
    assert (report["type"], report["involvedObject"]["namespace"]) == ("Warning", other)
    assert report["reportingComponent"] == "garbage-collector-controller"
    family.api.get(core(family.namespace, "configmaps", "owner")).expect(200)


@pytest.mark.behaviour("findings3/NB5")
def test_an_owner_of_another_kind_or_name_with_the_right_uid_is_none(family: Family) -> None:
    family.api.gone(family.add("secret", family.reference(kind="Secret")))
    family.api.gone(family.add("deployment", family.reference(apiVersion="apps/v1", kind="Deployment")))
    family.api.gone(family.add("other-name", family.reference(name="other")))


@pytest.mark.behaviour("findings3/NB5")
def test_children_of_owners_that_are_not_served_stay(family: Family, each_crd: Callable[..., Crd]) -> None:
    crd, unknown = each_crd(), str(uuid.uuid4())
    missing = family.reference(name="missing", uid=str(uuid.uuid4()))
    group = {"apiVersion": "nonesuch.example.org/v1", "kind": "Nonesuch", "name": "x", "uid": unknown}
    version = {"apiVersion": f"{crd.group}/v7", "kind": crd.kind, "name": "x", "uid": unknown}
    kept = [
        family.add("group", group),
        family.add("version", version),
        # The uid alone does not make an owner.
        family.add("kind", family.reference(apiVersion="nonesuch.example.org/v1", kind="Nonesuch")),
        family.add("missing", missing, group),
        family.add("deleted", family.reference(), version),
    ]
    family.delete_owner()
    family.settle()
    assert [family.api.get(path).status for path in kept] == [200] * len(kept)
    assert len(family.api.get(kept[-1]).json()["metadata"]["ownerReferences"]) == 2


@pytest.mark.behaviour("findings3/NB5")
def test_children_are_collected_once_the_kind_of_their_owner_is_served(
    api: Api, ns: str, make_crd: Callable[..., Crd]
) -> None:
    crd = make_crd()
    reference = {"apiVersion": f"{crd.group}/v1", "kind": crd.kind, "name": "x", "uid": str(uuid.uuid4())}
    api.post(core(ns, "configmaps"), config_map("early", ownerReferences=[reference])).expect(201)
    crd.establish()
    api.gone(core(ns, "configmaps", "early"))


@pytest.mark.behaviour("findings3/NB5")
def test_children_go_with_owners_whose_kind_is_removed(api: Api, ns: str, widgets: Crd) -> None:
    owner = api.post(widgets.path(ns), widgets.obj()).expect(201)
    reference = {
        "apiVersion": f"{widgets.group}/v1",
        "kind": widgets.kind,
        "name": "a",
        "uid": owner["metadata"]["uid"],
    }
    paths = [core(ns, "configmaps", f"child-{index}") for index in range(120)]
    for path in paths:
        api.post(core(ns, "configmaps"), config_map(path.rpartition("/")[2], ownerReferences=[reference])).expect(201)
    api.delete(widgets.url).expect(200)
    assert all(api.gone(path) for path in paths)
