"""The owners of each name and the CRDs that wait for it, by group.

The informer updates the index, and so do the plugin's own writes, immediately: a name is known to be taken before the
watch shows it. Unlike a cache with a size or an age, the index drops nothing.
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

Requeues = list[tuple[str, str]]
"""CRDs to requeue, each once and the oldest first, with the cause: `release`, `taken` or `delete`."""


@dataclass(slots=True)
class _Group:
    """The CRDs of one API group."""

    crds: dict[str, Crd] = field(default_factory=dict)
    owners: dict[Space, dict[str, tuple[str, ...]]] = field(default_factory=lambda: {space: {} for space in Space})
    """Name -> the CRDs for which it is accepted, each once. Never an empty tuple; two entries only with another
    writer of the status."""
    waiters: dict[Space, dict[str, set[str]]] = field(default_factory=lambda: {space: {} for space in Space})
    """Name -> the CRDs that request it in a field where it is not accepted. Never an empty set."""
    odd_versions: bool = False
    """A resource version was not a number, so all CRDs of the group were requeued once."""


class NameIndex:
    """All CRDs by group and by name. Every method may be called from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        self._contested: set[tuple[str, Space, str]] = set()
        #: The uids of CRDs found missing in the cache, until a handler reports their deletion.
        self._missing: set[str] = set()

    def observe(self, crd: Crd, *, cached: bool = False) -> Requeues:
        """Record a CRD from the informer, unless a newer version is known; return the CRDs to requeue.

        With `cached` it was just read from the cache. A handler may be behind the cache, and must not restore a CRD
        that was found missing there.
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
            requeues = self._replace(known, crd, "release")
            if order is None and not self._groups[crd.group].odd_versions:
                group = self._groups[crd.group]
                group.odd_versions = True
                requeues = _ordered(group, ((key, "release") for key in group.crds))
            return requeues

    def record_write(self, crd: Crd) -> Requeues:
        """Record the server's answer to an own write, unless the CRD has since changed or disappeared."""
        with self._lock:
            known = self._get(crd.name)
            if known is None or known.uid != crd.uid:
                return []
            order = compare_versions(crd.resource_version, known.resource_version)
            if order is not None and order <= 0:
                return []
            return self._replace(known, crd, "release")

    def forget(self, key: str, uid: str = "", resource_version: str = "") -> Requeues:
        """Record a deletion, unless a newer object of the same name is known.

        Without `uid` the CRD was found missing in the cache, before a handler reported it.
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
        """Return the known CRD of that name."""
        with self._lock:
            return self._get(key)

    def used(self, crd: Crd, *, allow_own: bool = False) -> Used:
        """Return a function that returns whether a name is accepted for a CRD of `crd`'s group.

        With `allow_own` a resource name that `crd` alone holds does not count. Kinds always count, since kind and list
        kind could become equal otherwise, which the API server rejects.
        """

        def used(space: Space, name: str) -> bool:
            owners = self.owners(crd.group, space, name)
            if allow_own and space is Space.RESOURCES:
                return any(owner != crd.name for owner in owners)
            return bool(owners)

        return used

    def owners(self, group: str, space: Space, name: str) -> tuple[str, ...]:
        """Return the CRDs for which a name is accepted."""
        with self._lock:
            known = self._groups.get(group)
            return known.owners[space].get(name, ()) if known else ()

    def is_contested(self, crd: Crd) -> bool:
        """Return whether a name of this CRD is accepted for another one too."""
        with self._lock:
            return bool(self._contested) and any((crd.group, *name) in self._contested for name in crd.accepted.held())

    def contested(self) -> list[tuple[str, Space, str]]:
        """Return the names, with group and space, that are accepted for more than one CRD."""
        with self._lock:
            return sorted(self._contested, key=lambda item: (item[0], item[1].value, item[2]))

    def crds(self) -> list[Crd]:
        """Return all CRDs, group by group."""
        with self._lock:
            return [crd for group in self._groups.values() for crd in group.crds.values()]

    def __len__(self) -> int:
        """Return the number of CRDs."""
        with self._lock:
            return len(self._group_of)

    def _get(self, key: str) -> Crd | None:
        group = self._group_of.get(key)
        return None if group is None else self._groups[group].crds[key]

    def _replace(self, old: Crd | None, new: Crd | None, freed: str) -> Requeues:
        """Replace `old` by `new` and return the CRDs whose wait it affects. The lock is held."""
        some = new or old
        if some is None:
            return []
        if old is not None and new is not None and old.group != new.group:
            # The API forbids this: the group is part of the object's name.
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
        requeues = _ordered(group, (item for item in changed if item[0] != some.name))
        if not group.crds:
            del self._groups[some.group]
        return requeues

    def _set_owners(self, group_name: str, group: _Group, space: Space, name: str, owners: tuple[str, ...]) -> None:
        """Set the owners of a name, and whether it is contested. The lock is held."""
        if owners:
            group.owners[space][name] = owners
        else:
            del group.owners[space][name]
        if len(owners) > 1:
            self._contested.add((group_name, space, name))
        else:
            self._contested.discard((group_name, space, name))


def compare_versions(a: str, b: str) -> int | None:
    """Compare two resource versions as decimal numbers of any size: -1, 0 or 1; None if one is not a number."""
    if not (a.isdecimal() and b.isdecimal()):
        return None
    left, right = (len(a), a), (len(b), b)
    return (left > right) - (left < right)


def _ordered(group: _Group, changed: Iterable[tuple[str, str]]) -> Requeues:
    """Return each CRD once, the oldest first, so that the oldest gets a released name."""
    causes: dict[str, str] = {}
    for key, cause in changed:
        causes.setdefault(key, cause)
    return [(key, causes[key]) for key in sorted(causes, key=lambda key: (group.crds[key].created, key))]
