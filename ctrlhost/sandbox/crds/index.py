"""An index of all CRDs, updated with each write, so that a write need not read the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object

Names = tuple[str, ...]


class CrdIndex:
    """The accepted names of each group, and the CRDs that wait for names."""

    def __init__(self) -> None:
        """Create an empty index."""
        self._held: dict[str, tuple[str, Names, Names]] = {}
        self._resources: dict[str, Counter[str]] = {}
        self._kinds: dict[str, Counter[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self.pending: dict[str, None] = {}
        """Names of CRDs to reconcile in the loop's next turn."""

    def used(self, group: str) -> tuple[Counter[str], Counter[str]]:
        """Return the accepted names of resources and of kinds in a group."""
        return self._resources.get(group, Counter()), self._kinds.get(group, Counter())

    def note(self, name: str, crd: Object | None) -> list[str]:
        """Record a CRD's present state, or its deletion.

        Return the CRDs of its group that wait for names, if its own have changed: their conditions show conflicts.
        """
        group, *before = self._held.pop(name, ("", (), ()))
        for counters, names in zip((self._resources, self._kinds), before, strict=True):
            _count(counters, group, names, -1)
        self._waiting.get(group, set()).discard(name)
        after: tuple[Names, Names] = ((), ())
        if crd is not None:
            group = crd["spec"]["group"]
            after = _accepted(crd)
            self._held[name] = (group, *after)
            _count(self._resources, group, after[0], 1)
            _count(self._kinds, group, after[1], 1)
            if not is_satisfied(crd):
                self._waiting.setdefault(group, set()).add(name)
        if any(set(old) != set(new) for old, new in zip(before, after, strict=True)):
            return sorted(self._waiting.get(group, set()) - {name})
        return []


def is_satisfied(crd: Object) -> bool:
    """Return whether a CRD has all the names it requests, whatever its conditions say: kube-apiserver skips it then."""
    wanted, accepted = crd["spec"]["names"], (crd.get("status") or {}).get("acceptedNames") or {}
    return all((wanted.get(key) or None) == (accepted.get(key) or None) for key in {*wanted, *accepted})


def _accepted(crd: Object) -> tuple[Names, Names]:
    names = (crd.get("status") or {}).get("acceptedNames") or {}
    resources = (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ()))
    kinds = (names.get("kind"), names.get("listKind"))
    return tuple(filter(None, resources)), tuple(filter(None, kinds))


def _count(counters: dict[str, Counter[str]], group: str, names: Names, step: int) -> None:
    counter = counters.setdefault(group, Counter())
    for name in names:
        counter[name] += step
        if not counter[name]:
            del counter[name]
    if not counter:
        del counters[group]
