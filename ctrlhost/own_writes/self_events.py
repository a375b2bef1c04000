"""Self events: events of a controller's own writes, which need no reconcile."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.cache import Object
    from ctrlhost.informers import Informer
    from ctrlhost.own_writes.overlay import PendingWrites

_MAX_ENTRIES = 4096
#: How long an event waits for the answer to a write in flight, in seconds.
_WAIT = 0.1
#: Fields that the server changes in every write.
_BOOKKEEPING = frozenset({"resourceVersion", "managedFields", "generation"})


class SelfEvents:
    """Versions created by a controller's own writes that differ from the version it had read only in written fields."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._versions: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._informers: dict[tuple[str, str], Informer] = {}

    def listen(self, api_version: str, kind: str, informer: Informer) -> None:
        """Compare writes to this kind with the cache of this informer."""
        self._informers[api_version, kind] = informer

    def base(self, api_version: str, kind: str, key: tuple[str, str]) -> Object | None:
        """Return the cached object, before the write is sent: the newest state that the controller can know."""
        informer = self._informers.get((api_version, kind))
        return None if informer is None else informer.lister.get(key[1], key[0])

    def wrote(self, kind: str, known: Object | None, change: Any, answer: Mapping[str, Any]) -> None:
        """Remember a write if it changed only fields of the `known` object that it set.

        `change` is the object or merge patch that was sent. Any other difference may be another writer's, whose event
        this write's event may have replaced.
        """
        metadata = answer["metadata"]
        if known is None or known.partial or known.uid != metadata.get("uid"):
            return
        if not _differs_only_in(change, known.to_dict(), answer):
            return
        with self._lock:
            self._versions[kind, known.uid, metadata["resourceVersion"]] = known.resource_version
            if len(self._versions) > _MAX_ENTRIES:
                self._versions.popitem(last=False)

    def predicate(self, pending: PendingWrites) -> Any:
        """Return the predicate that drops self events only."""

        def passes(old: Object | None, new: Object | None) -> bool:
            if old is None or new is None:
                return True
            # The event may overtake the answer of the write that caused it.
            pending.wait_for_answers((new.namespace, new.name), _WAIT)
            with self._lock:
                based_on = self._versions.get((new.kind, new.uid, new.resource_version))
            return based_on is None or based_on != old.resource_version

        return passes


def _differs_only_in(change: Any, before: Any, after: Any, *, at: str = "") -> bool:
    """Return whether `before` and `after` differ only in the fields of `change` and the server's bookkeeping."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return bool(before == after)
    named = change if isinstance(change, dict) else {}
    for name in before.keys() | after.keys():
        if at == "metadata" and name in _BOOKKEEPING:
            continue
        if name in named:
            # A field that was set may differ; a mapping below it may hold more than was set.
            if isinstance(named[name], dict) and not _differs_only_in(
                named[name], before.get(name) or {}, after.get(name) or {}, at=name
            ):
                return False
        elif before.get(name) != after.get(name):
            return False
    return True
