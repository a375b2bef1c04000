"""The parts of an informer, one per namespace or one for all of them; they may change while it runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.informers.indexers import UnionIndexer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctrlhost.cache import Indexer
    from ctrlhost.informers.namespace_informer import NamespaceInformer


@dataclass(slots=True, eq=False)
class Attached:
    """One handler on all parts, present and future."""

    #: Adds the handler to a part and returns the function that removes it: `remove(wait)`.
    add: Callable[[NamespaceInformer], Callable[[bool], None]]
    removes: dict[NamespaceInformer, Callable[[bool], None]] = field(default_factory=dict)


class NamespaceInformers:
    """Holds the parts of one informer. All methods may be called from any thread."""

    def __init__(
        self, make: Callable[[NamespaceInformers, str], NamespaceInformer], namespaces: Collection[str]
    ) -> None:
        """Create a part for each namespace; `""` means all namespaces."""
        self._make = make
        self._lock = threading.RLock()
        #: Held while parts are emptied, which waits for their reflectors. Taken before `_lock`.
        self._changing = threading.Lock()
        self._started = self._stopped = False
        self._active: dict[str, NamespaceInformer] = {name: make(self, name) for name in namespaces}
        #: Parts of removed namespaces, whose Python handlers may still be processing the deletions.
        self._retired: dict[str, NamespaceInformer] = {}
        self._attached: list[Attached] = []
        self._union: UnionIndexer | None = None
        #: Whether the kind is cluster-scoped, so that `set` has no effect.
        self._fixed = False

    @property
    def now(self) -> tuple[NamespaceInformer, ...]:
        """The current parts."""
        return tuple(self._active.values())

    def indexer(self, *, fixed: bool) -> Indexer | UnionIndexer:
        """Return an indexer over all parts; with `fixed` these will not change."""
        indexers = [part.engine.indexer for part in self.now]
        if fixed and len(indexers) == 1:
            only: Indexer = indexers[0]
            return only
        if self._union is None:
            self._union = UnionIndexer(indexers)
        return self._union

    def attach(self, add: Callable[[NamespaceInformer], Callable[[bool], None]]) -> Attached:
        """Add a handler to each part, present and future."""
        attached = Attached(add)
        with self._lock:
            for part in self.now:
                attached.removes[part] = add(part)
            self._attached.append(attached)
        return attached

    def detach(self, attached: Attached, wait: bool) -> None:
        """Remove a handler from all parts; with `wait`, return after a running callback has ended."""
        with self._lock:
            if attached in self._attached:
                self._attached.remove(attached)
            removes = list(attached.removes.values())
            attached.removes.clear()
        for remove in removes:
            remove(wait)

    def start(self) -> None:
        """Start the parts that are not running, and each future one when it is made."""
        with self._lock:
            self._started = True
            parts = self.now
        for part in parts:
            part.start()

    def keep_one(self, namespace: str) -> bool:
        """Keep one part only, since the kind turned out to have no namespaces; return whether it is this one."""
        with self._lock:
            kept = next(iter(self._active))
            fixed, self._fixed = self._fixed, True
        if not fixed and len(self._active) > 1:
            # In a new thread: the caller may be the reflector of a part that is to end.
            threading.Thread(
                target=self._set, args=([kept],), name="parts of a cluster-scoped kind", daemon=True
            ).start()
        return namespace == kept

    def set(self, namespaces: Collection[str]) -> None:
        """Keep parts for exactly these namespaces: new ones are started, others drop their objects, which handlers see
        as deletions.

        Waits for the reflectors of removed parts.
        """
        if not self._fixed:
            self._set(namespaces)

    def restart(self) -> None:
        """Drop all objects, which handlers see as deletions, and start again."""
        with self._changing:
            parts = self.now
            _empty(parts)
            with self._lock:
                for part in () if self._stopped else parts:
                    part.restart(run=self._started)

    def _set(self, namespaces: Collection[str]) -> None:
        with self._changing:
            with self._lock:
                leaving = {name: part for name, part in self._active.items() if name not in namespaces}
                self._active = {name: part for name, part in self._active.items() if name in namespaces}
                self._retired.update(leaving)
            _empty(leaving.values())
            with self._lock:
                self._drop_idle()
                if self._stopped:
                    return
                missing = [name for name in namespaces if name not in self._active]
                self._active = {**self._active, **{name: self._started_part(name) for name in missing}}
                # Emptied parts were read until here, so no object vanished before its deletion was delivered.
                if self._union is not None:
                    self._union.adopt([part.engine.indexer for part in self.now])

    def _started_part(self, name: str) -> NamespaceInformer:
        """Return the part for a namespace, revived or new, started if the informer is; the caller holds the lock."""
        retired = self._retired.pop(name, None)
        part = retired or self._make(self, name)
        if retired is None and self._union is not None:
            self._union.prepare(part.engine.indexer)
        for attached in self._attached:
            if part not in attached.removes:
                attached.removes[part] = attached.add(part)
        if retired is not None:
            part.restart(run=self._started)
        elif self._started:
            part.start()
        return part

    def _drop_idle(self) -> None:
        """Drop retired parts whose handlers have processed everything; the caller holds the lock."""
        for name, part in list(self._retired.items()):
            if not part.dispatcher.pending:
                del self._retired[name]
                for attached in self._attached:
                    attached.removes.pop(part, None)
                if self._union is not None:
                    self._union.forget(part.engine.indexer)
                part.end()

    def pending(self) -> int:
        """Return the number of notifications that Python handlers have not processed."""
        with self._lock:
            return sum(part.dispatcher.pending for part in [*self.now, *self._retired.values()])

    def stop(self, timeout: float) -> None:
        """Stop for good: streams are cut and handlers no longer called. Waits at most `timeout` seconds for threads."""
        with self._lock:
            self._stopped = True
            parts = [*self.now, *self._retired.values()]
        for part in parts:
            part.reflector.stop()
        deadline = time.monotonic() + timeout
        for part in parts:
            part.reflector.join(max(deadline - time.monotonic(), 0.0))
            part.end(max(deadline - time.monotonic(), 0.0))


def _empty(parts: Collection[NamespaceInformer]) -> None:
    # All reflectors are stopped first, so that their threads end concurrently.
    for part in parts:
        part.reflector.stop()
    for part in parts:
        part.empty()
