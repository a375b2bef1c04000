"""The names that a CRD gets: those it requests that no other CRD of its group has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery.objects import condition, is_true
from ctrlhost_sandbox.apimachinery.status import joined
from ctrlhost_sandbox.crds.index import is_satisfied

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.crds.index import CrdIndex

_FIELDS = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
)
_KINDS = frozenset({"kind", "listKind"})


def resolve(crd: Object, index: CrdIndex) -> tuple[Object, list[tuple[str, str, str, str]]] | None:
    """Return the accepted names and the conditions to set; None if nothing changes.

    As in kube-apiserver a CRD's own accepted names count as used, except in their own field; the short names are
    accepted or rejected together; and the last field in conflict is the one reported.
    """
    group, wanted = crd["spec"]["group"], crd["spec"]["names"]
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    if is_satisfied(crd):
        return None
    result: Object = {"plural": "", "kind": ""}
    reason, message = "", ""
    for field, why in _FIELDS:
        want, have = wanted.get(field) or "", accepted.get(field) or ""
        own = have if isinstance(have, list) else [have]
        clashes = [
            name
            for name in (want if isinstance(want, list) else [want])
            if name and want != have and name not in own and index.is_used((group, field in _KINDS, name))
        ]
        if clashes:
            reason, message = why, joined(dict.fromkeys(f'"{name}" is already in use' for name in clashes))
        if kept := have if clashes else want:
            result[field] = kept
    if wanted.get("categories"):
        result["categories"] = wanted["categories"]
    return result, _conditions(crd, reason, message)


def _conditions(crd: Object, reason: str, message: str) -> list[tuple[str, str, str, str]]:
    """Return the conditions; a CRD that is established or being installed stays so."""
    if not reason:
        accepted = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        installing = ("Established", "False", "Installing", "the initial names have been accepted")
        return [accepted] if is_true(crd, "Established") else [accepted, installing]
    refused = ("NamesAccepted", "False", reason, message)
    waiting = ("Established", "False", "NotAccepted", "not all names are accepted")
    return [refused] if condition(crd, "Established") else [refused, waiting]
