"""StatefulSets: stable names, order, partitions, revisions."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import STRATEGIC, Api, Events
from tests.support.objects import apps, container, core, persistent_volume_claim, pod, service, stateful_set
from tests.support.waiting import eventually
from tests.support.workload_clusters import by_name, cluster, pods, ready


def settled(api: Api, ns: str, replicas: int, name: str = "x") -> bool:
    obj = api.get(apps(ns, "statefulsets", name)).json()
    status = obj.get("status") or {}
    keys = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    return (
        all(status.get(key, 0) == replicas for key in keys)
        and status.get("observedGeneration") == obj["metadata"]["generation"]
        and status["currentRevision"] == status["updateRevision"]
    )


def history(watch: Events, until: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the steps of pods in order, once each: (added, ready, leaving or gone; name)."""
    steps: list[tuple[str, str]] = []
    while until not in steps:
        event = watch.next()
        metadata = event["object"]["metadata"]
        step = {"ADDED": "added", "DELETED": "gone"}.get(event["type"])
        if step is None:
            step = "leaving" if "deletionTimestamp" in metadata else "ready" if ready(event["object"]) else ""
        if step and (step, metadata["name"]) not in steps:
            steps.append((step, metadata["name"]))
    return steps


def watch_from_now(api: Api, ns: str) -> Events:
    return api.watch(core(ns, "pods"), resourceVersion=api.revision(core(ns, "pods")))


def images(api: Api, ns: str) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for _, pod in sorted(by_name(api, ns).items())]


def new_image(api: Api, ns: str, image: str) -> None:
    body = {"spec": {"template": {"spec": {"containers": [container("a", image)]}}}}
    api.patch(apps(ns, "statefulsets", "x"), body, STRATEGIC).expect(200)


@pytest.mark.behaviour("sandbox/WL-02")
@pytest.mark.behaviour("sandbox/WL-03")
def test_pods_start_in_order_and_stop_in_reverse(api: Api, ns: str) -> None:
    watch = watch_from_now(api, ns)
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=3)).expect(201)
    assert history(watch, ("ready", "x-2")) == [(step, f"x-{n}") for n in range(3) for step in ("added", "ready")]
    eventually(lambda: settled(api, ns, 3))
    watch = watch_from_now(api, ns)
    api.patch(apps(ns, "statefulsets", "x") + "/scale", {"spec": {"replicas": 1}}).expect(200)
    assert history(watch, ("gone", "x-1")) == [(step, f"x-{n}") for n in (2, 1) for step in ("leaving", "gone")]
    eventually(lambda: settled(api, ns, 1))
    assert api.get(apps(ns, "statefulsets", "x")).json()["status"]["replicas"] == 1


@pytest.mark.behaviour("sandbox/WL-04")
def test_a_deleted_pod_is_recreated_under_its_name(api: Api, ns: str) -> None:
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=2)).expect(201)
    eventually(lambda: settled(api, ns, 2))
    before = by_name(api, ns)
    api.delete(core(ns, "pods", "x-0")).expect(200)
    eventually(
        lambda: by_name(api, ns).get("x-0", before["x-0"])["metadata"]["uid"] != before["x-0"]["metadata"]["uid"]
    )
    eventually(lambda: settled(api, ns, 2))
    assert by_name(api, ns)["x-1"]["metadata"]["uid"] == before["x-1"]["metadata"]["uid"]


def test_a_failed_pod_is_replaced(api: Api, ns: str) -> None:
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=1)).expect(201)
    eventually(lambda: settled(api, ns, 1))
    (before,) = pods(api, ns)
    api.patch(core(ns, "pods", "x-0") + "/status", {"status": {"phase": "Failed"}}).expect(200)
    eventually(lambda: [pod["metadata"]["uid"] for pod in pods(api, ns)] not in ([], [before["metadata"]["uid"]]))
    eventually(lambda: settled(api, ns, 1))


