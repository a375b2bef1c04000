"""Status conditions by the API conventions: one per type; `lastTransitionTime` changes only with the status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.clock import Clock


def set(  # noqa: A001 - the contract's name; it is used as `conditions.set`
    obj: dict[str, Any],
    type: str,  # noqa: A002 - the name of the API field
    status: str | bool | None,
    reason: str,
    message: str,
    clock: Clock,
    *,
    observed_generation: int | None = None,
) -> bool:
    """Set one entry of `status.conditions` of `obj` in place; return whether anything changed.

    Works as `meta.SetStatusCondition` of apimachinery. `status` is a bool, None for Unknown, or the API's string.
    `lastTransitionTime` becomes the clock's time when the condition is new or its status differs. `observedGeneration`
    is kept unless given. `obj` is the caller's own dict, as `Object.to_dict()` returns it; the caller writes it to the
    server. ValueError for another status, or without a type or reason; TypeError unless `obj` is a dict.
    """
    if not isinstance(obj, dict):
        raise TypeError(f"conditions.set changes a dict in place; pass obj.to_dict(), not a {obj.__class__.__name__}")
    word = status if isinstance(status, str) else "Unknown" if status is None else str(status)
    if word not in ("True", "False", "Unknown"):
        raise ValueError(f"the status of a condition must be True, False or Unknown, got {status!r}")
    if not type or not reason:
        raise ValueError("a condition needs a type and a reason; the server rejects it otherwise")
    section = obj.setdefault("status", {})
    conditions: list[dict[str, Any]] = section.setdefault("conditions", [])
    wanted: dict[str, Any] = {"type": type, "status": word, "reason": reason, "message": message}
    if observed_generation is not None:
        wanted["observedGeneration"] = observed_generation
    for condition in conditions:
        if condition.get("type") != type:
            continue
        if condition.get("status") != word or not condition.get("lastTransitionTime"):
            wanted["lastTransitionTime"] = timestamp(clock)
        changed = any(condition.get(name) != value for name, value in wanted.items())
        condition.update(wanted)
        return changed
    conditions.append({**wanted, "lastTransitionTime": timestamp(clock)})
    return True


def get(obj: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:  # noqa: A002 - the name of the API field
    """Return the condition of that type, None if it is not set."""
    conditions: Sequence[Mapping[str, Any]] = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == type), None)


def is_true(obj: Mapping[str, Any], type: str) -> bool:  # noqa: A002 - the name of the API field
    """Return whether the condition of that type is set and True."""
    condition = get(obj, type)
    return condition is not None and condition.get("status") == "True"


def timestamp(clock: Clock) -> str:
    """Return the clock's time as the API writes it, in whole seconds."""
    return datetime.fromtimestamp(clock.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
