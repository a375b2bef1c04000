"""Jobs: pods that run to completion, counted once each by a finalizer, as upstream's job controller does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import clock, times
from ctrlhost_sandbox.apimachinery.objects import condition, is_true
from ctrlhost_sandbox.controllers import claims, failures, indexes
from ctrlhost_sandbox.controllers.controller import Controller, Key, owner_of
from ctrlhost_sandbox.controllers.tallies import Tally, new_condition

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.storage.store import Event, Table

TABLE = "batch/jobs"
FINALIZER = "batch.kubernetes.io/job-tracking"
_CONTROLLER = "kubernetes.io/job-controller"
_SOME = 500
"""How many pods are created, deleted or counted at once."""


class JobController(Controller):
    """Keys are namespace and name of a Job; a third part marks the key of a pod that may have lost its Job."""

    name = "job"

    def __init__(self, context: ServerContext) -> None:
        """Start without any back-off."""
        super().__init__(context)
        self.backoffs: dict[Key, failures.Backoff] = {}

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed Job and its pods once it is over, and a changed pod and its Job."""
        keys = claims.touched(self, TABLE, table, event)
        if table.name == "pods" and FINALIZER.encode() in event.latest.raw:
            keys.append((*event.latest.key, "pod"))
        elif table.name == TABLE and (event.new is None or finished(event.new.decode())):
            pods = self.context.store.table("pods").list(event.latest.namespace)
            keys += [(*pod.key, "pod") for pod in pods if event.latest.uid in pod.owners]
        return keys

    def reconcile(self, key: Key) -> None:
        """Create and delete pods, count the ended ones, and finish or expire the Job."""
        kind = self.kind("batch", "Job")
        if len(key) == 3:
            self._release(key)
            return
        job = self.read(kind, *key)
        if job is None or finished(job):
            self.backoffs.pop(key, None)
        if job is None or job["spec"].get("managedBy", _CONTROLLER) != _CONTROLLER:
            return
        ended = finished(job)
        if ended is None:
            _Pass(self, job, key).run()
        elif "ttlSecondsAfterFinished" in job["spec"] and "deletionTimestamp" not in job["metadata"]:
            left = times.epoch(ended["lastTransitionTime"]) + job["spec"]["ttlSecondsAfterFinished"] - clock.time()
            if left > 0:
                self.add_after(key, left)
            else:
                self.delete(kind, job, "Foreground")

    def untrack(self, pod: Object) -> None:
        """Remove the finalizer from a pod, if it still exists."""
        kind, metadata = self.kind("", "Pod"), pod["metadata"]
        stored = self.read(kind, metadata["namespace"], metadata["name"])
        if stored is not None and stored["metadata"]["uid"] == metadata["uid"] and is_tracked(stored):
            stored["metadata"]["finalizers"].remove(FINALIZER)
            self.update(kind, stored)

    def _release(self, key: Key) -> None:
        """Remove the finalizer from a pod whose Job is over or missing."""
        pod = self.read(self.kind("", "Pod"), *key[:2])
        if pod is None or not is_tracked(pod):
            return
        owner = owner_of(pod)
        if owner is not None:
            if owner["kind"] != "Job":
                return
            job = self.read(self.kind("batch", "Job"), key[0], owner["name"])
            if job is not None and job["metadata"]["uid"] == owner["uid"] and finished(job) is None:
                return
        self.untrack(pod)


def finished(job: Object) -> dict[str, Any] | None:
    """Return the condition of a finished Job."""
    conditions = [condition(job, name) for name in ("Complete", "Failed")]
    return next((dict(entry) for entry in conditions if entry is not None and entry["status"] == "True"), None)


