"""An index of all CRDs, updated with each write, so that a write need not read the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

Name = tuple[str, bool, str]
"""A group, whether the name is one of kinds rather than resources, and the name."""


class CrdIndex:
    """The accepted names of each group, and the CRDs that wait for names."""

    def __init__(self) -> None:
        """Create an empty index."""
        self._held: dict[str, tuple[str, frozenset[Name]]] = {}
        self._used: Counter[Name] = Counter()
        self._waiting: dict[str, set[str]] = {}

    def is_used(self, name: Name) -> bool:
        """Return whether a CRD has this accepted name."""
        return name in self._used

    def note(self, name: str, crd: Object | None) -> list[str]:
        """Record a CRD's present state, or its deletion.

        Return the CRDs of its group that wait for names, if its own have changed: their conditions show conflicts.
        """
        group, before = self._held.pop(name, ("", frozenset()))
        for entry in before:
            self._used[entry] -= 1
            if not self._used[entry]:
                del self._used[entry]
        self._waiting.get(group, set()).discard(name)
        after: frozenset[Name] = frozenset()
        if crd is not None:
            group, after = self._held[name] = crd["spec"]["group"], _accepted(crd)
            self._used.update(after)
            if not is_satisfied(crd):
                self._waiting.setdefault(group, set()).add(name)
        return [] if before == after else sorted(self._waiting.get(group, set()) - {name})


def is_satisfied(crd: Object) -> bool:
    """Return whether a CRD has all the names it requests, whatever its conditions say: kube-apiserver skips it then."""
    wanted, accepted = crd["spec"]["names"], (crd.get("status") or {}).get("acceptedNames") or {}
    return all((wanted.get(key) or None) == (accepted.get(key) or None) for key in {*wanted, *accepted})


def _accepted(crd: Object) -> frozenset[Name]:
    group, names = crd["spec"]["group"], (crd.get("status") or {}).get("acceptedNames") or {}
    resources = (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ()))
    kinds = (names.get("kind"), names.get("listKind"))
    return frozenset((group, listed is kinds, name) for listed in (resources, kinds) for name in listed if name)