@pytest.mark.behaviour("sandbox/WL-05")
def test_a_pod_has_the_identity_of_its_ordinal(api: Api, ns: str) -> None:
    claim = {"metadata": {"name": "data"}, "spec": persistent_volume_claim()["spec"]}
    body = stateful_set(replicas=1, ordinals={"start": 5}, volumeClaimTemplates=[claim])
    # The template may mount a claim, but no other name.
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "other", "mountPath": "/data"}]
    assert api.post(apps(ns, "statefulsets"), body).expect(422)["details"]["causes"] == [
        {
            "reason": "FieldValueNotFound",
            "message": 'Not found: "other"',
            "field": "spec.template.spec.containers[0].volumeMounts[0].name",
        }
    ]
    container["volumeMounts"][0]["name"] = "data"
    obj = api.post(apps(ns, "statefulsets"), body).expect(201)
    eventually(lambda: settled(api, ns, 1))
    (adopted,) = pods(api, ns)
    (revision,) = api.get(apps(ns, "controllerrevisions")).json()["items"]
    assert adopted["metadata"]["name"] == "x-5"
    assert adopted["metadata"]["labels"] == {
        "app": "x",
        "statefulset.kubernetes.io/pod-name": "x-5",
        "apps.kubernetes.io/pod-index": "5",
        "controller-revision-hash": revision["metadata"]["name"],
    }
    (owner,) = adopted["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "StatefulSet",
        obj["metadata"]["uid"],
        True,
        True,
    )
    assert (adopted["spec"]["hostname"], adopted["spec"]["subdomain"]) == ("x-5", "svc")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-x-5"}}
    assert volume in adopted["spec"]["volumes"]


@pytest.mark.behaviour("sandbox/WL-06")
def test_a_new_template_rolls_from_the_highest_ordinal_down_to_the_partition(api: Api, ns: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=3, updateStrategy=strategy)).expect(201)
    eventually(lambda: settled(api, ns, 3))
    watch = watch_from_now(api, ns)
    new_image(api, ns, "nginx:2")
    steps = ("leaving", "gone", "added", "ready")
    assert history(watch, ("ready", "x-1")) == [(step, f"x-{n}") for n in (2, 1) for step in steps]
    path = apps(ns, "statefulsets", "x")
    eventually(lambda: api.get(path).json()["status"].get("updatedReplicas") == 2)
    status = api.get(path).json()["status"]
    assert status["currentReplicas"] == 1
    assert status["currentRevision"] != status["updateRevision"]
    assert images(api, ns) == ["nginx:1", "nginx:2", "nginx:2"]
    # A pod below the partition is recreated from the old revision.
    before = by_name(api, ns)["x-0"]["metadata"]["uid"]
    api.delete(core(ns, "pods", "x-0")).expect(200)
    eventually(lambda: by_name(api, ns).get("x-0", {"metadata": {"uid": before}})["metadata"]["uid"] != before)
    assert images(api, ns)[0] == "nginx:1"
    api.patch(path, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}).expect(200)
    eventually(lambda: settled(api, ns, 3))
    assert images(api, ns) == ["nginx:2"] * 3


def test_on_delete_updates_only_deleted_pods(api: Api, ns: str, server: Sandbox) -> None:
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=2, updateStrategy={"type": "OnDelete"})).expect(201)
    eventually(lambda: settled(api, ns, 2))
    new_image(api, ns, "nginx:2")
    eventually(lambda: server.at_rest)
    assert images(api, ns) == ["nginx:1", "nginx:1"]
    api.delete(core(ns, "pods", "x-1")).expect(200)
    eventually(lambda: images(api, ns) == ["nginx:1", "nginx:2"])


def test_a_rollback_gets_a_new_revision_number_and_old_revisions_are_deleted(api: Api, ns: str) -> None:
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=1, revisionHistoryLimit=1)).expect(201)
    eventually(lambda: settled(api, ns, 1))

    def revisions() -> dict[int, str]:
        items = api.get(apps(ns, "controllerrevisions")).json()["items"]
        return {
            revision["revision"]: revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
            for revision in items
        }

    for image in ("nginx:2", "nginx:1"):
        new_image(api, ns, image)
        eventually(lambda image=image: settled(api, ns, 1) and images(api, ns) == [image])
    assert revisions() == {2: "nginx:2", 3: "nginx:1"}
    new_image(api, ns, "nginx:3")
    eventually(lambda: settled(api, ns, 1) and images(api, ns) == ["nginx:3"])
    eventually(lambda: revisions() == {3: "nginx:1", 4: "nginx:3"})


@pytest.mark.behaviour("sandbox/WL-07")
def test_parallel_sets_do_not_wait(api: Api, ns: str) -> None:
    held = stateful_set(replicas=3, podManagementPolicy="Parallel")
    held["spec"]["template"]["metadata"]["annotations"] = {"sandbox.ctrlhost.dev/ready": "false"}
    api.post(apps(ns, "statefulsets"), held).expect(201)
    eventually(lambda: sorted(by_name(api, ns)) == ["x-0", "x-1", "x-2"])
    assert not any(map(ready, pods(api, ns)))
    api.patch(apps(ns, "statefulsets", "x"), {"spec": {"replicas": 0}}).expect(200)
    eventually(lambda: not pods(api, ns))


