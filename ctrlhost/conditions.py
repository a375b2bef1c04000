"""Status conditions as the API conventions have them: one per type, times that move only when the status does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Set one entry of `obj`'s `status.conditions` in place, and say whether anything changed.

    `status` is `True`, `False`, None for Unknown, or the API's word. `lastTransitionTime` is the clock's time when
    the condition is new or its status differs, else it stays. `observedGeneration` is written when given, else kept.
    `obj` is a dict of one's own, as `Object.to_dict()` gives it; writing it to the server is the caller's business.
    """
    if not isinstance(obj, dict):
        raise TypeError(f"conditions.set changes a dict in place; take obj.to_dict(), not a {obj.__class__.__name__}")
    word = (
        {True: "True", False: "False", None: "Unknown"}.get(status, status) if not isinstance(status, str) else status
    )
    if word not in ("True", "False", "Unknown"):
        raise ValueError(f"the status of a condition is True, False or Unknown, not {status!r}")
    if not type or not reason:
        raise ValueError("a condition needs a type and a reason; the server refuses it without")
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
    """Give the condition of that type, or None."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == type:
            found: Mapping[str, Any] = condition
            return found
    return None


def is_true(obj: Mapping[str, Any], type: str) -> bool:  # noqa: A002 - the name of the API field
    """Say whether the condition of that type is there and True."""
    condition = get(obj, type)
    return condition is not None and condition.get("status") == "True"


def timestamp(clock: Clock) -> str:
    """Give the clock's time as the API writes it, in whole seconds."""
    return datetime.fromtimestamp(clock.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
