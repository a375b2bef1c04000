"""Self events: events of a controller's own writes, which need no reconcile.

Two states of an object are linked if the later one is the answer to a write of the controller, and differs from the
earlier one only in what was written. An event may cover several writes, since events are merged, and lists replace
them. It is a self event if links lead from its new state to its old one; a foreign change in between breaks them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.cache import Object
    from ctrlhost.own_writes.overlay import PendingWrites

K = TypeVar("K")

_MAX_ENTRIES = 4096
#: How long an event waits for the answer to a write in flight, in seconds.
_WAIT = 0.1
#: Fields that the server changes in every write.
_BOOKKEEPING = frozenset({"resourceVersion", "managedFields", "generation"})
#: What a deletion writes that finalizers or a grace period delay.
DELETION = {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}}


class SelfEvents:
    """The versions that a controller's own writes created, and the objects that they deleted.

    What is not known here, such as the writes of an earlier process, causes a reconcile.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        #: The version that a written one is based on, by uid and written version.
        self._based_on: OrderedDict[tuple[str, str], str] = OrderedDict()
        #: The first version of an object that a write created whole, by uid, until an event shows the object.
        self._created: OrderedDict[str, str] = OrderedDict()
        #: The uid of the object whose deletion was the last write, by kind, namespace and name.
        self._deleted: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._pending: dict[tuple[str, str], list[PendingWrites]] = {}

    def listen(self, kind: tuple[str, str], pending: PendingWrites) -> None:
        """Compare writes to this kind with the cache of an informer, and with the writes that it does not show yet."""
        self._pending.setdefault(kind, []).append(pending)

    def concern(self, kind: tuple[str, str]) -> bool:
        """Return whether events of this kind are looked at."""
        return kind in self._pending

    def before(self, kind: tuple[str, str], key: tuple[str, str]) -> Object | None:
        """Return the newest state that the controller can know, before a write is sent."""
        with self._lock:
            # The object may be made again: then it is not this deletion by which it is gone.
            self._deleted.pop((kind[1], *key), None)
        for pending in self._pending[kind]:
            resolved = pending.resolve(key, pending.informer.lister.get(key[1], key[0]))
            if resolved is not None:
                return resolved
        return None

    def wrote(self, known: Object | None, change: Any, answer: Mapping[str, Any]) -> None:
        """Remember a write if it changed only fields of the `known` object that it set, or created the object.

        `change` is the object or merge patch that was sent. Any other difference may be another writer's, whose event
        this write's event may have replaced.
        """
        metadata = answer["metadata"]
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        if known is None:
            if _is_all_of(answer):
                self._remember(self._created, uid, version)
        elif (
            known.uid == uid
            and known.resource_version != version
            and not known.partial
            and _explains(change, _content(known.to_dict()), _content(answer))
        ):
            self._remember(self._based_on, (uid, version), known.resource_version)

    def deleted(self, kind: tuple[str, str], key: tuple[str, str], uid: str) -> None:
        """Remember that a write has ended the object of this uid."""
        self._remember(self._deleted, (kind[1], *key), uid)

    def _remember(self, known: OrderedDict[K, str], key: K, value: str) -> None:
        with self._lock:
            known[key] = value
            if len(known) > _MAX_ENTRIES:
                known.popitem(last=False)

    def predicate(self, pending: PendingWrites, *, existence: bool = False) -> Any:
        """Return the predicate that drops self events only; with `existence` also those of created and deleted objects.

        It never drops the event of a deletion by others, nor a second event that shows an object for the first time.
        """

        restores = pending.informer.restores

        def passes(old: Object | None, new: Object | None) -> bool:
            obj = new or old
            if obj is None:
                return True
            nonlocal restores
            if restores < pending.informer.restores:
                # The server gives the same versions to other states.
                restores = pending.informer.restores
                self._forget()
            # The event may overtake the answer of the write that caused it.
            pending.wait_for_answers((obj.namespace, obj.name), _WAIT)
            with self._lock:
                first = self._created.pop(obj.uid, None) if existence else None
                if new is None:
                    return not existence or self._deleted.get((obj.kind, obj.namespace, obj.name)) != obj.uid
                start = first if old is None else old.resource_version
                return start is None or not self._leads(new, start, included=old is None)

        return passes

    def _forget(self) -> None:
        with self._lock:
            self._based_on.clear()
            self._created.clear()
            self._deleted.clear()

    def _leads(self, new: Object, start: str, *, included: bool) -> bool:
        """Return whether own writes alone lead from a version of the object to this one. The caller holds the lock."""
        version: str | None = new.resource_version
        if version == start:
            # A resync shows the same version again.
            return included
        for _ in range(len(self._based_on)):
            version = self._based_on.get((new.uid, version or ""))
            if version is None or version == start:
                break
        return version == start


def _is_all_of(answer: Mapping[str, Any]) -> bool:
    """Return whether a write has made all of the object, so that no other writer's change can be in it."""
    managers = {
        (entry.get("manager"), entry.get("operation")) for entry in answer["metadata"].get("managedFields") or ()
    }
    return len(managers) == 1


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what the server changes in every write."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _BOOKKEEPING}
    return {**obj, "metadata": metadata}


def _explains(change: Any, before: Any, after: Any) -> bool:
    """Return whether `before` and `after` differ only in the fields of `change`."""
    if before == after:
        return True
    if isinstance(change, dict) and isinstance(after, dict | None):
        before, after = before if isinstance(before, dict) else {}, after or {}
        return all(
            name in change and _explains(change[name], before.get(name), after.get(name))
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name)
        )
    if isinstance(change, list) and isinstance(after, list | None):
        # Lists may be merged by the server: what others have added must not count as written.
        known, items = before if isinstance(before, list) else [], after or []
        known = [*known, *[None] * len(items)]
        return len(change) == len(items) and all(map(_explains_item, change, known, items))
    # A value that was set; the server may write it in another form.
    return not isinstance(change, dict | list)


def _explains_item(change: Any, before: Any, after: Any) -> bool:
    """Return whether items of a list at one place are the same one by name, and their difference was written."""
    if before == after:
        return True
    names = {item.get("name") for item in (change, before, after) if isinstance(item, dict)}
    return len(names) <= 1 and _explains(change, before, after)
