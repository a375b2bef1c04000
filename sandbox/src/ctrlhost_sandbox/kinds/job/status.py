"""Checks of the status of a Job, as `pkg/apis/batch/validation` of upstream makes them when a part of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.kinds.fields import not_negative

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.objects import Object

_CONDITIONS = "status.conditions"
_FINAL = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


def causes(obj: Object, old: Object) -> Iterator[Cause]:
    """Check a changed status."""
    state, before = obj.get("status") or {}, old.get("status") or {}
    yield from not_negative(state, "active", "succeeded", "failed", "ready", "terminating", path="status")
    now, was = ({name: is_true(state, name) for name in _FINAL} for state in (obj, old))
    changed = {name for name in _FINAL if now[name] is not was[name]}
    finished, changed_end = now["Complete"] or now["Failed"], bool(changed & {"Complete", "Failed"})
    yield from _condition_causes(now, changed)
    yield from _time_causes(state, before, complete=now["Complete"], changed="Complete" in changed)
    started = state.get("startTime") != before.get("startTime")
    spec = obj["spec"]
    idle = spec.get("suspend") is True and spec.get("completions") == 0
    if finished and (changed_end or state.get("active") != before.get("active")) and state.get("active", 0) > 0:
        yield status.invalid_value("status.active", state["active"], "active>0 is invalid for finished job")
    if finished and (changed_end or started) and not idle and not state.get("startTime"):
        yield status.required("status.startTime", "startTime is required for finished job")
    if finished and (changed_end or state.get("terminating") != before.get("terminating")) and state.get("terminating"):
        text = "terminating>0 is invalid for finished job"
        yield status.invalid_value("status.terminating", state["terminating"], text)
    changed_pods = any(state.get(name) != before.get(name) for name in ("ready", "active"))
    if changed_pods and "ready" in state and state["ready"] > state.get("active", 0):
        yield status.invalid_value("status.ready", state["ready"], "cannot set more ready pods than active")
    yield from _update_causes(state, before, was, now)


def _condition_causes(now: dict[str, bool], changed: set[str]) -> Iterator[Cause]:
    rules = (
        (
            now["Complete"] and now["Failed"],
            {"Complete", "Failed"},
            "cannot set Complete=True and Failed=true conditions",
        ),
        (
            now["Complete"] and now["FailureTarget"],
            {"Complete", "FailureTarget"},
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
        (
            now["Failed"] and not now["FailureTarget"],
            {"Failed"},
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            now["Complete"] and not now["SuccessCriteriaMet"],
            {"Complete", "SuccessCriteriaMet"},
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
    )
    for wrong, names, text in rules:
        if wrong and changed & names:
            yield Cause("FieldValueInvalid", f"Invalid value: {text}", _CONDITIONS)
    for name, word in (("Failed", "true"), ("FailureTarget", "true")):
        if now["SuccessCriteriaMet"] and now[name]:
            text = f"cannot set SuccessCriteriaMet=True and {name}={word} conditions"
            yield Cause("FieldValueInvalid", f"Invalid value: {text}", _CONDITIONS)


def _time_causes(state: dict[str, Any], before: dict[str, Any], *, complete: bool, changed: bool) -> Iterator[Cause]:
    start, end = state.get("startTime"), state.get("completionTime")
    ended, field = end != before.get("completionTime"), "status.completionTime"
    if (changed or ended) and end and not complete:
        text = "cannot set completionTime when there is no Complete=True condition"
        yield status.invalid_value(field, end, text)
    if (changed or ended) and not end and complete:
        yield status.required(field, "completionTime is required for Complete jobs")
    if (ended or start != before.get("startTime")) and start and end and times.epoch(end) < times.epoch(start):
        yield status.invalid_value(field, end, "must be equal to or after `startTime`")


def _update_causes(
    state: dict[str, Any], before: dict[str, Any], was: dict[str, bool], now: dict[str, bool]
) -> Iterator[Cause]:
    """Check that what was final stays."""
    for name in _FINAL:
        if was[name] and not now[name]:
            text = f"cannot disable the terminal {name}=True condition"
            yield Cause("FieldValueInvalid", f"Invalid value: {text}", _CONDITIONS)
    if state.get("failed", 0) < before.get("failed", 0):
        yield status.invalid_value("status.failed", state.get("failed", 0), "cannot decrease the failed counter")
    end = before.get("completionTime")
    if end and state.get("completionTime") != end:
        text = "field is immutable"
        yield status.invalid_value("status.completionTime", state.get("completionTime"), text)
