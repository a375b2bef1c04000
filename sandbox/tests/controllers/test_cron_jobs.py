"""CronJobs make Jobs on the sandbox's clock."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.apimachinery import times

from tests.support.http_client import Api, names
from tests.support.objects import batch, cron_job, job
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.workload_clusters import cluster, reasons, status

FOREVER = {"run-seconds": "1000000000"}
FIVE = 300
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@pytest.fixture
def server() -> Iterator[Sandbox]:
    """Run a sandbox whose clock is one second past a multiple of five minutes."""
    with cluster() as sandbox, api_of(sandbox.kubeconfig) as api:
        namespace = api.post("/api/v1/namespaces", {"metadata": {"name": "now"}}).expect(201)
        at = times.epoch(namespace["metadata"]["creationTimestamp"])
        sandbox.advance(math.ceil(at / FIVE) * FIVE - at + 1)
        yield sandbox


def create(api: Api, ns: str, **more: Any) -> str:
    body = cron_job(**more)
    api.post(batch(ns, "cronjobs"), body).expect(201)
    return batch(ns, "cronjobs", body["metadata"]["name"])


def jobs(api: Api, ns: str) -> list[str]:
    return names(api.get(batch(ns, "jobs")))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_cron_job_makes_jobs_on_the_clock(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns)
    eventually(lambda: server.at_rest)
    assert not jobs(api, ns)
    server.advance(FIVE)
    eventually(lambda: status(api, path).get("lastSuccessfulTime"))
    (name,) = jobs(api, ns)
    state = status(api, path)
    assert "active" not in state
    due = times.epoch(state["lastScheduleTime"])
    assert due % FIVE == 0
    assert name == f"c-{int(due) // 60}"
    child = api.get(batch(ns, "jobs", name)).json()
    assert child["metadata"]["annotations"][SCHEDULED] == state["lastScheduleTime"]
    (owner,) = child["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "c", True)
    eventually(lambda: {"SuccessfulCreate", "SawCompletedJob"} <= set(reasons(api, ns, "CronJob")))
    # Only the most recent of missed times gets a Job.
    server.advance(3 * FIVE)
    eventually(lambda: len(jobs(api, ns)) == 2)
    api.delete(path).expect(200)
    eventually(lambda: not jobs(api, ns))


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_schedule_has_a_time_zone(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, schedule="30 12 * * *", timeZone="Asia/Kolkata")
    eventually(lambda: server.at_rest)
    server.advance(24 * 3600)
    eventually(lambda: status(api, path).get("lastScheduleTime"))
    assert status(api, path)["lastScheduleTime"].endswith("T07:00:00Z")
    (name,) = jobs(api, ns)
    assert api.get(batch(ns, "jobs", name)).json()["metadata"]["annotations"][SCHEDULED].endswith("T12:30:00+05:30")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_concurrency_policies(api: Api, ns: str, server: Sandbox, policy: str) -> None:
    path = create(api, ns, concurrencyPolicy=policy, job=job(annotations=FOREVER))
    eventually(lambda: server.at_rest)
    server.advance(FIVE)
    eventually(lambda: len(status(api, path).get("active", [])) == 1 and server.at_rest)
    (first,) = jobs(api, ns)
    server.advance(FIVE)
    if policy == "Forbid":
        eventually(lambda: "JobAlreadyActive" in reasons(api, ns, "CronJob"))
        assert jobs(api, ns) == [first]
        return
    expected = 2 if policy == "Allow" else 1
    eventually(lambda: any(job["name"] != first for job in status(api, path).get("active", [])))
    eventually(lambda: len(jobs(api, ns)) == expected == len(status(api, path)["active"]))
    assert (first in jobs(api, ns)) is (policy == "Allow")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_time_that_is_too_late_is_missed(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, startingDeadlineSeconds=30)
    eventually(lambda: server.at_rest)
    server.advance(FIVE + 60)
    eventually(lambda: server.at_rest)
    server.advance(FIVE - 60)
    eventually(lambda: len(jobs(api, ns)) == 1)
    due = times.epoch(status(api, path)["lastScheduleTime"])
    created = times.epoch(api.get(path).json()["metadata"]["creationTimestamp"])
    # The first time passed without a Job.
    assert due - created > FIVE


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_suspended_cron_job_makes_no_jobs(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, suspend=True)
    eventually(lambda: server.at_rest)
    server.advance(FIVE)
    eventually(lambda: server.at_rest)
    assert not jobs(api, ns)
    # The time that was missed is due once it is resumed.
    api.patch(path, {"spec": {"suspend": False}}).expect(200)
    eventually(lambda: len(jobs(api, ns)) == 1)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize(("field", "code"), [("successfulJobsHistoryLimit", "0"), ("failedJobsHistoryLimit", "1")])
def test_history_limits(api: Api, ns: str, server: Sandbox, field: str, code: str) -> None:
    inner = job(backoffLimit=0, annotations={"exit-code": code})
    path = create(api, ns, job=inner, **{field: 1})
    eventually(lambda: server.at_rest)
    seen = set()
    for _ in range(3):
        server.advance(FIVE)
        eventually(lambda: set(jobs(api, ns)) - seen and not status(api, path).get("active") and server.at_rest)
        seen.update(jobs(api, ns))
    assert len(seen) == 3
    eventually(lambda: jobs(api, ns) == [max(seen)])


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_schedule_without_a_time_makes_nothing(api: Api, ns: str, server: Sandbox) -> None:
    path = create(api, ns, schedule="0 0 31 2 *")
    eventually(lambda: server.at_rest)
    server.advance(400 * 24 * 3600)
    eventually(lambda: server.at_rest)
    assert not jobs(api, ns)
    assert not status(api, path)
