"""Jobs, CronJobs and PodDisruptionBudgets with kubectl, on the sandbox and with the real controllers."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from sandbox.tests.clients.shell import Run, Shell
from tests.support.objects import cron_job, deployment, job
from tests.support.waiting import eventually

LONG = {"run-seconds": "100000000"}


def finish(k: Shell, *objects: dict[str, Any], condition: str = "Complete") -> None:
    """Create Jobs, wait for their end, and compare them."""
    k("create", "-f", "-", objects=list(objects))
    for obj in objects:
        name = f"job/{obj['metadata']['name']}"
        k("wait", name, f"--for=condition={condition}", "--timeout=30s")
        k("get", name, "-o", "yaml")
        k("get", name)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_jobs_that_complete(run: Run) -> None:
    def steps(k: Shell) -> None:
        finish(
            k,
            job("web", completions=3, parallelism=2),
            job("run", completions=3, parallelism=3, completionMode="Indexed", restartPolicy="OnFailure"),
            job("set", parallelism=2),
        )
        fields = "{.metadata.labels} {.metadata.annotations} {.metadata.generateName} {.spec.hostname} {.status.phase}"
        lines = "{range .items[*]}" + fields + ' {.spec.containers[0].env}{"\\n"}{end}'
        k("get", "pods", "-l", "job-name=run", "--sort-by", "{.spec.hostname}", "-o", f"jsonpath={lines}")
        k("describe", "job", "run", only=lambda line: "Created pod" not in line)

    run("jobs", steps)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_jobs_that_fail(run: Run) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    exact = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 0}

    def steps(k: Shell) -> None:
        finish(
            k,
            job("web", {"exit-code": "1"}, backoffLimit=0),
            job("run", {"exit-code": "42"}, podFailurePolicy={"rules": [rule]}),
            job("set", {"exit-code": "1"}, **exact),
            job("each", LONG, activeDeadlineSeconds=1),
            condition="Failed",
        )

    run("jobs", steps)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2a")
def test_jobs_that_run(run: Run) -> None:
    def steps(k: Shell) -> None:
        k("create", "-f", "-", objects=[job("web", LONG, completions=4, parallelism=2), job("run", LONG, suspend=True)])
        k("wait", "job/web", "--for=jsonpath={.status.ready}=2", "--timeout=30s")
        k("wait", "job/run", "--for=condition=Suspended", "--timeout=30s")
        k("get", "job", "web", "run", "-o", "yaml")
        k("patch", "job", "run", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        k("wait", "job/run", "--for=jsonpath={.status.ready}=1", "--timeout=30s")
        k("get", "job", "run", "-o", "yaml")
        k("patch", "job", "web", "--type=merge", "-p", '{"spec":{"parallelism":1}}')
        for field in ("ready}=1", "terminating}=0"):
            k("wait", "job/web", f"--for=jsonpath={{.status.{field}", "--timeout=30s")
        k("get", "job", "web", "-o", "yaml")
        k("delete", "job", "web", "run")
        eventually(lambda: k.run("get", "pods", "-o", "name") == (0, ""), 30)

    run("jobs", steps)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_cron_job(run: Run) -> None:
    def steps(k: Shell) -> None:
        k("create", "-f", "-", objects=[cron_job("web", "0 0 1 1 *", timeZone="Europe/Berlin")])
        k("create", "job", "run", "--from=cronjob/web")
        k("wait", "job/run", "--for=condition=Complete", "--timeout=30s")
        k("wait", "cronjob/web", "--for=jsonpath={.status.lastSuccessfulTime}", "--timeout=30s")
        k("get", "cronjob", "web", "-o", "yaml")
        k("get", "job", "run", "-o", "yaml")

    run("jobs", steps)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2d")
def test_a_budget(run: Run) -> None:
    def steps(k: Shell) -> None:
        k("create", "-f", "-", objects=[deployment("web", replicas=3)])
        k("rollout", "status", "deployment/web", "--timeout=30s", only=lambda line: "successfully" in line)
        k("create", "poddisruptionbudget", "some", "--selector=app=x", "--max-unavailable=1")
        k("create", "poddisruptionbudget", "none", "--selector=app=x", "--min-available=100%")
        for name in ("some", "none"):
            k("wait", f"pdb/{name}", "--for=jsonpath={.status.expectedPods}=3", "--timeout=30s")
            k("get", "pdb", name, "-o", "yaml")
        pod = k.run("get", "pods", "-o", "name")[1].split()[0].removeprefix("pod/")
        for name in ("some", "none"):
            evict(k, f"evict with {name}", pod)
            k("delete", "pdb", name)
        evict(k, "evict without a budget", pod)

    run("budgets", steps)


def evict(k: Shell, step: str, pod: str) -> None:
    """Evict a pod, and compare the answer."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": k.server.namespace}}
    try:
        answer: Any = k.server.client.create(body, subresource="eviction")
    except ctrlhost.ApiError as error:
        answer = [error.status, error.reason, str(error), error.retry_after, *error.causes]
    k.server.note(step, answer)
