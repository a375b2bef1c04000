"""The conditions of a CustomResourceDefinition that concern its names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES_ACCEPTED = "NamesAccepted"
ESTABLISHED = "Established"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its transition time."""

    type: str
    status: str
    reason: str
    message: str


NO_CONFLICTS = Condition(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found")
NOT_ACCEPTED = Condition(ESTABLISHED, "False", "NotAccepted", "not all names are accepted")
INSTALLING = Condition(ESTABLISHED, "False", "Installing", "the initial names have been accepted")
INITIAL_NAMES_ACCEPTED = Condition(ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted")
INVALID_CA_BUNDLE = Condition(ESTABLISHED, "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")


def find(conditions: Sequence[Mapping[str, Any]], type_: str) -> Condition | None:
    """Return the first condition of that type."""
    for raw in conditions:
        if raw.get("type") == type_:
            return Condition(type_, raw.get("status") or "", raw.get("reason") or "", raw.get("message") or "")
    return None


def is_true(condition: Condition | None) -> bool:
    """Return whether a condition exists and is True."""
    return condition is not None and condition.status == "True"
