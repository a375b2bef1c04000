"""Read your own writes: what a plugin wrote and its cache has not seen yet."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import Stale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.cache import Object
    from ctrlhost.informers import Informer

#: How long a list waits for the cache to catch up, in seconds.
WAIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One write whose effect the cache may not show yet."""

    #: The server's answer; None after a deletion that took effect.
    object: Object | None
    #: The version the write made; 0 after a deletion.
    version: int
    #: The uid of what was deleted, or of what was written.
    uid: str
    #: Whether the informer's selectors leave the object out, as it is since the write.
    outside: bool = False


class WrittenKind:
    """The writes to one kind, with the informer that will catch up with them. Methods may be called from any thread."""

    def __init__(self, informer: Informer) -> None:
        """Follow one informer."""
        self.informer = informer
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Entry] = {}
        #: Writes under way, per key; the echo filter waits for their answers.
        self._flying: dict[tuple[str, str], int] = {}
        self._landed = threading.Condition(self._lock)
        self._sweep_at = 128

    def __bool__(self) -> bool:
        """Say whether any write is not known to be in the cache."""
        return bool(self._entries)

    def begin(self, key: tuple[str, str]) -> None:
        """Note that a write to this key is under way."""
        with self._lock:
            self._flying[key] = self._flying.get(key, 0) + 1

    def end(self, key: tuple[str, str]) -> None:
        """Note that a write to this key was answered, or failed."""
        with self._landed:
            left = self._flying.pop(key, 1) - 1
            if left:
                self._flying[key] = left
            self._landed.notify_all()

    def wait_for_answers(self, key: tuple[str, str], seconds: float) -> None:
        """Wait until no write to this key is under way, but no longer than this."""
        with self._landed:
            self._landed.wait_for(lambda: key not in self._flying, seconds)

    def wrote(self, answer: dict[str, Any], raw: bytes | None = None) -> None:
        """Remember the server's answer to a create, replace, patch or apply; `raw` is the same as it came."""
        version = _version(answer["metadata"].get("resourceVersion"))
        if version is None:
            return
        from ctrlhost.cache import Object
        from ctrlhost.informers.selected import selects

        outside = not selects(self.informer, answer)
        entry = Entry(Object(answer if raw is None else raw), version, answer["metadata"].get("uid", ""), outside)
        self._remember(_key(answer["metadata"]), entry)

    def deleted(self, key: tuple[str, str], uid: str) -> None:
        """Remember that the object of this uid is gone."""
        if uid:
            self._remember(key, Entry(None, 0, uid))

    def resolve(self, key: tuple[str, str], cached: Object | None) -> Object | None:
        """Give the newer of what the cache holds and what was written; forget the write once the cache has it."""
        entry = self._entries.get(key)
        if entry is None:
            return cached
        if self._caught_up(key, entry, cached):
            with self._lock:
                if self._entries.get(key) is entry:
                    del self._entries[key]
            return self.informer.lister.get(key[1], key[0])
        return entry.object

    def behind(self, namespace: str | None) -> list[str]:
        """Give the keys whose last write the cache does not show yet."""
        behind = []
        for key, entry in tuple(self._entries.items()):
            if namespace is not None and key[0] != namespace:
                continue
            cached = self.informer.lister.get(key[1], key[0])
            if self._caught_up(key, entry, cached):
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
            else:
                behind.append("/".join(part for part in key if part))
        return behind

    def _remember(self, key: tuple[str, str], entry: Entry) -> None:
        with self._lock:
            known = self._entries.get(key)
            # Answers to two writes of one key may come in either order.
            if known is None or entry.object is None or known.uid != entry.uid or known.version < entry.version:
                self._entries[key] = entry
            grown = len(self._entries) >= self._sweep_at
        if grown:
            # Writes that nobody reads back would stay for ever.
            self.behind(None)
            self._sweep_at = max(128, 2 * len(self._entries))

    def _caught_up(self, key: tuple[str, str], entry: Entry, cached: Object | None) -> bool:
        if entry.object is None:
            return cached is None or cached.uid != entry.uid
        if entry.outside and cached is None:
            # Nothing will come of it, and there is nothing left to go.
            return True
        if cached is not None:
            version = _version(cached.resource_version)
            return version is None or version >= entry.version
        # Not in the cache: not yet, not any more, or outside of what the informer selects. The informer's own position
        # tells the first from the others.
        reached = _version(self.informer.version_in(key[0]))
        return reached is None or reached >= entry.version


