"""What the namespace controller creates in each namespace, and the node that pods run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import Api
from tests.support.objects import core, pod
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.workload_clusters import ready


def initial(api: Api, namespace: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return a namespace's account and its ConfigMap of the CA; None while one is missing."""
    account = api.get(core(namespace, "serviceaccounts", "default"))
    authority = api.get(core(namespace, "configmaps", "kube-root-ca.crt"))
    return (account.json(), authority.json()) if (account.status, authority.status) == (200, 200) else None


@pytest.mark.behaviour("findings/FS30")
def test_a_sandbox_that_just_started_has_the_initial_objects() -> None:
    with Sandbox() as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        for namespace in ("default", "kube-node-lease", "kube-public", "kube-system"):
            eventually(lambda namespace=namespace: initial(api, namespace), 5)


@pytest.mark.behaviour("findings/FS30")
def test_a_new_namespace_gets_an_account_and_the_certificate(api: Api, server: Sandbox) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "fresh"}}).expect(201)
    objects = eventually(lambda: initial(api, "fresh"), 5)
    assert objects[1]["data"] == {"ca.crt": server.ca}
    assert "kubernetes.io/description" in objects[1]["metadata"]["annotations"]


@pytest.mark.behaviour("findings/FS30")
def test_deleted_or_changed_initial_objects_are_restored(api: Api, ns: str, server: Sandbox) -> None:
    account, authority = eventually(lambda: initial(api, ns))
    for obj, plural in ((account, "serviceaccounts"), (authority, "configmaps")):
        path = core(ns, plural, obj["metadata"]["name"])
        api.delete(path).expect(200)
        eventually(
            lambda path=path, obj=obj: (
                api.get(path).json()["metadata"].get("uid", obj["metadata"]["uid"]) != obj["metadata"]["uid"]
            )
        )
    path = core(ns, "configmaps", "kube-root-ca.crt")
    api.patch(path, {"data": {"ca.crt": "forged", "more": ""}}).expect(200)
    eventually(lambda: api.get(path).json()["data"] == {"ca.crt": server.ca})


@pytest.mark.behaviour("findings/FS30")
def test_a_restart_publishes_its_own_certificate(tmp_path: Path) -> None:
    path, before = core("default", "configmaps", "kube-root-ca.crt"), ""
    for _ in range(2):
        with Sandbox(data_dir=tmp_path) as sandbox, api_of(sandbox.kubeconfig) as api:
            eventually(lambda api=api, ca=sandbox.ca: api.get(path).json().get("data") == {"ca.crt": ca})
            assert sandbox.ca != before
            before = sandbox.ca


@pytest.mark.behaviour("findings/FS30")
def test_workloads_have_one_ready_and_schedulable_node(api: Api, ns: str) -> None:
    (node,) = api.get("/api/v1/nodes").json()["items"]
    assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}["Ready"] == "True"
    assert not node["spec"].get("unschedulable")
    assert not node["spec"].get("taints")
    api.post(core(ns, "pods"), pod(nodeSelector={})).expect(201)
    eventually(lambda: ready(api.get(core(ns, "pods", "p")).json()))
    assert api.get(core(ns, "pods", "p")).json()["spec"]["nodeName"] == node["metadata"]["name"]
