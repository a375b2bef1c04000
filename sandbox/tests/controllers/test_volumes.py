"""Claims are bound to volumes that store nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox

from tests.support.http_client import Api, names
from tests.support.objects import apps, core, persistent_volume_claim, pod, stateful_set
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.workload_clusters import pods, ready, reasons

VOLUMES = "/api/v1/persistentvolumes"
CLAIM = "PersistentVolumeClaim"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def phase(api: Api, path: str) -> str:
    return str(api.get(path).json().get("status", {}).get("phase"))


def claim(api: Api, ns: str, name: str = "c", **spec: Any) -> str:
    api.post(core(ns, "persistentvolumeclaims"), persistent_volume_claim(name, **spec)).expect(201)
    return core(ns, "persistentvolumeclaims", name)


def bound(api: Api, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Wait until a claim is bound; return it and its volume."""
    eventually(lambda: phase(api, path) == "Bound")
    obj = api.get(path).expect(200)
    return obj, api.get(f"{VOLUMES}/{obj['spec']['volumeName']}").expect(200)


def volume(name: str, size: str = "5Gi", **spec: Any) -> dict[str, Any]:
    places = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**places, **spec}}


def using(name: str, claims: list[str], **spec: Any) -> dict[str, Any]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return pod(name, nodeSelector={}, volumes=volumes, **spec)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_a_claim_is_bound_to_a_simulated_volume(api: Api, ns: str) -> None:
    path = claim(api, ns, size="3Gi", accessModes=["ReadWriteMany"])
    obj, bound_to = bound(api, path)
    assert obj["spec"]["storageClassName"] == "standard"
    assert obj["status"]["capacity"] == {"storage": "3Gi"}
    assert obj["status"]["accessModes"] == ["ReadWriteMany"]
    assert obj["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    spec = bound_to["spec"]
    assert bound_to["metadata"]["name"] == f"pvc-{obj['metadata']['uid']}"
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "3Gi"}, ["ReadWriteMany"])
    assert (spec["persistentVolumeReclaimPolicy"], spec["storageClassName"]) == ("Delete", "standard")
    assert (spec["claimRef"]["name"], spec["claimRef"]["uid"]) == ("c", obj["metadata"]["uid"])
    eventually(lambda: phase(api, f"{VOLUMES}/{bound_to['metadata']['name']}") == "Bound")
    assert "ProvisioningSucceeded" in reasons(api, ns, CLAIM)
    # The volume is deleted with its claim.
    api.delete(path).expect(200)
    api.gone(path)
    api.gone(f"{VOLUMES}/{bound_to['metadata']['name']}")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_a_claim_takes_the_smallest_volume_that_fits(api: Api, ns: str) -> None:
    api.post(VOLUMES, volume(f"{ns}-large", "50Gi", storageClassName=ns)).expect(201)
    api.post(VOLUMES, volume(f"{ns}-small", "5Gi", storageClassName=ns)).expect(201)
    api.post(VOLUMES, volume(f"{ns}-tiny", "1Gi", storageClassName=ns)).expect(201)
    eventually(lambda: phase(api, f"{VOLUMES}/{ns}-small") == "Available")
    path = claim(api, ns, size="2Gi", storageClassName=ns)
    obj, bound_to = bound(api, path)
    assert bound_to["metadata"]["name"] == f"{ns}-small"
    assert obj["status"]["capacity"] == {"storage": "5Gi"}
    # A volume that is retained stays after its claim, and is not used again.
    api.delete(path).expect(200)
    eventually(lambda: phase(api, f"{VOLUMES}/{ns}-small") == "Released")
    _, other = bound(api, claim(api, ns, "d", size="2Gi", storageClassName=ns))
    assert other["metadata"]["name"] == f"{ns}-large"


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_a_claim_waits_for_a_volume_that_fits(api: Api, ns: str, server: Sandbox) -> None:
    path = claim(api, ns, storageClassName="")
    eventually(lambda: "FailedBinding" in reasons(api, ns, CLAIM) and server.at_rest)
    assert phase(api, path) == "Pending"
    reserved = {"claimRef": {"namespace": ns, "name": "c"}}
    api.post(VOLUMES, volume(f"{ns}-mine", **reserved)).expect(201)
    _, bound_to = bound(api, path)
    assert bound_to["metadata"]["name"] == f"{ns}-mine"
    missing = claim(api, ns, "d", storageClassName=f"{ns}-class")
    eventually(lambda: "ProvisioningFailed" in reasons(api, ns, CLAIM) and server.at_rest)
    assert phase(api, missing) == "Pending"
    api.post(CLASSES, {"metadata": {"name": f"{ns}-class"}, "provisioner": "t.example.org/any"}).expect(201)
    bound(api, missing)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_a_claim_waits_for_its_first_consumer(api: Api, ns: str, server: Sandbox) -> None:
    late = {"provisioner": "t.example.org/any", "volumeBindingMode": "WaitForFirstConsumer"}
    api.post(CLASSES, {"metadata": {"name": f"{ns}-late"}, **late}).expect(201)
    path = claim(api, ns, storageClassName=f"{ns}-late")
    eventually(lambda: "WaitForFirstConsumer" in reasons(api, ns, CLAIM) and server.at_rest)
    assert phase(api, path) == "Pending"
    api.post(core(ns, "pods"), using("p", ["c"])).expect(201)
    bound(api, path)
    eventually(lambda: ready(api.get(core(ns, "pods", "p")).json()))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_pods_wait_for_their_claims_and_protect_them(api: Api, ns: str, server: Sandbox) -> None:
    api.post(core(ns, "pods"), using("p", ["c"])).expect(201)
    eventually(lambda: server.at_rest)
    assert "nodeName" not in api.get(core(ns, "pods", "p")).json()["spec"]
    path = claim(api, ns)
    eventually(lambda: ready(api.get(core(ns, "pods", "p")).json()))
    api.delete(path).expect(200)
    eventually(lambda: server.at_rest)
    assert api.get(path).expect(200)["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    api.delete(core(ns, "pods", "p")).expect(200)
    api.gone(path)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_claims_are_deleted_without_workloads_too(tmp_path: Any) -> None:
    with Sandbox(options=Options()) as sandbox, api_of(sandbox.kubeconfig) as api:
        path = claim(api, "default")
        api.post(VOLUMES, volume("v")).expect(201)
        eventually(lambda: sandbox.at_rest)
        assert phase(api, path) == "Pending"
        for url in (path, f"{VOLUMES}/v"):
            api.delete(url).expect(200)
            api.gone(url)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
@pytest.mark.parametrize("scaled", ["Retain", "Delete"])
@pytest.mark.parametrize("deleted", ["Retain", "Delete"])
def test_claims_of_stateful_sets(api: Api, ns: str, server: Sandbox, scaled: str, deleted: str) -> None:
    template = {"metadata": {"name": "data", "labels": {"k": "v"}}, "spec": persistent_volume_claim()["spec"]}
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    body = stateful_set(replicas=2, volumeClaimTemplates=[template], persistentVolumeClaimRetentionPolicy=policy)
    api.post(apps(ns, "statefulsets"), body).expect(201)
    eventually(lambda: sum(map(ready, pods(api, ns))) == 2)
    listed = core(ns, "persistentvolumeclaims")
    assert names(api.get(listed)) == ["data-x-0", "data-x-1"]
    assert all(volume["metadata"]["labels"] == {"k": "v", "app": "x"} for volume in api.get(listed).json()["items"])
    first = api.get(f"{listed}/data-x-0").json()["metadata"]["uid"]
    assert {volume["status"]["phase"] for volume in api.get(listed).json()["items"]} == {"Bound"}
    api.patch(apps(ns, "statefulsets", "x"), {"spec": {"replicas": 1}}).expect(200)
    eventually(lambda: len(pods(api, ns)) == 1)
    left = ["data-x-0"] if scaled == "Delete" else ["data-x-0", "data-x-1"]
    eventually(lambda: names(api.get(listed)) == left)
    # A pod's successor uses its claim again.
    api.delete(core(ns, "pods", "x-0")).expect(200)
    eventually(lambda: [ready(pod) for pod in pods(api, ns)] == [True] and server.at_rest)
    assert api.get(f"{listed}/data-x-0").json()["metadata"]["uid"] == first
    api.delete(apps(ns, "statefulsets", "x")).expect(200)
    eventually(lambda: not pods(api, ns) and server.at_rest)
    if deleted == "Delete":
        eventually(lambda: "data-x-0" not in names(api.get(listed)))
    else:
        assert names(api.get(listed)) == left


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2c")
def test_a_class_of_attributes_is_kept_while_a_claim_names_it(api: Api, ns: str, server: Sandbox) -> None:
    attributes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    api.post(attributes, {"metadata": {"name": ns}, "driverName": "t.example.org", "parameters": {"a": "b"}}).expect(
        201
    )
    path = claim(api, ns, storageClassName="", volumeAttributesClassName=ns)
    api.delete(f"{attributes}/{ns}").expect(200)
    eventually(lambda: server.at_rest)
    assert "deletionTimestamp" in api.get(f"{attributes}/{ns}").expect(200)["metadata"]
    api.delete(path).expect(200)
    api.gone(f"{attributes}/{ns}")