class Written:
    """The writes of one plugin, for the kinds that its controllers read."""

    def __init__(self) -> None:
        """Follow nothing yet."""
        self._kinds: dict[tuple[str, str], list[WrittenKind]] = {}

    def follow(self, api_version: str, kind: str, informer: Informer) -> WrittenKind:
        """Remember writes to this kind from now on, until the informer shows them."""
        known = self._kinds.setdefault((_group(api_version), kind), [])
        followed = next((one for one in known if one.informer is informer), None)
        if followed is None:
            followed = WrittenKind(informer)
            known.append(followed)
        return followed

    def of(self, api_version: str, kind: str) -> list[WrittenKind]:
        """Give what follows the kind, in any version; empty when the plugin does not read it."""
        return self._kinds.get((_group(api_version), kind), [])


class PluginLister:
    """A lister as a controller sees it: the cache, and where that lags behind the plugin's own writes, those."""

    def __init__(self, informer: Informer, written: WrittenKind, indexes: Mapping[str, str]) -> None:
        """Read from an informer; `indexes` gives the informer's name for each of the plugin's index names."""
        self._lister = informer.lister
        self._written = written
        self._indexes = indexes

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Give one object, or None; a write of the plugin counts from its answer on."""
        cached = self._lister.get(name, namespace)
        if not self._written:
            return cached
        return self._written.resolve((namespace, name), cached)

    def by_index(self, name: str, value: str) -> list[Object]:
        """Give the objects that an index has under `value`, once the cache shows the plugin's own writes.

        Raises KeyError for an index that the plugin did not declare, and Stale after 2 seconds.
        """
        index = self._indexes.get(name)
        if index is None:
            raise KeyError(f"no index `{name}` is declared for this source; it declares {sorted(self._indexes)}")
        self._wait(None)
        return self._lister.by_index(index, value)

    def list(self, namespace: str | None = None, label_selector: str | None = None) -> list[Object]:
        """List objects once the cache shows the plugin's own writes; Stale after 2 seconds."""
        self._wait(namespace)
        return self._lister.list(namespace, label_selector)

    async def caught_up(self, namespace: str | None = None) -> None:
        """Wait until the cache shows the plugin's own writes, without holding up the event loop; Stale after 2 seconds.

        An `async def` reconciler awaits this between a write of its own and a `list` or `by_index`.
        """
        deadline, pause = time.monotonic() + WAIT_SECONDS, 0.0005
        while self._written and (behind := self._written.behind(namespace)):
            left = deadline - time.monotonic()
            if left <= 0:
                raise _stale(behind[0])
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, 0.02)

    def __iter__(self) -> Iterator[Object]:
        """Go through all objects, as `list` gives them."""
        return iter(self.list())

    def _wait(self, namespace: str | None) -> None:
        if not self._written:
            return
        # What is waited for is the stream from the server, so a clock that a test holds still has no say here.
        deadline, pause = time.monotonic() + WAIT_SECONDS, 0.0005
        while behind := self._written.behind(namespace):
            left = deadline - time.monotonic()
            if left <= 0:
                raise _stale(behind[0])
            if _on_event_loop():
                raise Stale(
                    f"the cache does not show the write of {behind[0]} yet",
                    hint="await `lister.caught_up()` first: an event loop must not wait in `list` or `by_index`",
                )
            time.sleep(min(pause, left))
            pause = min(pause * 2, 0.02)


def _stale(key: str) -> Stale:
    return Stale(f"the cache does not show the write of {key} after {WAIT_SECONDS:g} s")


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _version(text: str | None) -> int | None:
    """Read a resource version; None for one that is no number, with which nothing can be compared."""
    return int(text) if text and text.isascii() and text.isdigit() else None


def _key(metadata: Mapping[str, Any]) -> tuple[str, str]:
    return metadata.get("namespace") or "", metadata["name"]


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