def is_tracked(pod: Object) -> bool:
    """Return whether the pod is not yet counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


class _Pass:
    """One reconcile of an unfinished Job."""

    def __init__(self, controller: JobController, job: Object, key: Key) -> None:
        self._controller, self._job, self._key = controller, job, key
        self._spec: dict[str, Any] = job["spec"]
        self._tally = Tally(controller, job)
        self._status = self._tally.status
        self._completions: int | None = self._spec.get("completions")
        self._indexed = self._spec.get("completionMode") == "Indexed"
        self._suspended = bool(self._spec.get("suspend"))
        self._pods = claims.claim(controller, job, finalizer=FINALIZER)
        if self._indexed:
            self._pods.sort(key=lambda pod: -1 if (index := indexes.index_of(pod)) is None else index)
        self._active = [pod for pod in self._pods if not claims.is_going(pod) and not claims.has_ended(pod)]
        self._ready = sum(is_true(pod, "Ready") for pod in self._active)
        self._terminating = sum(claims.is_going(pod) and not claims.has_ended(pod) for pod in self._pods)
        self._running = len(self._active)
        self._verdict: dict[str, Any] | None = None
        """The condition that ends the Job."""
        tracked = [pod for pod in self._pods if is_tracked(pod)]
        self._indexes = indexes.Indexes(job, tracked, self._active) if self._indexed else None

    def run(self) -> None:
        new_succeeded = [pod for pod in self._new("succeeded") if pod["status"].get("phase") == "Succeeded"]
        new_failed = [pod for pod in self._new("failed") if failures.has_failed(pod, self._job)]
        self._succeeded = self._tally.total("succeeded", len(new_succeeded))
        failed = self._tally.total("failed", sum(failures.counts(self._job, pod) for pod in new_failed))
        if not self._suspended:
            self._status.setdefault("startTime", times.now())
        known = self._controller.backoffs.get(self._key, failures.Backoff())
        self._backoff = known.after(new_succeeded, new_failed)
        self._judge(failed)
        if self._indexes is not None:
            self._succeeded = len(self._indexes.succeeded)
            self._verdict = self._verdict or self._indexes.verdict()
        if self._verdict is not None:
            self._delete(self._active, keep=True)
        else:
            if "deletionTimestamp" not in self._job["metadata"]:
                self._manage()
            self._complete()
        self._track()

    def _new(self, known: str) -> list[Object]:
        """Return the pods that no count includes yet."""
        counted = self._tally.noted(known)
        return [
            pod for pod in self._pods if is_tracked(pod) and pod["metadata"]["uid"] not in counted and self._valid(pod)
        ]

    def _valid(self, pod: Object) -> bool:
        index = indexes.index_of(pod)
        return not self._indexed or (index is not None and index < (self._completions or 0))

    # what ends the Job

    def _judge(self, failed: int) -> None:
        spec = self._spec
        target = self._tally.find("FailureTarget")
        self._verdict = self._tally.find("SuccessCriteriaMet")
        if self._verdict is not None:
            return
        if target is not None:
            self._verdict = new_condition("Failed", target["reason"], target["message"])
        elif text := self._fatal():
            self._verdict = new_condition("FailureTarget", "PodFailurePolicy", text)
        elif failed > self._limit() or self._restarted_too_often():
            self._fail("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif "activeDeadlineSeconds" in spec and not self._suspended:
            left = times.epoch(self._status["startTime"]) + spec["activeDeadlineSeconds"] - clock.time()
            if left <= 0:
                self._fail("DeadlineExceeded", "Job was active longer than specified deadline")
            else:
                self._controller.add_after(self._key, left)

    def _fail(self, reason: str, message: str) -> None:
        self._verdict = new_condition("FailureTarget", reason, message)

    def _limit(self) -> int:
        return int(self._spec.get("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in self._spec else 6))

    def _fatal(self) -> str:
        """Return the text of a failed pod that fails the Job at once."""
        verdicts = (failures.judge(self._job, pod) for pod in self._pods if failures.has_failed(pod, self._job))
        return next((text for action, text in verdicts if action == "FailJob"), "")

    def _restarted_too_often(self) -> bool:
        if self._spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        pods = [pod["status"] for pod in self._pods if pod["status"].get("phase") in ("Running", "Pending")]
        restarts = sum(
            container.get("restartCount", 0)
            for status in pods
            for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        )
        return bool(restarts >= max(self._limit(), 1))

    def _complete(self) -> None:
        """End the Job after enough successes, else record whether it is suspended."""
        wanted = 1 if self._completions is None else self._completions
        if self._succeeded >= wanted and not self._running:
            text = "Reached expected number of succeeded pods"
            self._verdict = new_condition("SuccessCriteriaMet", "CompletionsReached", text)
        elif self._suspended:
            if self._tally.set(new_condition("Suspended", "JobSuspended", "Job suspended")):
                self._controller.event(self._job, "Suspended", "Job suspended")
                self._status.pop("startTime", None)
        elif self._tally.set(new_condition("Suspended", "JobResumed", "Job resumed", "False")):
            self._controller.event(self._job, "Resumed", "Job resumed")
            self._status["startTime"] = times.now()

    # pods

    def _manage(self) -> None:
        """Delete surplus pods, or create missing ones."""
        if self._suspended:
            self._delete(self._surplus(len(self._active)))
            return
        parallelism = self._spec.get("parallelism", 1)
        if self._completions is None:
            wanted = self._running if self._succeeded else parallelism
        else:
            wanted = max(min(self._completions - self._succeeded, parallelism), 0)
        surplus = self._surplus(max(self._running - wanted, 0))
        if surplus:
            self._delete(surplus[:_SOME])
            return
        missing = wanted - self._running
        if failures.replaces_only_ended(self._job):
            missing -= self._terminating
        if missing > 0:
            self._create(min(missing, _SOME))

    def _create(self, missing: int) -> None:
        chosen: list[int | None] = [None] * missing
        wait = self._backoff.remaining()
        if self._indexes is not None:
            ending = [pod for pod in self._pods if claims.is_going(pod) and not claims.has_ended(pod)]
            pending = self._indexes.pending(ending if failures.replaces_only_ended(self._job) else [], missing)
            chosen = list(pending)
            if "backoffLimitPerIndex" in self._spec:
                delays = {index: self._indexes.wait_of(index) for index in pending}
                chosen = [index for index, delay in delays.items() if not delay]
                wait = 0.0 if chosen else min(delays.values(), default=0.0)
        if wait:
            self._controller.add_after(self._key, wait)
            return
        for index in chosen:
            pod = claims.from_template(self._job, self._spec["template"], f"{self._job['metadata']['name']}-")
            pod["metadata"]["finalizers"] = [*(pod["metadata"].get("finalizers") or ()), FINALIZER]
            if self._indexes is not None and index is not None:
                self._indexes.mark(pod, index)
            claims.create(self._controller, self._job, pod)
            self._running += 1

    def _surplus(self, least: int) -> list[Object]:
        """Return the pods to delete: those with a wrong or a second index, and others up to `least`."""
        wrong: list[Object] = []
        left = sorted(self._active, key=_worth)
        if self._indexed:
            seen: set[int | None] = set()
            for pod in reversed(left):
                index = indexes.index_of(pod)
                if not self._valid(pod) or index in seen:
                    wrong.append(pod)
                seen.add(index)
            left = [pod for pod in left if pod not in wrong]
        return wrong + left[: max(least - len(wrong), 0)]

    def _delete(self, pods: list[Object], *, keep: bool = False) -> None:
        """Delete pods; `keep` leaves their finalizers, so that they are counted."""
        for pod in pods:
            if not keep:
                self._controller.untrack(pod)
            claims.delete(self._controller, self._job, pod)
            self._running -= 1
            self._terminating += 1
            self._ready -= is_true(pod, "Ready")

    # the status

    def _track(self) -> None:
        """Count ended pods: first their uids are written, then the finalizers go, then the numbers are written."""
        tally = self._tally
        self._status.update(active=self._running, ready=self._ready, terminating=self._terminating)
        tracked = {pod["metadata"]["uid"] for pod in self._pods if is_tracked(pod)}
        tally.count(tracked)
        ended = [pod for pod in self._pods if is_tracked(pod) and self._may_count(pod)][:_SOME]
        for pod in ended:
            self._note(pod)
        if self._indexes is not None:
            self._status.update(self._indexes.counted(ended))
        final = self._verdict
        if final is not None and final["type"] != "Failed":
            tally.set(final)
            done = "Failed" if final["type"] == "FailureTarget" else "Complete"
            final = new_condition(done, final["reason"], final["message"])
        tally.write()
        self._controller.backoffs[self._key] = self._backoff
        for pod in ended:
            self._controller.untrack(pod)
            tracked.discard(pod["metadata"]["uid"])
        tally.count(tracked)
        if final is not None and tally.is_settled and not self._terminating:
            tally.finish(final)
        tally.write()

    def _may_count(self, pod: Object) -> bool:
        over = self._verdict is not None or "deletionTimestamp" in self._job["metadata"]
        if over or pod["status"].get("phase") == "Succeeded":
            return True
        held = self._indexes is not None and self._indexes.holds(pod)
        return failures.has_failed(pod, self._job) and not held

    def _note(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        over = self._verdict is not None and self._verdict["type"] != "SuccessCriteriaMet"
        if pod["status"].get("phase") == "Succeeded":
            # The index of a pod is enough to count it once.
            if not self._indexed and uid not in self._tally.noted("failed"):
                self._tally.note("succeeded", uid)
        elif (over or failures.has_failed(pod, self._job)) and self._valid(pod) and failures.counts(self._job, pod):
            self._tally.note("failed", uid)


def _worth(pod: Object) -> tuple[bool, bool, bool]:
    """Sort unscheduled, pending and unready pods first."""
    return bool(pod["spec"].get("nodeName")), pod["status"].get("phase") == "Running", is_true(pod, "Ready")
