"""Jobs: pods run to completion, the Job completes or fails with back-off."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import Api
from tests.support.objects import batch, core, job
from tests.support.waiting import eventually
from tests.support.workload_clusters import pods, ready, reasons, status

FINALIZER = "batch.kubernetes.io/job-tracking"
FOREVER = {"run-seconds": "100000000"}
FAILING = {"exit-code": "1"}


def create(api: Api, ns: str, **more: Any) -> str:
    body = job(**more)
    api.post(batch(ns, "jobs"), body).expect(201)
    return batch(ns, "jobs", body["metadata"]["name"])


def conditions(api: Api, path: str) -> dict[str, tuple[str, str]]:
    return {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in status(api, path).get("conditions", [])
    }


def is_over(api: Api, path: str, kind: str = "Complete") -> bool:
    return conditions(api, path).get(kind, ("",))[0] == "True"


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_job_completes(api: Api, ns: str, policy: str) -> None:
    path = create(api, ns, completions=3, parallelism=2, restartPolicy=policy)
    eventually(lambda: is_over(api, path))
    state = status(api, path)
    assert conditions(api, path) == dict.fromkeys(("SuccessCriteriaMet", "Complete"), ("True", "CompletionsReached"))
    assert {"startTime", "completionTime"} <= state.keys()
    counts = {name: state.get(name) for name in ("succeeded", "failed", "active", "ready", "terminating")}
    assert counts == {"succeeded": 3, "failed": None, "active": None, "ready": 0, "terminating": 0}
    assert state["uncountedTerminatedPods"] == {}
    done = pods(api, ns)
    assert [pod["status"]["phase"] for pod in done] == ["Succeeded"] * 3
    assert all("finalizers" not in pod["metadata"] for pod in done)
    assert all(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j" for pod in done)
    assert sorted(reasons(api, ns, "Job")) == ["Completed"] + ["SuccessfulCreate"] * 3


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_running_pods_are_counted_and_tracked(api: Api, ns: str) -> None:
    path = create(api, ns, completions=5, parallelism=2, annotations=FOREVER)
    eventually(lambda: status(api, path).get("ready") == 2)
    assert status(api, path)["active"] == 2
    assert all(pod["metadata"]["finalizers"] == [FINALIZER] for pod in pods(api, ns))
    api.patch(path, {"spec": {"parallelism": 1}}).expect(200)
    eventually(lambda: status(api, path)["active"] == 1 and len(pods(api, ns)) == 1)
    # A deleted pod counts as failed, and is replaced.
    victim = pods(api, ns)[0]["metadata"]["name"]
    api.delete(core(ns, "pods", victim)).expect(200)
    eventually(lambda: status(api, path).get("failed") == 1)
    api.gone(core(ns, "pods", victim))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_job_fails_with_back_off(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, backoffLimit=2, annotations=FAILING)
    for failed, delay in ((1, 10), (2, 20)):
        eventually(lambda failed=failed: status(api, path).get("failed") == failed and server.at_rest)
        # Without the clock no other pod starts.
        assert len(pods(api, ns)) == failed
        server.advance(delay)
    eventually(lambda: is_over(api, path, "Failed"))
    assert status(api, path)["failed"] == 3
    expected = dict.fromkeys(("FailureTarget", "Failed"), ("True", "BackoffLimitExceeded"))
    assert conditions(api, path) == expected
    assert "completionTime" not in status(api, path)
    assert "BackoffLimitExceeded" in reasons(api, ns, "Job")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_restarts_of_containers_count_towards_the_limit(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, backoffLimit=2, restartPolicy="OnFailure", annotations=FAILING)
    eventually(
        lambda: pods(api, ns) and pods(api, ns)[0]["status"].get("containerStatuses", [{}])[0].get("restartCount") == 1
    )
    eventually(lambda: server.at_rest)
    assert not conditions(api, path)
    server.advance(10)
    eventually(lambda: is_over(api, path, "Failed"))
    assert conditions(api, path)["Failed"] == ("True", "BackoffLimitExceeded")
    eventually(lambda: not pods(api, ns))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_job_ends_at_its_deadline(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, activeDeadlineSeconds=60, annotations=FOREVER)
    eventually(lambda: status(api, path).get("ready") == 1 and server.at_rest)
    server.advance(30)
    assert not is_over(api, path, "Failed")
    server.advance(31)
    eventually(lambda: is_over(api, path, "Failed"))
    assert conditions(api, path)["Failed"] == ("True", "DeadlineExceeded")
    assert status(api, path)["failed"] == 1
    eventually(lambda: not pods(api, ns))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_finished_job_expires_with_its_pods(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, ttlSecondsAfterFinished=100)
    eventually(lambda: is_over(api, path) and server.at_rest)
    server.advance(98)
    assert is_over(api, path)
    server.advance(3)
    api.gone(path)
    eventually(lambda: not pods(api, ns))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_job_is_suspended_and_resumed(api: Api, ns: str) -> None:
    path = create(api, ns, suspend=True, annotations=FOREVER)
    eventually(lambda: conditions(api, path) == {"Suspended": ("True", "JobSuspended")})
    assert "startTime" not in status(api, path)
    assert not pods(api, ns)
    api.patch(path, {"spec": {"suspend": False}}).expect(200)
    eventually(lambda: status(api, path).get("ready") == 1)
    assert conditions(api, path) == {"Suspended": ("False", "JobResumed")}
    api.patch(path, {"spec": {"suspend": True}}).expect(200)
    eventually(lambda: not pods(api, ns))
    # Pods that were deleted for the suspension have not failed.
    state = status(api, path)
    assert (state.get("active"), state.get("failed"), state["ready"]) == (None, None, 0)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_an_indexed_job_has_a_pod_for_each_index(api: Api, ns: str) -> None:
    path = create(api, ns, completions=4, parallelism=4, completionMode="Indexed")
    eventually(lambda: is_over(api, path))
    state = status(api, path)
    assert (state["succeeded"], state["completedIndexes"]) == (4, "0-3")
    by_index = {pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: pod for pod in pods(api, ns)}
    assert sorted(by_index) == ["0", "1", "2", "3"]
    for index, pod in by_index.items():
        assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == index
        assert pod["metadata"]["name"].startswith(f"j-{index}-")
        assert pod["spec"]["hostname"] == f"j-{index}"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_each_index_has_its_own_limit(api: Api, ns: str, server: Sandbox) -> None:
    more = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    path = create(api, ns, annotations=FAILING, **more)
    eventually(lambda: len(pods(api, ns)) == 2 and server.at_rest)
    eventually(lambda: all(pod["status"]["phase"] == "Failed" for pod in pods(api, ns)) and server.at_rest)
    assert status(api, path).get("failedIndexes") == ""
    server.advance(10)
    eventually(lambda: is_over(api, path, "Failed"))
    assert conditions(api, path)["Failed"] == ("True", "FailedIndexes")
    assert (status(api, path)["failedIndexes"], status(api, path)["failed"]) == ("0,1", 4)
    counts = sorted(
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] for pod in pods(api, ns)
    )
    assert counts == ["0", "0", "1", "1"]


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_success_policy_ends_a_job_early(api: Api, ns: str) -> None:
    more = {"completions": 3, "parallelism": 1, "completionMode": "Indexed"}
    path = create(api, ns, successPolicy={"rules": [{"succeededIndexes": "0"}]}, **more)
    eventually(lambda: is_over(api, path))
    assert conditions(api, path)["SuccessCriteriaMet"] == ("True", "SuccessPolicy")
    assert status(api, path)["completedIndexes"] == "0"


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_job_may_have_two_billion_indexes(api: Api, ns: str) -> None:
    most = 2**31 - 1
    rules = [{"succeededIndexes": f"0-{most - 1}"}, {"succeededIndexes": f"1-{most - 1}", "succeededCount": 1}]
    more = {"completions": most, "parallelism": 2, "completionMode": "Indexed", "successPolicy": {"rules": rules}}
    path = create(api, ns, **more)
    eventually(lambda: is_over(api, path))
    condition = next(
        condition for condition in status(api, path)["conditions"] if condition["type"] == "SuccessCriteriaMet"
    )
    assert condition["message"] == "Matched rules at index 1"


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_pod_with_a_meaningless_index_does_not_stop_its_job(api: Api, ns: str) -> None:
    path = create(api, ns, completions=2, parallelism=1, completionMode="Indexed", annotations=FOREVER)
    eventually(lambda: len(pods(api, ns)) == 1)
    pod = pods(api, ns)[0]["metadata"]["name"]
    index = {"batch.kubernetes.io/job-completion-index": "9" * 5000}
    api.patch(core(ns, "pods", pod), {"metadata": {"annotations": index}}).expect(200)
    eventually(lambda: [left["metadata"]["name"] for left in pods(api, ns)] not in ([pod], []))
    assert status(api, path)["active"] == 1


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_pod_failure_policy_decides(api: Api, ns: str, server: Sandbox) -> None:
    def policy(action: str) -> dict[str, Any]:
        return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]}

    fatal = create(api, ns, name="fatal", podFailurePolicy=policy("FailJob"), annotations={"exit-code": "42"})
    eventually(lambda: is_over(api, fatal, "Failed"))
    (message,) = {condition["message"] for condition in status(api, fatal)["conditions"]}
    assert message.endswith("failed with exit code 42 matching FailJob rule at index 0")
    assert conditions(api, fatal)["Failed"] == ("True", "PodFailurePolicy")
    ignored = create(
        api, ns, name="ignored", backoffLimit=0, podFailurePolicy=policy("Ignore"), annotations={"exit-code": "42"}
    )
    eventually(lambda: len(pods(api, ns)) == 2 and server.at_rest)
    server.advance(10)
    eventually(lambda: len(pods(api, ns)) == 3)
    assert status(api, ignored).get("failed") is None
    assert not conditions(api, ignored)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_pods_of_a_deleted_job_lose_their_finalizer(api: Api, ns: str, policy: str) -> None:
    path = create(api, ns, annotations=FOREVER)
    eventually(lambda: [ready(pod) for pod in pods(api, ns)] == [True])
    api.delete(path, propagationPolicy=policy).expect(200)
    api.gone(path)
    if policy == "Orphan":
        eventually(lambda: [pod["metadata"].get("finalizers") for pod in pods(api, ns)] == [None])
    else:
        eventually(lambda: not pods(api, ns))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_a_job_of_another_controller_is_left_alone(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, managedBy="t.example.org/own")
    eventually(lambda: server.at_rest)
    assert not status(api, path)
    assert not pods(api, ns)
