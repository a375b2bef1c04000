"""Who holds which name, and who waits for it, by group: the plugin's view of all CustomResourceDefinitions.

It is fed by the informer and, at once, by the plugin's own writes, so a name that was just given away is known to be
taken before the watch has told so. It forgets nothing, unlike a cache with a size or an age.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost_naming.decision import Used, unmet
from ctrlhost_naming.names import Space

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_naming.crd import Crd

Wakes = list[tuple[str, str]]
"""CRDs to look at again, each once and the oldest first, with the cause: `release`, `taken` or `delete`."""


@dataclass(slots=True)
class _Group:
    """The CRDs of one API group."""

    crds: dict[str, Crd] = field(default_factory=dict)
    owners: dict[Space, dict[str, tuple[str, ...]]] = field(default_factory=lambda: {space: {} for space in Space})
    """Name -> the CRDs for which it is accepted, each once. Never an empty tuple; two entries only if somebody else
    wrote the status too."""
    waiters: dict[Space, dict[str, set[str]]] = field(default_factory=lambda: {space: {} for space in Space})
    """Name -> the CRDs that ask for it in a field where it is not accepted. Never an empty set."""
    odd_versions: bool = False
    """A resource version that is no number was seen, so all CRDs of the group were looked at again once."""


class NameIndex:
    """All CRDs by group and by name. Every method may be called from any thread."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        self._contested: set[tuple[str, Space, str]] = set()
        #: The uids of CRDs that were found missing, until their deletion is heard of.
        self._missing: set[str] = set()

    def observe(self, crd: Crd, *, cached: bool = False) -> Wakes:
        """Take what the informer shows, unless it is older than what is known; say who must be looked at again.

        `cached` says that it was read from the cache just now. What a handler hears may be behind the cache, and must
        not bring back a CRD that was found missing there.
        """
        with self._lock:
            if cached:
                self._missing.discard(crd.uid)
            elif crd.uid in self._missing:
                return []
            known = self._get(crd.name)
            order = 1 if known is None else compare_versions(crd.resource_version, known.resource_version)
            if (order is not None and order < 0) or crd == known:
                return []
            wakes = self._replace(known, crd, "release")
            if order is None and not self._groups[crd.group].odd_versions:
                group = self._groups[crd.group]
                group.odd_versions = True
                wakes = _ordered(group, ((key, "release") for key in group.crds))
            return wakes

    def wrote(self, crd: Crd) -> Wakes:
        """Take the server's answer to an own write, unless the CRD has gone or moved on since."""
        with self._lock:
            known = self._get(crd.name)
            if known is None or known.uid != crd.uid:
                return []
            order = compare_versions(crd.resource_version, known.resource_version)
            if order is not None and order <= 0:
                return []
            return self._replace(known, crd, "release")

    def forget(self, key: str, uid: str = "", resource_version: str = "") -> Wakes:
        """Take a deletion; what is known stays only if it is a later object of the same name.

        Without `uid` the CRD was found missing in the cache, before a handler has heard of it.
        """
        with self._lock:
            self._missing.discard(uid)
            known = self._get(key)
            if known is None:
                return []
            if not uid:
                self._missing.add(known.uid)
            if uid and uid != known.uid and compare_versions(resource_version, known.resource_version) == -1:
                return []
            return self._replace(known, None, "delete")

    def get(self, key: str) -> Crd | None:
        """Give what is known of a CRD."""
        with self._lock:
            return self._get(key)

    def used(self, crd: Crd, *, allow_own: bool = False) -> Used:
        """Give the function that says whether a name is accepted for a CRD of `crd`'s group.

        With `allow_own` a resource name that `crd` alone holds does not count. Kinds always count: otherwise kind and
        list kind could end up equal, which the API server refuses.
        """

        def used(space: Space, name: str) -> bool:
            owners = self.owners(crd.group, space, name)
            if allow_own and space is Space.RESOURCES:
                return any(owner != crd.name for owner in owners)
            return bool(owners)

        return used

    def owners(self, group: str, space: Space, name: str) -> tuple[str, ...]:
        """Give the CRDs for which a name is accepted."""
        with self._lock:
            known = self._groups.get(group)
            return known.owners[space].get(name, ()) if known else ()

    def is_contested(self, crd: Crd) -> bool:
        """Say whether a name of this CRD is accepted for another one too."""
        with self._lock:
            return bool(self._contested) and any((crd.group, *name) in self._contested for name in crd.accepted.held())

    def contested(self) -> list[tuple[str, Space, str]]:
        """Give the names, with group and space, that are accepted for more than one CRD."""
        with self._lock:
            return sorted(self._contested, key=lambda item: (item[0], item[1].value, item[2]))

    def crds(self) -> list[Crd]:
        """Give all CRDs, group by group."""
        with self._lock:
            return [crd for group in self._groups.values() for crd in group.crds.values()]

    def __len__(self) -> int:
        """Give the number of CRDs."""
        with self._lock:
            return len(self._group_of)

    def _get(self, key: str) -> Crd | None:
        group = self._group_of.get(key)
        return None if group is None else self._groups[group].crds[key]

    def _replace(self, old: Crd | None, new: Crd | None, freed: str) -> Wakes:
        """Put `new` in the place of `old` and say whose wait it touches. The lock is held."""
        some = new or old
        if some is None:
            return []
        if old is not None and new is not None and old.group != new.group:
            # The API forbids it; an object deleted and made again meanwhile would have another name.
            return self._replace(old, None, freed) + self._replace(None, new, freed)
        group = self._groups.setdefault(some.group, _Group())
        before = frozenset(old.accepted.held()) if old else frozenset()
        after = frozenset(new.accepted.held()) if new else frozenset()
        waits_before = unmet(old.requested, old.accepted) if old else frozenset()
        waits_after = unmet(new.requested, new.accepted) if new else frozenset()
        changed: list[tuple[str, str]] = []
        for space, name in before - after:
            owners = tuple(key for key in group.owners[space][name] if key != some.name)
            self._set_owners(some.group, group, space, name, owners)
            if not owners:
                changed.extend((key, freed) for key in group.waiters[space].get(name, ()))
        for space, name in after - before:
            owners = group.owners[space].get(name, ())
            self._set_owners(some.group, group, space, name, (*owners, some.name))
            if not owners:
                changed.extend((key, "taken") for key in group.waiters[space].get(name, ()))
        for space, name in waits_before - waits_after:
            waiting = group.waiters[space][name]
            waiting.discard(some.name)
            if not waiting:
                del group.waiters[space][name]
        for space, name in waits_after - waits_before:
            group.waiters[space].setdefault(name, set()).add(some.name)
        if new is not None:
            group.crds[new.name] = new
            self._group_of[new.name] = new.group
        else:
            del group.crds[some.name]
            del self._group_of[some.name]
        wakes = _ordered(group, (wake for wake in changed if wake[0] != some.name))
        if not group.crds:
            del self._groups[some.group]
        return wakes

    def _set_owners(self, group_name: str, group: _Group, space: Space, name: str, owners: tuple[str, ...]) -> None:
        """Keep who holds a name, and whether several do. The lock is held."""
        if owners:
            group.owners[space][name] = owners
        else:
            del group.owners[space][name]
        if len(owners) > 1:
            self._contested.add((group_name, space, name))
        else:
            self._contested.discard((group_name, space, name))


def compare_versions(a: str, b: str) -> int | None:
    """Compare two resource versions as decimal numbers of any size: -1, 0 or 1; None where one is no number."""
    if not (a.isdecimal() and b.isdecimal()):
        return None
    left, right = (len(a), a), (len(b), b)
    return (left > right) - (left < right)


def _ordered(group: _Group, wakes: Iterable[tuple[str, str]]) -> Wakes:
    """Give each CRD once, the oldest first, so that it is the oldest that gets a freed name."""
    causes: dict[str, str] = {}
    for key, cause in wakes:
        causes.setdefault(key, cause)
    return [(key, causes[key]) for key in sorted(causes, key=lambda key: (group.crds[key].created, key))]
