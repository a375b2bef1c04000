"""Jobs and CronJobs."""

from __future__ import annotations

import re
import zoneinfo
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import cron, status, times
from ctrlhost_sandbox.apimachinery.durations import age, duration
from ctrlhost_sandbox.apimachinery.names import is_label
from ctrlhost_sandbox.apimachinery.objects import at, is_true
from ctrlhost_sandbox.apimachinery.selectors import match_selector, selector_text
from ctrlhost_sandbox.kinds.cells import NONE, WORKLOAD, created, images
from ctrlhost_sandbox.kinds.fields import immutable, not_negative, selector_causes
from ctrlhost_sandbox.kinds.job import spec as job_spec
from ctrlhost_sandbox.kinds.job import status as job_status
from ctrlhost_sandbox.kinds.pod import spec as pod_spec
from ctrlhost_sandbox.kinds.pod import warnings as pod_warnings
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_STATES = (
    *(("Complete", "Complete"), ("Failed", "Failed"), ("", "Terminating"), ("Suspended", "Suspended")),
    *(("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet")),
)
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_LONGEST_CRON_NAME = 52
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII)


class _Jobs(BuiltinStrategy):
    """A job's selector and the labels of its pods are generated from its uid."""

    allocates = True
    orphans = True
    kept_metadata = ("labels",)
    defaults = (
        ("spec.completionMode", "NonIndexed"),
        ("spec.suspend", False),
        ("spec.manualSelector", False),
        *below("spec.template.spec", pod_spec.DEFAULTS),
        ("spec.podFailurePolicy.rules[*].onPodConditions[*].status", "True"),
    )
    columns = f"Status Completions Duration Age {WORKLOAD} Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj["spec"], obj.get("status") or {}
        done, parallel = state.get("succeeded", 0), spec.get("parallelism", 0)
        total = spec.get("completions", f"1 of {parallel}" if parallel > 1 else 1)
        cells = (_state(obj), f"{done}/{total}", _duration(state), created(obj))
        return (*cells, *images(obj), selector_text(spec.get("selector")))

    def default(self, obj: Object) -> None:
        """Set what depends on other fields."""
        spec, metadata = obj["spec"], obj["metadata"]
        job_spec.default(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels and not metadata.get("labels"):
            # One map, as in a real server: the generated labels will be in both.
            metadata["labels"] = labels

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Generate the selector and the labels, unless they are the client's."""
        spec, metadata = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for name in NAME_LABELS:
            labels.setdefault(name, metadata.get("name", ""))
        for name in UID_LABELS:
            labels.setdefault(name, metadata["uid"])
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector.setdefault(UID_LABELS[1], metadata["uid"])

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Omit the generated selector and labels."""
        spec = {key: value for key, value in obj["spec"].items() if key != "selector" or key in sent}
        own = at(sent, ("template", "metadata", "labels")) or {}
        metadata = dict(spec["template"].get("metadata") or {})
        if labels := metadata.pop("labels", None):
            kept = {key: value for key, value in labels.items() if key in own}
            if kept:
                metadata["labels"] = kept
        tracked = {**obj, "spec": {**spec, "template": {**spec["template"], "metadata": metadata}}}
        if obj["metadata"].get("labels") is labels and labels is not None:
            tracked["metadata"] = {**obj["metadata"], "labels": metadata.get("labels") or {}}
        return tracked

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the spec, and that only mutable fields change."""
        path = ("spec", "template", "spec")
        pod_warnings.warn(
            at(obj, path) or {}, None if old is None else at(old, path), ".".join(path), operation.warnings
        )
        if operation.subresource == "status":
            yield from job_status.causes(obj, old or {})
            return
        causes = list(_spec_causes(obj, old))
        yield from causes
        if old is not None:
            # A real server checks the new spec by itself, and again as part of the update.
            yield from causes
            yield from _update_causes(obj, old)


class _CronJobs(BuiltinStrategy):
    """A schedule and the template of a job."""

    defaults = (
        ("spec.concurrencyPolicy", "Allow"),
        ("spec.suspend", False),
        ("spec.successfulJobsHistoryLimit", 3),
        ("spec.failedJobsHistoryLimit", 1),
        *below("spec.jobTemplate.spec.template.spec", pod_spec.DEFAULTS),
    )
    columns = f"Schedule Timezone Suspend:b Active:i Last_Schedule Age {WORKLOAD} Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj["spec"], obj.get("status") or {}
        last = age(state["lastScheduleTime"]) if state.get("lastScheduleTime") else NONE
        template = (spec.get("jobTemplate") or {}).get("spec") or {}
        schedule = (spec.get("schedule", ""), spec.get("timeZone", NONE), _show(spec.get("suspend")))
        selector = selector_text(template.get("selector")) or NONE
        return (
            *schedule,
            len(state.get("active") or ()),
            last,
            created(obj),
            *images({"spec": template}),
            selector,
        )

    def default(self, obj: Object) -> None:
        template = (obj["spec"]["jobTemplate"].get("spec") or {}).get("template") or {}
        pod_spec.default(template.get("spec") or {})

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the schedule and the template."""
        if operation.subresource == "status":
            return
        spec, before = obj["spec"], {} if old is None else old["spec"]
        path = ("spec", "jobTemplate", "spec", "template", "spec")
        pod_warnings.warn(
            at(obj, path) or {}, None if old is None else at(old, path), ".".join(path), operation.warnings
        )
        yield from _schedule_causes(spec, before)
        yield from not_negative(spec, "startingDeadlineSeconds")
        if spec.get("timeZone") != before.get("timeZone"):
            yield from _zone_causes(spec.get("timeZone"))
        if spec["concurrencyPolicy"] not in _CONCURRENCY:
            yield status.not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _CONCURRENCY)
        template = spec["jobTemplate"].get("spec") or {}
        yield from job_spec.causes(template, "spec.jobTemplate.spec")
        if template.get("selector"):
            text = "`selector` will be auto-generated"
            yield status.invalid_value("spec.jobTemplate.spec.selector", template["selector"], text)
        if template.get("manualSelector"):
            yield status.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
        yield from not_negative(spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        name = obj["metadata"].get("name", "")
        if old is None and len(name) > _LONGEST_CRON_NAME:
            text = f"must be no more than {_LONGEST_CRON_NAME} characters"
            yield status.invalid_value("metadata.name", name, text)


def _spec_causes(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = obj["spec"]
    if old is None:
        yield from _generated_causes(obj)
    yield from job_spec.causes(spec, "spec")
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        yield status.required("spec.selector")
        text = "`selector` does not match template `labels`"
        yield status.invalid_value("spec.template.metadata.labels", labels or None, text)
    else:
        yield from (causes := list(selector_causes(spec["selector"], "spec.selector")))
        if not causes and not match_selector(spec["selector"], labels):
            text = "`selector` does not match template `labels`"
            yield status.invalid_value("spec.template.metadata.labels", labels or None, text)
    count = spec.get("completions") or 0
    if old is None and spec.get("completionMode") == "Indexed" and count > 0:
        name = obj["metadata"].get("name", "")
        if not is_label(f"{name}-{count - 1}"):
            text = f"will not able to create pod with invalid DNS label: {name}-{count - 1}"
            yield status.invalid_value("metadata.name", name, text)


def _generated_causes(obj: Object) -> Iterator[Cause]:
    """Check that labels which the client set are those that would have been generated."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"]["labels"]
    wanted = dict.fromkeys(UID_LABELS, metadata["uid"]) | {name: metadata.get("name", "") for name in NAME_LABELS}
    for name, value in wanted.items():
        if labels[name] != value:
            yield status.invalid_value("spec.template.metadata.labels", labels, f"must be '{value}'")
    if not match_selector(spec["selector"], wanted):
        yield status.invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated")


