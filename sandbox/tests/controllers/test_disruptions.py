"""PodDisruptionBudgets: their counts, and evictions that respect them."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox

from tests.support.http_client import Answer, Api
from tests.support.objects import apps, core, deployment, job, pod
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.workload_clusters import EVERYTHING, pods, ready


def budgets(ns: str, name: str = "") -> str:
    return f"/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets" + (f"/{name}" if name else "")


def budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": selector, **spec},
    }


def counts(api: Api, ns: str) -> tuple[int, ...]:
    """Return the healthy, wanted, expected pods and the allowed disruptions."""
    status = api.get(budgets(ns, "b")).json().get("status", {})
    names = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    return tuple(status.get(name, -1) for name in names)


def evict(api: Api, ns: str, name: str, **more: Any) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": ns}}
    return api.post(core(ns, "pods", name) + "/eviction", body, **more)


def deployed(api: Api, ns: str, replicas: int) -> list[str]:
    """Create a Deployment; return the names of its pods once they are ready."""
    api.post(apps(ns, "deployments"), deployment(replicas=replicas)).expect(201)
    eventually(lambda: sum(map(ready, pods(api, ns))) == replicas)
    return [pod["metadata"]["name"] for pod in pods(api, ns)]


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2d")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (4, 2, 4, 2)),
        ({"minAvailable": "60%"}, (4, 3, 4, 1)),
        ({"maxUnavailable": 1}, (4, 3, 4, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 4, 2)),
        ({"maxUnavailable": 0}, (4, 4, 4, 0)),
    ],
)
def test_a_budget_counts_its_pods(api: Api, ns: str, spec: dict[str, Any], expected: tuple[int, ...]) -> None:
    deployed(api, ns, 4)
    api.post(budgets(ns), budget(**spec)).expect(201)
    eventually(lambda: counts(api, ns) == expected)
    (condition,) = api.get(budgets(ns, "b")).json()["status"]["conditions"]
    facts = {name: condition[name] for name in ("type", "status", "reason", "observedGeneration")}
    allowed = expected[3] > 0
    assert facts == {
        "type": "DisruptionAllowed",
        "status": str(allowed),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "observedGeneration": 1,
    }


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2d")
def test_an_eviction_waits_for_its_budget() -> None:
    ns, options = "default", Options(pod_start_delay=0.0, pod_ready_delay=60.0, pod_stop_delay=0.0)
    with Sandbox(options=options, controllers=EVERYTHING) as sandbox, api_of(sandbox.kubeconfig) as api:
        # Without a probe a pod is ready as soon as it runs.
        body = deployment(replicas=3)
        body["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 80}}
        api.post(apps(ns, "deployments"), body).expect(201)
        first, second, _ = ready_pods(sandbox, api, ns, 3)
        api.post(budgets(ns), budget(minAvailable=3)).expect(201)
        eventually(lambda: counts(api, ns) == (3, 3, 3, 0))
        refused = evict(api, ns, first).fails(429, "TooManyRequests")
        assert refused["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        text = "The disruption budget b needs 3 healthy pods and has 3 currently"
        assert refused["details"]["causes"] == [{"reason": "DisruptionBudget", "message": text}]
        api.patch(budgets(ns, "b"), {"spec": {"minAvailable": 2}}).expect(200)
        eventually(lambda: counts(api, ns) == (3, 2, 3, 1))
        # A dry run takes nothing from the budget.
        evict(api, ns, first, dryRun="All").expect(201)
        watch = api.watch(core(ns, "pods"), fieldSelector=f"metadata.name={first}")
        evict(api, ns, first).expect(201)
        evict(api, ns, second).fails(429, "TooManyRequests")
        target = next(
            condition
            for event in iter(watch.next, None)
            for condition in event["object"]["status"].get("conditions", ())
            if condition["type"] == "DisruptionTarget"
        )
        assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
        api.gone(core(ns, "pods", first))
        # Its successor makes the next eviction possible.
        ready_pods(sandbox, api, ns, 3)
        eventually(lambda: counts(api, ns) == (3, 2, 3, 1))
        evict(api, ns, second).expect(201)


def ready_pods(sandbox: Sandbox, api: Api, ns: str, wanted: int) -> list[str]:
    """Wait until all pods run, advance the clock until they are ready, and return their names."""
    eventually(lambda: [pod["status"]["phase"] for pod in pods(api, ns)] == ["Running"] * wanted and sandbox.at_rest)
    sandbox.advance(60)
    eventually(lambda: sum(map(ready, pods(api, ns))) == wanted)
    return [pod["metadata"]["name"] for pod in pods(api, ns)]


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2d")
def test_unready_and_ended_pods_are_evicted(api: Api, ns: str, server: Sandbox) -> None:
    held = {**pod("held", nodeSelector={}), "metadata": {"name": "held", "labels": {"app": "x"}}}
    held["metadata"]["annotations"] = {"sandbox.ctrlhost.dev/ready": "false"}
    api.post(core(ns, "pods"), held).expect(201)
    eventually(lambda: api.get(core(ns, "pods", "held")).json()["status"]["phase"] == "Running" and server.at_rest)
    api.post(budgets(ns), budget(minAvailable=1)).expect(201)
    eventually(lambda: counts(api, ns) == (0, 1, 1, 0))
    evict(api, ns, "held").fails(429)
    api.patch(budgets(ns, "b"), {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}).expect(200)
    evict(api, ns, "held").expect(201)
    api.gone(core(ns, "pods", "held"))
    ended = {**pod("ended", nodeSelector={}, restartPolicy="Never"), "metadata": held["metadata"] | {"name": "ended"}}
    api.post(core(ns, "pods"), ended).expect(201)
    eventually(lambda: api.get(core(ns, "pods", "ended")).json()["status"]["phase"] == "Succeeded")
    evict(api, ns, "ended").expect(201)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2d")
def test_two_budgets_and_other_names_are_refused(api: Api, ns: str) -> None:
    (name,) = deployed(api, ns, 1)
    for budget_name in ("b", "c"):
        api.post(budgets(ns), {**budget(maxUnavailable=1), "metadata": {"name": budget_name}}).expect(201)
    assert "more than one PodDisruptionBudget" in evict(api, ns, name).fails(500)["message"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    api.post(core(ns, "pods", name) + "/eviction", body).fails(400)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2d")
def test_a_budget_of_pods_without_a_scale_fails_safe(api: Api, ns: str) -> None:
    api.post(f"/apis/batch/v1/namespaces/{ns}/jobs", job(annotations={"run-seconds": "100000000"})).expect(201)
    api.post(budgets(ns), budget(maxUnavailable=1)).expect(201)
    eventually(lambda: pods(api, ns) and counts(api, ns)[3] == 0)

    def reason() -> str:
        conditions = api.get(budgets(ns, "b")).json()["status"]["conditions"]
        return str(conditions[0]["reason"])

    eventually(lambda: reason() == "SyncFailed")
