"""The conditions of a CustomResourceDefinition that have to do with its names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES_ACCEPTED = "NamesAccepted"
ESTABLISHED = "Established"


@dataclass(frozen=True, slots=True)
class Condition:
    """What a condition says; when it began to say so is not part of it."""

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
    """Give the first condition of that type."""
    for raw in conditions:
        if raw.get("type") == type_:
            return Condition(type_, raw.get("status") or "", raw.get("reason") or "", raw.get("message") or "")
    return None


def is_true(condition: Condition | None) -> bool:
    """Say whether a condition is there and True."""
    return condition is not None and condition.status == "True"