def _update_causes(obj: Object, old: Object) -> Iterator[Cause]:
    """Check an update: most of a job is immutable, except the scheduling of a suspended one."""
    spec, before = obj["spec"], old["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    if not indexed:
        yield from immutable(obj, old, "spec", "completions")
    elif spec.get("completions") != before.get("completions") and spec.get("completions") != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        yield status.invalid_value("spec.completions", spec.get("completions"), text)
    yield from immutable(obj, old, "spec", "selector")
    if _frozen(obj, old) != _frozen(old, old):
        field = "spec.template.spec" if _is_movable(old) else "spec.template"
        yield status.invalid_value(field, spec["template"], "field is immutable")
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        yield from immutable(obj, old, "spec", name)


def _is_movable(obj: Object) -> bool:
    """Return whether a job never started, so that it may be scheduled elsewhere."""
    return bool(obj["spec"].get("suspend")) and not (obj.get("status") or {}).get("startTime")


def _frozen(obj: Object, old: Object) -> Any:
    """Return the immutable part of the template."""
    template = obj["spec"]["template"]
    if not _is_movable(old):
        return template
    pod = dict(template["spec"])
    for name in ("nodeSelector", "affinity", "tolerations", "schedulingGates"):
        pod.pop(name, None)
    pod["containers"] = [
        {key: container[key] for key in container if key != "resources"} for container in pod.get("containers") or ()
    ]
    metadata = {**(template.get("metadata") or {}), "labels": None, "annotations": None}
    return {**template, "metadata": metadata, "spec": pod}


def _schedule_causes(spec: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Cause]:
    text, field = spec.get("schedule", ""), "spec.schedule"
    if not text:
        yield status.required(field)
        return
    try:
        cron.parse(text)
    except ValueError as error:
        yield status.invalid_value(field, text, str(error))
    if "TZ" in text and "TZ" not in before.get("schedule", ""):
        yield status.invalid_value(field, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif "TZ" in text and spec.get("timeZone") is not None:
        yield status.invalid_value(field, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _zone_causes(zone: str | None) -> Iterator[Cause]:
    field = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        yield status.invalid_value(field, zone, "timeZone must be nil or non-empty string")
    elif any(part in (".", "..") or part[:1] == "-" or not _ZONE_PART.fullmatch(part) for part in zone.split("/")):
        yield status.invalid_value(field, zone, f"unknown time zone {zone}")
    elif zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield status.invalid_value(field, zone, text)
    else:
        try:
            zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            yield status.invalid_value(field, zone, f"unknown time zone {zone}")


def _state(obj: Object) -> str:
    for name, text in _STATES:
        if is_true(obj, name) if name else "deletionTimestamp" in obj["metadata"]:
            return text
    return "Running"


def _duration(state: Mapping[str, Any]) -> str:
    start, end = state.get("startTime"), state.get("completionTime")
    if not start:
        return ""
    return duration(times.epoch(end) - times.epoch(start)) if end else age(start)


def _show(value: Any) -> str:
    return "<unset>" if value is None else ("True" if value else "False")


STRATEGIES = {("batch", "Job"): _Jobs(), ("batch", "CronJob"): _CronJobs()}
