"""The cached facts about one CustomResourceDefinition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_naming.conditions import (
    ESTABLISHED,
    INITIAL_NAMES_ACCEPTED,
    INSTALLING,
    NAMES_ACCEPTED,
    NO_CONFLICTS,
    NOT_ACCEPTED,
    Condition,
    find,
)
from ctrlhost_naming.names import Names

if TYPE_CHECKING:
    from collections.abc import Mapping

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"

_USUAL = {c: c for c in (NO_CONFLICTS, NOT_ACCEPTED, INSTALLING, INITIAL_NAMES_ACCEPTED)}


@dataclass(frozen=True, slots=True)
class Crd:
    """The names of one CustomResourceDefinition and the conditions that concern them."""

    name: str
    group: str
    uid: str
    resource_version: str
    created: str
    requested: Names
    accepted: Names
    names_accepted: Condition | None
    established: Condition | None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Crd:
        """Read a cached object or the server's answer."""
        meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
        requested, accepted = Names.of(spec.get("names")), Names.of(status.get("acceptedNames"))
        conditions = status.get("conditions") or ()
        return cls(
            name=meta["name"],
            group=spec.get("group") or group_of(meta["name"]),
            uid=meta.get("uid") or "",
            resource_version=meta.get("resourceVersion") or "",
            created=meta.get("creationTimestamp") or "",
            requested=requested,
            # Nearly every CRD has the names it requests, and there may be thousands of CRDs: keep one copy.
            accepted=requested if accepted == requested else accepted,
            names_accepted=_shared(find(conditions, NAMES_ACCEPTED)),
            established=_shared(find(conditions, ESTABLISHED)),
        )

    @property
    def satisfied(self) -> bool:
        """Whether the CRD has every requested name, whatever the condition says."""
        return self.requested == self.accepted


def group_of(key: str) -> str:
    """Return the part of a CRD's name after the first dot, empty if there is none."""
    return key.partition(".")[2]


def _shared(condition: Condition | None) -> Condition | None:
    """Return the module's own copy of a usual condition."""
    return None if condition is None else _USUAL.get(condition, condition)
