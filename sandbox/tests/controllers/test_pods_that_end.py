"""Pods with the restart policies Never and OnFailure end."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import Api
from tests.support.objects import core, pod
from tests.support.waiting import eventually
from tests.support.workload_clusters import ready


def create(api: Api, ns: str, policy: str, **annotations: str) -> str:
    body = pod(nodeSelector={}, restartPolicy=policy)
    keys = {f"sandbox.ctrlhost.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    body["metadata"] |= {"annotations": keys}
    api.post(core(ns, "pods"), body).expect(201)
    return core(ns, "pods", "p")


def phase(api: Api, path: str) -> Any:
    return api.get(path).json()["status"]["phase"]


def reasons(obj: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        condition["type"]: (condition["status"], condition.get("reason", ""))
        for condition in obj["status"]["conditions"]
    }


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_runs_to_completion(api: Api, ns: str, policy: str) -> None:
    path = create(api, ns, policy)
    eventually(lambda: phase(api, path) == "Succeeded")
    obj = api.get(path).json()
    (container,) = obj["status"]["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (False, 0)
    ended = container["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert {"startedAt", "finishedAt", "containerID"} <= ended.keys()
    assert reasons(obj)["Ready"] == ("False", "PodCompleted")
    # An ended pod is deleted at once, without a grace period.
    api.delete(path).expect(200)
    api.get(path).fails(404)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_pod_fails_with_the_exit_code_of_its_annotation(api: Api, ns: str) -> None:
    path = create(api, ns, "Never", exit_code="3")
    eventually(lambda: phase(api, path) == "Failed")
    obj = api.get(path).json()
    ended = obj["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert reasons(obj)["ContainersReady"] == ("False", "PodFailed")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_failing_container_restarts_with_back_off(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, "OnFailure", exit_code="1")

    def waits(restarts: int) -> bool:
        (container,) = api.get(path).json()["status"].get("containerStatuses") or [{}]
        reason = container.get("state", {}).get("waiting", {}).get("reason")
        return container.get("restartCount") == restarts and reason == "CrashLoopBackOff" and server.at_rest

    # The first restart is immediate; later ones wait for ten seconds, twenty and so on.
    for restarts, delay in ((1, 10), (2, 20), (3, 40)):
        eventually(lambda restarts=restarts: waits(restarts))
        assert phase(api, path) == "Running"
        server.advance(delay)
    eventually(lambda: waits(4))
    ended = api.get(path).json()["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert ended["exitCode"] == 1


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_the_run_time_of_a_pod_is_an_annotation(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, "Never", run_seconds="3600")
    eventually(lambda: ready(api.get(path).json()) and server.at_rest)
    assert phase(api, path) == "Running"
    server.advance(3600)
    eventually(lambda: phase(api, path) == "Succeeded")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_pod_with_a_finalizer_shows_how_it_was_stopped(api: Api, ns: str) -> None:
    body = pod(nodeSelector={})
    body["metadata"]["finalizers"] = ["t.example.org/held"]
    api.post(core(ns, "pods"), body).expect(201)
    path = core(ns, "pods", "p")
    eventually(lambda: ready(api.get(path).json()))
    api.delete(path).expect(200)
    eventually(lambda: phase(api, path) == "Failed")
    eventually(lambda: api.get(path).json()["metadata"]["deletionGracePeriodSeconds"] == 0)
    assert api.get(path).json()["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    api.patch(path, {"metadata": {"finalizers": None}}).expect(200)
    api.gone(path)
