"""The overlay of a plugin's cache: its own writes that the cache does not show yet."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.cache import Object
    from ctrlhost.informers import Informer


@dataclass(frozen=True, slots=True)
class Entry:
    """One write whose effect the cache may not show yet."""

    #: The server's answer, which becomes an object when it is read; None after a deletion that took effect.
    answer: Mapping[str, Any] | bytes | None
    #: The version that the write created; 0 after a deletion.
    version: int
    #: The uid of the deleted or written object.
    uid: str
    #: Whether the informer's selectors exclude the object since the write.
    outside: bool = False
    #: The restores of the informer's server at that time: a later one has undone the write, or the cache shows it.
    restores: int = 0
    #: The hash that decides whether the informer holds the object; None if nothing of the object decides.
    place: int | None = None


class PendingWrites:
    """The writes to one kind that its informer may not show yet. All methods may be called from any thread."""

    def __init__(self, informer: Informer) -> None:
        """Compare with the cache of `informer`."""
        self.informer = informer
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Entry] = {}
        #: Writes without an answer yet, per key; the predicate of `SelfEvents` waits for them.
        self._in_flight: dict[tuple[str, str], int] = {}
        self._answered = threading.Condition(self._lock)
        self._waiting = 0
        self._sweep_at = 128

    def __bool__(self) -> bool:
        """Return whether any write is not known to be in the cache."""
        return bool(self._entries)

    def begin(self, key: tuple[str, str]) -> None:
        """Count a write to this key that is about to be sent."""
        with self._lock:
            self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def end(self, key: tuple[str, str]) -> None:
        """Count a write to this key that was answered, or failed."""
        with self._lock:
            left = self._in_flight.pop(key, 1) - 1
            if left:
                self._in_flight[key] = left
            if self._waiting:
                self._answered.notify_all()

    def wait_for_answers(self, key: tuple[str, str], seconds: float) -> None:
        """Wait until no write to this key is in flight, at most `seconds`."""
        if key not in self._in_flight:
            return
        with self._lock:
            self._waiting += 1
            self._answered.wait_for(lambda: key not in self._in_flight, seconds)
            self._waiting -= 1

    def wrote(self, answer: dict[str, Any], raw: bytes | None = None) -> None:
        """Remember the server's answer to a create, replace, patch or apply; `raw` is the same undecoded."""
        version = _version(answer["metadata"].get("resourceVersion"))
        if version is None:
            return
        from ctrlhost.informers.narrowing import scope_selects

        covered = self.informer.covers(answer["metadata"].get("namespace") or "")
        place, by = None, self.informer.scope.shard_by
        if by is not None:
            from ctrlhost.reflector.shard import place_of

            # Of an informer by owners, an object without one is in no cache.
            place = place_of(by, answer["metadata"])
            covered = covered and place is not None
        outside = not (covered and scope_selects(self.informer.scope, answer))
        uid, restores = answer["metadata"].get("uid", ""), self.informer.restores
        entry = Entry(answer if raw is None else raw, version, uid, outside, restores, place)
        self._remember(_key(answer["metadata"]), entry)

    def deleted(self, key: tuple[str, str], uid: str) -> None:
        """Remember that the object of this uid is gone."""
        if uid:
            self._remember(key, Entry(None, 0, uid, restores=self.informer.restores))

    def resolve(self, key: tuple[str, str], cached: Object | None) -> Object | None:
        """Return the newer of the cached object and the last write; forget the write once the cache shows it."""
        entry = self._entries.get(key)
        if entry is None:
            return cached
        if self._forget_shown(key, entry, cached):
            return self.informer.lister.get(key[1], key[0])
        from ctrlhost.cache import Object

        return None if entry.answer is None else Object(entry.answer)

    def behind(self, namespace: str | None) -> list[str]:
        """Return the keys whose last write the cache does not show yet."""
        return [
            "/".join(part for part in key if part)
            for key, entry in tuple(self._entries.items())
            if namespace in (None, key[0])
            and not self._forget_shown(key, entry, self.informer.lister.get(key[1], key[0]))
        ]

    def shows(self, concerns: Callable[[tuple[str, str]], bool]) -> bool:
        """Return whether the cache shows the last writes to all keys, namespace and name, that `concerns` chooses."""
        return all(
            self._forget_shown(key, entry, self.informer.lister.get(key[1], key[0]))
            for key, entry in tuple(self._entries.items())
            if concerns(key)
        )

    def _remember(self, key: tuple[str, str], entry: Entry) -> None:
        with self._lock:
            known = self._entries.get(key)
            # Answers to two writes of one key may come in either order.
            newer = known is None or known.restores < entry.restores or known.version < entry.version
            if known is None or newer or entry.answer is None or known.uid != entry.uid:
                self._entries[key] = entry
            grown = len(self._entries) >= self._sweep_at
        if grown:
            # Writes that are not read back would otherwise stay forever.
            self.behind(None)
            self._sweep_at = max(128, 2 * len(self._entries))

    def _forget_shown(self, key: tuple[str, str], entry: Entry, cached: Object | None) -> bool:
        """Forget a write if the cache shows it, and return whether it does."""
        visible = self._is_shown(key, entry, cached)
        if visible:
            with self._lock:
                if self._entries.get(key) is entry:
                    del self._entries[key]
        return visible

    def _is_shown(self, key: tuple[str, str], entry: Entry, cached: Object | None) -> bool:
        if self._shows(key, entry, cached):
            return True
        return entry.restores < self.informer.restores

    def _shows(self, key: tuple[str, str], entry: Entry, cached: Object | None) -> bool:
        """Return whether the cache shows a write, unless a restore has undone it."""
        if entry.answer is None:
            return cached is None or cached.uid != entry.uid
        foreign = entry.place is not None and not self.informer.has_place(entry.place)
        if (entry.outside or foreign) and cached is None:
            # The informer does not hold the object, and will not add it.
            return True
        if cached is not None:
            version = _version(cached.resource_version)
            return version is None or version >= entry.version
        # Missing from the cache: not yet added, removed again, or not selected. The informer's version distinguishes
        # the first case from the others.
        reached = _version(self.informer.version_in(key[0]))
        return reached is None or reached >= entry.version


class OwnWrites:
    """The writes of one plugin, for the kinds that its controllers read."""

    def __init__(self) -> None:
        """Start with no informers."""
        self._kinds: dict[tuple[str, str], list[PendingWrites]] = {}

    def follow(self, api_version: str, kind: str, informer: Informer) -> PendingWrites:
        """Remember writes to this kind until the informer shows them."""
        known = self._kinds.setdefault((_group(api_version), kind), [])
        followed = next((pending for pending in known if pending.informer is informer), None)
        if followed is None:
            followed = PendingWrites(informer)
            known.append(followed)
        return followed

    def shown(self, concerns: Callable[[tuple[str, str]], bool]) -> bool:
        """Return whether the caches show the last writes to all keys, namespace and name, that `concerns` chooses."""
        return all(pending.shows(concerns) for followed in tuple(self._kinds.values()) for pending in tuple(followed))

    def of(self, group: str, kind: str) -> list[PendingWrites]:
        """Return the pending writes to the kind, in any version; empty if the plugin does not read it."""
        return self._kinds.get((group, kind), [])


def _version(text: str | None) -> int | None:
    """Parse a resource version; None if it is not a number, so that it cannot be compared."""
    return int(text) if text and text.isdecimal() else None


def _key(metadata: Mapping[str, Any]) -> tuple[str, str]:
    return metadata.get("namespace") or "", metadata["name"]


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