def test_an_unready_pod_blocks_the_next_ones(api: Api, ns: str, server: Sandbox) -> None:
    held = stateful_set(replicas=2)
    held["spec"]["template"]["metadata"]["annotations"] = {"sandbox.ctrlhost.dev/ready": "false"}
    api.post(apps(ns, "statefulsets"), held).expect(201)
    eventually(lambda: [pod["status"]["phase"] for pod in pods(api, ns)] == ["Running"])
    eventually(lambda: server.at_rest)
    assert list(by_name(api, ns)) == ["x-0"]
    annotation = {"metadata": {"annotations": {"sandbox.ctrlhost.dev/ready": "true"}}}
    api.patch(core(ns, "pods", "x-0"), annotation).expect(200)
    eventually(lambda: sorted(by_name(api, ns)) == ["x-0", "x-1"])


def test_pods_are_adopted_by_name_and_released_by_label(api: Api, ns: str) -> None:
    orphan = pod("x-0", nodeSelector={})
    orphan["metadata"]["labels"] = {"app": "x"}
    stored = api.post(core(ns, "pods"), orphan).expect(201)
    stranger = {**pod("other", nodeSelector={}), "metadata": {"name": "other", "labels": {"app": "x"}}}
    api.post(core(ns, "pods"), stranger).expect(201)
    # A rolling update would replace a pod without a revision.
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=2, updateStrategy={"type": "OnDelete"})).expect(201)
    eventually(lambda: {"x-0", "x-1"} <= by_name(api, ns).keys())
    replicas = by_name(api, ns)
    assert replicas["x-0"]["metadata"]["uid"] == stored["metadata"]["uid"]
    eventually(lambda: "apps.kubernetes.io/pod-index" in by_name(api, ns)["x-0"]["metadata"]["labels"])
    assert "ownerReferences" not in replicas["other"]["metadata"]
    api.patch(core(ns, "pods", "x-1"), {"metadata": {"labels": {"app": "y"}}}).expect(200)
    eventually(lambda: "ownerReferences" not in by_name(api, ns)["x-1"]["metadata"])


@pytest.mark.behaviour("sandbox/WL-21")
def test_a_headless_service_names_the_pods_of_a_set(api: Api, ns: str) -> None:
    api.post(core(ns, "services"), service("svc", clusterIP="None", selector={"app": "x"})).expect(201)
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=3)).expect(201)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"

    def hosts() -> dict[str, str]:
        listing = api.get(slices, labelSelector="kubernetes.io/service-name=svc,service.kubernetes.io/headless").json()
        endpoints = [endpoint for item in listing["items"] for endpoint in item.get("endpoints") or ()]
        return {
            endpoint["hostname"]: endpoint["addresses"][0] for endpoint in endpoints if endpoint["conditions"]["ready"]
        }

    eventually(lambda: len(hosts()) == 3)
    assert hosts() == {name: pod["status"]["podIP"] for name, pod in by_name(api, ns).items()}


def test_another_kubelet_may_run_the_pods() -> None:
    running = cluster(("gc", "namespace", "statefulset", "scheduler"))
    with running as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        api.post(apps("default", "statefulsets"), stateful_set(replicas=2)).expect(201)
        (first,) = eventually(lambda: [pod for pod in pods(api, "default") if pod["spec"].get("nodeName")])
        eventually(lambda: sandbox.at_rest)
        assert (first["metadata"]["name"], first["status"]["phase"]) == ("x-0", "Pending")
        conditions = [{"type": "Ready", "status": "True"}]
        status: dict[str, Any] = {"status": {"phase": "Running", "podIP": "127.0.0.9", "conditions": conditions}}
        api.patch(core("default", "pods", "x-0") + "/status", status, STRATEGIC).expect(200)
        eventually(lambda: len(pods(api, "default")) == 2)
        # The other kubelet also confirms the deletion.
        api.delete(core("default", "pods", "x-0")).expect(200)
        eventually(lambda: sandbox.at_rest)
        assert "deletionTimestamp" in by_name(api, "default")["x-0"]["metadata"]
        api.delete(core("default", "pods", "x-0"), gracePeriodSeconds=0).expect(200)
        eventually(lambda: by_name(api, "default")["x-0"]["metadata"]["uid"] != first["metadata"]["uid"])
