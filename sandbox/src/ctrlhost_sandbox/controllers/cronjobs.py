"""CronJobs: Jobs at the times of a schedule, on the sandbox's clock, as upstream's controller makes them."""

from __future__ import annotations

import copy
import datetime as dt
import email.utils
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import clock, cron, schedules, times
from ctrlhost_sandbox.controllers.controller import Controller, Key, controller_of, owner_of
from ctrlhost_sandbox.controllers.jobs import TABLE as JOBS
from ctrlhost_sandbox.controllers.jobs import finished
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

TABLE = "batch/cronjobs"
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY = 100
_LATER = 0.1
"""How long after a scheduled time the controller looks, in seconds."""


class CronJobController(Controller):
    """Keys are namespace and name of a CronJob."""

    name = "cronjob"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed CronJob, and the one that controls a changed Job."""
        if table.name == TABLE:
            return [event.latest.key]
        owner = owner_of(event.latest.decode()) if table.name == JOBS and event.latest.owners else None
        return [(event.latest.namespace, owner["name"])] if owner and owner["kind"] == "CronJob" else []

    def reconcile(self, key: Key) -> None:
        """Delete old Jobs, update the status, and create the Job that is due."""
        kind = self.kind("batch", "CronJob")
        cron_job = self.read(kind, *key)
        if cron_job is None:
            return
        jobs = self.listed(self.kind("batch", "Job"), key[0])
        own = [job for job in jobs if controller_of(job) == cron_job["metadata"]["uid"]]
        status = cron_job.setdefault("status", {})
        status["active"] = list(status.get("active") or ())
        self._clean(cron_job, own)
        self._observe(cron_job, own)
        self._start(cron_job, key)
        if not status["active"]:
            del status["active"]
        self.update(kind, cron_job, "status")

    def _clean(self, cron_job: Object, jobs: list[Object]) -> None:
        """Delete the oldest finished Jobs beyond the limits."""
        for name, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            ended = [job for job in jobs if (end := finished(job)) is not None and end["type"] == name]
            ended.sort(key=lambda job: (job["status"].get("startTime", "~"), job["metadata"]["name"]))
            for job in ended[: max(len(ended) - cron_job["spec"].get(limit, len(ended)), 0)]:
                self._delete(cron_job, job)
                jobs.remove(job)

    def _delete(self, cron_job: Object, job: Object) -> None:
        self.delete(self.kind("batch", "Job"), job, "Background")
        _drop(cron_job, job["metadata"]["uid"])
        self.event(cron_job, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")

    def _observe(self, cron_job: Object, jobs: list[Object]) -> None:
        """Update the active Jobs and the time of the last success."""
        status = cron_job["status"]
        for job in jobs:
            name, uid, end = job["metadata"]["name"], job["metadata"]["uid"], finished(job)
            active = any(reference["uid"] == uid for reference in status["active"])
            if end is None and not active:
                text = f"Saw a job that the controller did not create or forgot: {name}"
                self.event(cron_job, "UnexpectedJob", text, warning=True)
            if end is not None and active:
                _drop(cron_job, uid)
                self.event(cron_job, "SawCompletedJob", f"Saw completed job: {name}, condition: {end['type']}")
            if end is not None and end["type"] == "Complete":
                completed = job["status"].get("completionTime", "")
                status["lastSuccessfulTime"] = max(status.get("lastSuccessfulTime", ""), completed)
        known = {job["metadata"]["uid"] for job in jobs}
        for reference in [reference for reference in status["active"] if reference["uid"] not in known]:
            self.event(cron_job, "MissingJob", f"Active job went missing: {reference['name']}")
            _drop(cron_job, reference["uid"])

    def _start(self, cron_job: Object, key: Key) -> None:
        """Create the Job of the most recent time that was missed, unless the spec says otherwise."""
        spec, status = cron_job["spec"], cron_job["status"]
        if "deletionTimestamp" in cron_job["metadata"] or spec.get("suspend"):
            return
        try:
            zone = schedules.load_zone(spec.get("timeZone", ""))
        except ValueError as error:
            self.event(cron_job, "UnknownTimeZone", f'invalid timeZone: "{spec["timeZone"]}": {error}', warning=True)
            return
        plan = _Plan(cron_job, zone)
        self._look_again(plan, key)
        due = plan.due()
        if plan.missed > _MANY:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.event(cron_job, "TooManyMissedTimes", text, warning=True)
        if due is None:
            return
        if due + spec.get("startingDeadlineSeconds", float("inf")) < clock.time():
            text = f"Missed scheduled time to start a job: {email.utils.formatdate(due)}"
            self.event(cron_job, "MissSchedule", text, warning=True)
            return
        name = f"{key[1]}-{int(due) // 60}"
        if status.get("lastScheduleTime") == times.seconds(due) or any(
            reference["name"] == name for reference in status["active"]
        ):
            return
        if spec.get("concurrencyPolicy") == "Forbid" and status["active"]:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.event(cron_job, "JobAlreadyActive", text)
            return
        if spec.get("concurrencyPolicy") == "Replace":
            for reference in list(status["active"]):
                job = self.read(self.kind("batch", "Job"), key[0], reference["name"])
                if job is not None:
                    self._delete(cron_job, job)
        self._create(cron_job, name, due, zone)
        self._look_again(_Plan(cron_job, zone), key)

    def _look_again(self, plan: _Plan, key: Key) -> None:
        next_time = plan.next()
        if next_time is not None:
            self.add_after(key, max(next_time + _LATER - clock.time(), _LATER))

    def _create(self, cron_job: Object, name: str, due: float, zone: dt.tzinfo) -> None:
        template = copy.deepcopy(cron_job["spec"]["jobTemplate"])
        metadata = template.get("metadata") or {}
        kind = self.kind("batch", "Job")
        existing = self.read(kind, cron_job["metadata"]["namespace"], name)
        if existing is not None and controller_of(existing) != cron_job["metadata"]["uid"]:
            return
        moment = dt.datetime.fromtimestamp(due, zone).isoformat()
        job = existing or {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": metadata.get("labels") or {},
                "annotations": {**(metadata.get("annotations") or {}), _SCHEDULED: moment.replace("+00:00", "Z")},
                "ownerReferences": [meta.owner_reference(cron_job)],
            },
            "spec": template["spec"],
        }
        if existing is None:
            job = self.create(kind, cron_job["metadata"]["namespace"], job)
            self.event(cron_job, "SuccessfulCreate", f"Created job {name}")
        named = {field: job["metadata"][field] for field in ("namespace", "name", "uid", "resourceVersion")}
        cron_job["status"]["active"].append({"kind": "Job", "apiVersion": "batch/v1", **named})
        cron_job["status"]["lastScheduleTime"] = times.seconds(due)


class _Plan:
    """The times of a schedule around now."""

    def __init__(self, cron_job: Object, zone: dt.tzinfo) -> None:
        schedule = cron.parse(cron_job["spec"]["schedule"])
        self._after: Callable[[float], float | None] = lambda moment: schedules.after(schedule, moment, zone)
        since = (cron_job.get("status") or {}).get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
        self._since, self._now = times.epoch(since), clock.time()
        self._deadline: float = cron_job["spec"].get("startingDeadlineSeconds", float("inf"))
        self.missed = 0
        """How many times passed without a Job, roughly; set by `due`."""

    def due(self) -> float | None:
        """Return the most recent time that has passed."""
        return self._most_recent(max(self._since, self._now - self._deadline))

    def next(self) -> float | None:
        """Return the next time, which may be in the past."""
        missed, recent = self.missed, self._most_recent(self._since)
        behind, self.missed = self.missed, missed
        return self._after(recent if recent is not None else self._now if behind else self._since)

    def _most_recent(self, since: float) -> float | None:
        self.missed = 0
        first = self._after(since)
        second = None if first is None else self._after(first)
        if first is None or self._now < first:
            return None
        if second is None or self._now < second:
            return first
        # Irregular schedules need the search; it begins near the end, since there may be many times.
        step = max(second - first, 1.0)
        self.missed = int((self._now - first) // step) + 1
        latest, moment = None, self._after(first + (self.missed - 2) * step)
        while moment is not None and moment <= self._now:
            latest, moment = moment, self._after(moment)
        return latest


def _drop(cron_job: Object, uid: str) -> None:
    active: list[dict[str, Any]] = cron_job["status"]["active"]
    active[:] = [reference for reference in active if reference["uid"] != uid]
