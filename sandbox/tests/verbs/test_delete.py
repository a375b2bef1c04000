"""Delete, deletecollection, dry run, garbage collection, namespaces."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import Api, names
from tests.support.objects import config_map, core, pod, service
from tests.support.waiting import eventually

FINALIZER = "t.example.org/hold"


def release(api: Api, path: str) -> None:
    api.patch(path, {"metadata": {"finalizers": None}}).expect(200)


def owned(owner: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return config_map(name, ownerReferences=[{**reference, "blockOwnerDeletion": True}], **more)


@pytest.mark.behaviour("sandbox/DE-01")
@pytest.mark.behaviour("sandbox/DE-03")
@pytest.mark.behaviour("sandbox/DE-10")
def test_a_deletion_returns_the_name_and_the_uid(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    uid = api.post(core(ns, "configmaps"), config_map()).expect(201)["metadata"]["uid"]
    status = api.delete(path).expect(200)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    api.get(path).fails(404)
    api.delete(path).fails(404, "NotFound")
    assert api.post(core(ns, "configmaps"), config_map()).expect(201)["metadata"]["uid"] != uid


@pytest.mark.behaviour("sandbox/DE-02")
def test_some_kinds_return_the_deleted_object(api: Api, ns: str) -> None:
    account = {"metadata": {"name": "sa"}}
    for plural, body in (("services", service()), ("serviceaccounts", account), ("pods", pod())):
        created = api.post(core(ns, plural), body).expect(201)
        obj = api.delete(core(ns, plural, created["metadata"]["name"])).expect(200)
        assert (obj["kind"], obj["metadata"]["uid"]) == (created["kind"], created["metadata"]["uid"])


@pytest.mark.behaviour("sandbox/DE-04")
@pytest.mark.behaviour("sandbox/DE-05")
@pytest.mark.behaviour("sandbox/DE-09")
def test_a_finalizer_delays_a_deletion(api: Api, ns: str, widgets: Crd) -> None:
    path = widgets.path(ns, "a")
    body = {**widgets.obj(), "metadata": {"name": "a", "finalizers": [FINALIZER]}}
    created = api.post(widgets.path(ns), body).expect(201)["metadata"]
    going = api.delete(path).expect(200)
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    assert going["metadata"]["generation"] == created["generation"] + 1
    assert api.delete(path).expect(200) == api.get(path).expect(200) == going
    assert "is being deleted" in api.post(widgets.path(ns), widgets.obj()).fails(409, "AlreadyExists")["message"]


@pytest.mark.behaviour("sandbox/DE-06")
def test_preconditions(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    metadata = api.post(core(ns, "configmaps"), config_map()).expect(201)["metadata"]
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        status = api.delete(path, {"preconditions": wrong}).fails(409, "Conflict")
        assert status["details"]["kind"] == "ConfigMap"
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    api.delete(path, {"preconditions": right}).expect(200)


@pytest.mark.behaviour("sandbox/DE-07")
@pytest.mark.parametrize(
    ("in_body", "in_query", "held"),
    [
        ({"propagationPolicy": "Foreground"}, {"propagationPolicy": "Foreground"}, [FINALIZER, "foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, {"propagationPolicy": "Orphan"}, [FINALIZER, "orphan"]),
        ({"propagationPolicy": "Background"}, {"propagationPolicy": "Background"}, [FINALIZER]),
        ({"orphanDependents": True}, {"orphanDependents": "true"}, [FINALIZER, "orphan"]),
        ({"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 0}, [FINALIZER]),
        ({"dryRun": ["All"]}, {"dryRun": "All"}, [FINALIZER]),
    ],
)
def test_options_in_the_query_act_like_those_in_the_body(
    api: Api, ns: str, in_body: dict[str, Any], in_query: dict[str, Any], held: list[str]
) -> None:
    left = []
    for name, body, query in (("body", in_body, {}), ("query", None, in_query)):
        path = core(ns, "configmaps", name)
        api.post(core(ns, "configmaps"), config_map(name, finalizers=[FINALIZER])).expect(201)
        answer = api.delete(path, body, **query).expect(200)["metadata"]
        stored = api.get(path).expect(200)["metadata"]
        # What the controllers do next removes their own finalizer only.
        assert FINALIZER in stored["finalizers"]
        left.append([answer["finalizers"], answer.get("deletionGracePeriodSeconds"), "deletionTimestamp" in stored])
    assert left[0] == left[1]
    assert left[0] == [held, 0, "dryRun" not in in_body]


@pytest.mark.behaviour("sandbox/DE-08")
@pytest.mark.behaviour("sandbox/DE-21")
def test_options_in_body_or_query(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    path = core(ns, "configmaps", "a")
    api.delete(path, propagationPolicy="Foo").fails(422)
    api.delete(path, {"propagationPolicy": "Orphan", "orphanDependents": True}).fails(422)
    api.delete(path, dryRun="All", propagationPolicy="Background").expect(200)
    api.get(path).expect(200)
    for version in ({}, {"apiVersion": "v1"}, {"apiVersion": "meta.k8s.io/v1"}):
        kind = {"kind": "DeleteOptions"} if version else {}
        api.delete(path, {**version, **kind, "propagationPolicy": "Background"}).expect(200)
        api.post(core(ns, "configmaps"), config_map()).expect(201)
    # DeleteOptions with propagationPolicy (field 4) Background, as client-go sends it.
    options = b"\x22\x0aBackground"
    envelope = b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12" + bytes([len(options)]) + options
    api.delete(path, envelope, content_type="application/vnd.kubernetes.protobuf").expect(200)
    api.get(path).fails(404)


@pytest.mark.behaviour("sandbox/DE-11")
@pytest.mark.behaviour("sandbox/DE-15")
def test_dependents_are_deleted_with_their_last_owner(api: Api, ns: str) -> None:
    first, second = (api.post(core(ns, "configmaps"), config_map(name)).expect(201) for name in ("o1", "o2"))
    api.post(core(ns, "configmaps"), owned(first, "one")).expect(201)
    both = owned(first, "both")
    both["metadata"]["ownerReferences"] += owned(second, "x")["metadata"]["ownerReferences"]
    api.post(core(ns, "configmaps"), both).expect(201)
    api.delete(core(ns, "configmaps", "o1"), propagationPolicy="Background").expect(200)
    api.get(core(ns, "configmaps", "o1")).fails(404)
    api.gone(core(ns, "configmaps", "one"))
    path = core(ns, "configmaps", "both")
    eventually(lambda: [item["name"] for item in api.get(path).json()["metadata"]["ownerReferences"]] == ["o2"])


@pytest.mark.behaviour("sandbox/DE-12")
def test_a_foreground_deletion_waits_for_dependents(api: Api, ns: str) -> None:
    owner = api.post(core(ns, "configmaps"), config_map("o")).expect(201)
    api.post(core(ns, "configmaps"), owned(owner, "d", finalizers=[FINALIZER])).expect(201)
    path, dependent = core(ns, "configmaps", "o"), core(ns, "configmaps", "d")
    going = api.delete(path, propagationPolicy="Foreground").expect(200)
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: "deletionTimestamp" in api.get(dependent).json()["metadata"])
    assert api.get(path).expect(200)["metadata"]["finalizers"] == ["foregroundDeletion"]
    release(api, dependent)
    api.gone(path)
    # The dependent went first.
    api.get(dependent).fails(404)


@pytest.mark.behaviour("sandbox/DE-17")
def test_a_dependent_with_a_finalizer_outlives_its_owner_in_background_deletion(api: Api, ns: str) -> None:
    owner = api.post(core(ns, "configmaps"), config_map("o")).expect(201)
    api.post(core(ns, "configmaps"), owned(owner, "d", finalizers=[FINALIZER])).expect(201)
    path, dependent = core(ns, "configmaps", "o"), core(ns, "configmaps", "d")
    api.delete(path, propagationPolicy="Background").expect(200)
    api.get(path).fails(404)
    eventually(lambda: "deletionTimestamp" in api.get(dependent).expect(200)["metadata"])
    release(api, dependent)
    api.gone(dependent)


@pytest.mark.behaviour("sandbox/DE-13")
def test_orphans_survive(api: Api, ns: str) -> None:
    owner = api.post(core(ns, "configmaps"), config_map("o")).expect(201)
    api.post(core(ns, "configmaps"), owned(owner, "d")).expect(201)
    api.delete(core(ns, "configmaps", "o"), propagationPolicy="Orphan").expect(200)
    api.gone(core(ns, "configmaps", "o"))
    assert "ownerReferences" not in api.get(core(ns, "configmaps", "d")).expect(200)["metadata"]


@pytest.mark.behaviour("sandbox/DE-14")
@pytest.mark.behaviour("sandbox/DE-16")
def test_owners_of_any_kind_are_found_by_uid(api: Api, ns: str, widgets: Crd) -> None:
    owner = api.post(widgets.path(ns), widgets.obj()).expect(201)
    body = service()
    body["metadata"]["ownerReferences"] = owned(owner, "x")["metadata"]["ownerReferences"]
    api.post(core(ns, "services"), body).expect(201)
    stray = owned(owner, "stray")
    stray["metadata"]["ownerReferences"][0]["uid"] = "no-such-uid"
    api.post(core(ns, "configmaps"), stray).expect(201)
    api.gone(core(ns, "configmaps", "stray"))
    api.get(core(ns, "services", "s")).expect(200)
    api.delete(widgets.path(ns, "a")).expect(200)
    api.gone(core(ns, "services", "s"))


@pytest.mark.behaviour("sandbox/DE-20")
@pytest.mark.behaviour("sandbox/DC-04")
def test_some_namespaces_cannot_be_deleted(api: Api) -> None:
    api.delete("/api/v1/namespaces/default").fails(403, "Forbidden")
    api.delete("/api/v1/namespaces").fails(405, "MethodNotAllowed")


@pytest.mark.behaviour("sandbox/DC-01")
@pytest.mark.behaviour("sandbox/DC-02")
@pytest.mark.behaviour("sandbox/DC-03")
def test_a_collection_is_deleted(api: Api, ns: str, widgets: Crd) -> None:
    for name, label, held in (("a", "1", []), ("b", "2", []), ("c", "1", [FINALIZER])):
        metadata = {"name": name, "labels": {"x": label}, "finalizers": held}
        api.post(widgets.path(ns), {**widgets.obj(), "metadata": metadata}).expect(201)
    api.delete(widgets.path(ns), labelSelector="x=1").expect(200)
    assert names(api.get(widgets.path(ns))) == ["b", "c"]
    assert "deletionTimestamp" in api.get(widgets.path(ns, "c")).json()["metadata"]
    api.delete(widgets.path(ns), labelSelector="x=9").expect(200)
    assert names(api.get(widgets.path(ns))) == ["b", "c"]


@pytest.mark.behaviour("sandbox/DR-01")
@pytest.mark.behaviour("sandbox/DR-02")
@pytest.mark.behaviour("sandbox/DR-04")
@pytest.mark.behaviour("sandbox/DR-05")
@pytest.mark.behaviour("sandbox/DR-07")
def test_a_dry_run_of_a_creation(api: Api, ns: str) -> None:
    path = core(ns, "configmaps")
    metadata = api.post(path, config_map(), dryRun="All").expect(201)["metadata"]
    assert metadata["uid"]
    assert "resourceVersion" not in metadata
    api.get(core(ns, "configmaps", "a")).fails(404)
    api.post(path, config_map()).expect(201)
    api.post(path, config_map(), dryRun="All").fails(409, "AlreadyExists")
    api.post(path, config_map(), dryRun="Foo").fails(422)
    api.post(path, config_map("A"), dryRun="All").fails(422, "Invalid")
    metadata = api.post(path, {"metadata": {"generateName": "g-"}}, dryRun="All").expect(201)["metadata"]
    assert re.fullmatch("g-[a-z0-9]{5}", metadata["name"])
    api.get(core(ns, "configmaps", metadata["name"])).fails(404)


@pytest.mark.behaviour("sandbox/DR-03")
@pytest.mark.behaviour("sandbox/DR-06")
def test_a_dry_run_of_a_patch_and_a_deletion(api: Api, ns: str, widgets: Crd) -> None:
    path = widgets.path(ns, "a")
    old = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    obj = api.patch(path, {"spec": {"size": 2}}, dryRun="All").expect(200)
    assert obj["spec"]["size"] == 2
    assert obj["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
    api.delete(path, {"dryRun": ["All"]}).expect(200)
    assert api.get(path).expect(200) == old


@pytest.mark.behaviour("sandbox/NS-01")
@pytest.mark.behaviour("sandbox/NS-05")
def test_a_new_namespace(api: Api, ns: str) -> None:
    new = api.post("/api/v1/namespaces", {"metadata": {"name": f"{ns}-new"}}).expect(201)
    for name, obj in ((f"{ns}-new", new), (ns, api.get(f"/api/v1/namespaces/{ns}").expect(200))):
        assert obj["metadata"]["labels"]["kubernetes.io/metadata.name"] == name
        assert (obj["spec"], obj["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    for plural, name in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
        path = core(f"{ns}-new", plural, name)
        eventually(lambda path=path: api.get(path).status == 200)
    api.delete(f"/api/v1/namespaces/{ns}-new").expect(200)


@pytest.mark.behaviour("sandbox/NS-02")
@pytest.mark.behaviour("sandbox/NS-03")
@pytest.mark.behaviour("sandbox/NS-04")
@pytest.mark.behaviour("sandbox/NS-06")
def test_a_namespace_is_deleted_once_it_is_empty(api: Api, ns: str, widgets: Crd) -> None:
    path = f"/api/v1/namespaces/{ns}"
    uid = api.get(path).json()["metadata"]["uid"]
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    api.post(core(ns, "configmaps"), config_map("held", finalizers=[FINALIZER])).expect(201)
    api.post(core(ns, "configmaps"), config_map("free")).expect(201)
    going = api.delete(path).expect(200)
    assert (going["kind"], going["metadata"]["uid"]) == ("Namespace", uid)
    assert going["metadata"]["deletionTimestamp"]

    def remaining() -> bool:
        status = api.get(path).json()["status"]
        conditions = {item["type"]: item["status"] for item in status.get("conditions", [])}
        return status["phase"] == "Terminating" and conditions.get("NamespaceFinalizersRemaining") == "True"

    eventually(remaining)
    assert names(api.get(core(ns, "configmaps"))) == ["held"]
    release(api, core(ns, "configmaps", "held"))
    api.gone(path)
    assert api.get(widgets.path(ns)).json()["items"] == []
    assert api.post("/api/v1/namespaces", {"metadata": {"name": ns}}).expect(201)["metadata"]["uid"] != uid
    assert not {"held", "free"} & set(names(api.get(core(ns, "configmaps"))))
    assert names(api.get(widgets.path(ns))) == []


ENDINGS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[tuple[str, int | None]]]] = {
    "at once": ({}, [{"gracePeriodSeconds": 0}], [("MODIFIED", 0), ("DELETED", 0)]),
    "five seconds": ({}, [{"gracePeriodSeconds": 5}], [("MODIFIED", 0), ("DELETED", 0)]),
    "in the background": ({}, [{"propagationPolicy": "Background"}], [("MODIFIED", 0), ("DELETED", 0)]),
    "on a node": ({"nodeName": "n"}, [{"gracePeriodSeconds": 0}], [("MODIFIED", 0), ("DELETED", 0)]),
    "on a node, twice": (
        {"nodeName": "n"},
        [{"gracePeriodSeconds": 5}, {"gracePeriodSeconds": 3}, {"gracePeriodSeconds": 0}],
        [("MODIFIED", 5), ("MODIFIED", 3), ("MODIFIED", 0), ("DELETED", 0)],
    ),
}


@pytest.mark.behaviour("findings3/NS13")
@pytest.mark.parametrize("case", ENDINGS)
def test_watches_see_that_a_pod_ends_before_it_is_gone(each_api: Api, namespace: str, case: str) -> None:
    spec, deletions, wanted = ENDINGS[case]
    created = each_api.post(core(namespace, "pods"), pod(**spec)).expect(201)
    path, version = core(namespace, "pods", created["metadata"]["name"]), created["metadata"]["resourceVersion"]
    events = each_api.watch(core(namespace, "pods"), resourceVersion=version)
    answers = [each_api.delete(path, body).expect(200) for body in deletions]
    sent = events.take(len(wanted))
    assert [(event["type"], event["object"]["metadata"].get("deletionGracePeriodSeconds")) for event in sent] == wanted
    last = sent[-1]["object"]["metadata"]
    assert all(event["object"]["metadata"]["deletionTimestamp"] for event in sent)
    assert last["generation"] == 2
    # The deletion answers with what the last event has.
    assert answers[-1]["metadata"] == last
    each_api.get(path).fails(404)


@pytest.mark.behaviour("findings3/NS13")
def test_a_dry_run_shows_how_a_pod_would_end(each_api: Api, namespace: str) -> None:
    created = each_api.post(core(namespace, "pods"), pod()).expect(201)["metadata"]
    path = core(namespace, "pods", created["name"])
    metadata = each_api.delete(path, {"gracePeriodSeconds": 0, "dryRun": ["All"]}).expect(200)["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)
    assert each_api.get(path).expect(200)["metadata"] == created
