"""What to do about one CustomResourceDefinition: nothing, or which status to write. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import conditions as status_conditions
from ctrlhost_naming.calculation import Calculation, Used, calculate
from ctrlhost_naming.conditions import is_true

if TYPE_CHECKING:
    from ctrlhost import Clock
    from ctrlhost_naming.crd import Crd


class Mode(enum.Enum):
    """How far the plugin goes."""

    OBSERVE = "observe"
    """Compare and report; write nothing."""
    REPAIR = "repair"
    """Observe, and put right the one state that the API server's own controller never leaves."""
    ENFORCE = "enforce"
    """Be the naming controller, where there is none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one CRD. `calculation` is None where the names were not looked at because all is well."""

    calculation: Calculation | None
    differs: bool
    """The status is not what the calculation gives."""
    write: bool


def decide(crd: Crd, used: Used, mode: Mode) -> Decision:
    """Decide about one CRD.

    A CRD that has what it asks for is left alone only if its condition says so too. The API server looks at the names
    alone, and so leaves a CRD that gave up a conflicting name at NamesAccepted False for ever: `repair` cures that.
    """
    if crd.satisfied and is_true(crd.names_accepted):
        return Decision(None, differs=False, write=False)
    calculation = calculate(crd.requested, crd.accepted, crd.established, used)
    differs = calculation.accepted != crd.accepted or calculation.names_accepted != crd.names_accepted
    match mode:
        case Mode.OBSERVE:
            write = False
        case Mode.REPAIR:
            write = crd.satisfied and crd.names_accepted is not None
        case Mode.ENFORCE:
            write = differs
    return Decision(calculation, differs, write)


def status_patch(
    resource_version: str, conditions: Sequence[Mapping[str, Any]], calculation: Calculation, clock: Clock
) -> dict[str, Any]:
    """Give the merge patch for the status subresource.

    It carries the resource version that it is based on, so a stale one is refused, and all conditions, since a merge
    patch replaces lists: those of others are sent back as they came. The rest of the object is not sent, so the cache
    need not hold the schemas, which may be a megabyte.
    """
    said: dict[str, Any] = {"status": {"conditions": plain(conditions)}}
    for condition in (calculation.names_accepted, calculation.established):
        status_conditions.set(said, condition.type, condition.status, condition.reason, condition.message, clock)
    return {
        "metadata": {"resourceVersion": resource_version},
        "status": {**said["status"], "acceptedNames": calculation.accepted.to_merge_patch()},
    }


def plain(value: Any) -> Any:
    """Give a copy of a read-only view that can be changed and sent."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(part) for part in value]
    return value
