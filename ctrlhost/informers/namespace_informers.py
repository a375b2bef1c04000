"""The parts of an informer, one per namespace or one for all of them; they may change while it runs."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ctrlhost import _core
from ctrlhost.errors import Closed
from ctrlhost.informers.indexers import UnionIndexer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctrlhost.cache import Indexer
    from ctrlhost.informers.namespace_informer import NamespaceInformer


class PartFollower:
    """One handler on all parts, present and future. No lock is held while it is added or removed."""

    def __init__(self, add: Callable[[NamespaceInformer], Callable[[bool], None]]) -> None:
        """Start on no part; `add` adds the handler to a part, and returns the function `remove(wait)`."""
        self._add = add
        self._lock = threading.Lock()
        #: None for a part to which the handler is being added.
        self._removes: dict[NamespaceInformer, Callable[[bool], None] | None] = {}
        self._removed = False

    def add_to(self, part: NamespaceInformer) -> None:
        """Add the handler to a part, once."""
        with self._lock:
            if self._removed or part in self._removes:
                return
            self._removes[part] = None
        try:
            remove = self._add(part)
        except BaseException:
            self.forget(part)
            raise
        with self._lock:
            removed = self._removed or part not in self._removes
            if not removed:
                self._removes[part] = remove
        if removed:
            remove(False)

    def forget(self, part: NamespaceInformer) -> None:
        """Forget a part that has ended."""
        with self._lock:
            self._removes.pop(part, None)

    def leave(self, wait: bool) -> None:
        """Remove the handler from all parts; may be repeated, also after an exception."""
        with self._lock:
            self._removed = True
            removes = list(self._removes.items())
        for part, remove in removes:
            if remove is not None:
                remove(wait)
            self.forget(part)


class NamespaceInformers:
    """Holds the parts of one informer. All methods may be called from any thread."""

    def __init__(
        self, make: Callable[[NamespaceInformers, str], NamespaceInformer], namespaces: Collection[str]
    ) -> None:
        """Create a part for each namespace; `""` means all namespaces."""
        self._make = make
        self._made_here = _core.MadeHere()
        #: Nothing that calls a handler, a map or an index function runs under it.
        self._lock = threading.RLock()
        #: Held while parts are emptied, which waits for their reflectors. Taken before `_lock`.
        self._changing = threading.Lock()
        self._started = self._stopped = False
        self._active: dict[str, NamespaceInformer] = {name: make(self, name) for name in namespaces}
        #: Parts of removed namespaces, whose Python handlers may still be processing the deletions.
        self._retired: dict[str, NamespaceInformer] = {}
        self._followers: list[PartFollower] = []
        self._union: UnionIndexer | None = None
        #: Whether the kind is cluster-scoped, so that `set` has no effect.
        self._fixed = False

    @property
    def now(self) -> tuple[NamespaceInformer, ...]:
        """The current parts. RuntimeError in a forked child, which has none of their threads."""
        self._made_here.check()
        return tuple(self._active.values())

    @property
    def restores(self) -> int:
        """How often their server was found restored to an earlier state."""
        return sum([part.reflector.restores for part in self._active.values()])

    def indexer(self, *, fixed: bool) -> Indexer | UnionIndexer:
        """Return an indexer over all parts; with `fixed` these will not change."""
        indexers = [part.engine.indexer for part in self.now]
        if fixed and len(indexers) == 1:
            only: Indexer = indexers[0]
            return only
        if self._union is None:
            self._union = UnionIndexer(indexers)
        return self._union

    def attach(self, follower: PartFollower) -> None:
        """Add a handler to each part, present and future."""
        with self._lock:
            parts = self.now
            self._followers = [*self._followers, follower]
        try:
            for part in parts:
                follower.add_to(part)
        except BaseException:
            self.detach(follower, wait=False)
            raise

    def detach(self, follower: PartFollower, wait: bool) -> None:
        """Remove a handler from all parts; with `wait`, return after a running callback has ended. May be repeated."""
        self._made_here.check()
        with self._lock:
            self._followers = [known for known in self._followers if known is not follower]
        follower.leave(wait)

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
                self._retired = {**self._retired, **leaving}
            _empty(leaving.values())
            self._drop_idle()
            # Only this method changes the parts, one call at a time.
            missing = [name for name in namespaces if name not in self._active and not self._stopped]
            added = {name: self._retired.get(name) or self._make(self, name) for name in missing}
            fresh = [part for name, part in added.items() if name not in self._retired]
            for part in fresh:
                if self._union is not None:
                    self._union.prepare(part.engine.indexer)
            with self._lock:
                if self._stopped:
                    return
                self._active = {**self._active, **added}
                self._retired = {name: part for name, part in self._retired.items() if name not in added}
                followers = self._followers
                # Emptied parts were read until here, so no object vanished before its deletion was delivered.
                if self._union is not None:
                    self._union.adopt([part.engine.indexer for part in self.now])
            # A part that was stopped meanwhile accepts no handlers.
            with suppress(Closed):
                for part in added.values():
                    for follower in followers:
                        follower.add_to(part)
            with self._lock:
                for part in () if self._stopped else added.values():
                    if part not in fresh:
                        part.restart(run=self._started)
                    elif self._started:
                        part.start()

    def _drop_idle(self) -> None:
        """Drop retired parts whose handlers have processed everything."""
        with self._lock:
            idle = {name: part for name, part in self._retired.items() if not part.engine.pending}
            self._retired = {name: part for name, part in self._retired.items() if name not in idle}
            followers = self._followers
        for part in idle.values():
            for follower in followers:
                follower.forget(part)
            if self._union is not None:
                self._union.forget(part.engine.indexer)
            part.end()

    def pending(self) -> int:
        """Return the number of notifications that Python handlers have not processed."""
        with self._lock:
            return sum(part.engine.pending for part in [*self.now, *self._retired.values()])

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
            part.end()


def _empty(parts: Collection[NamespaceInformer]) -> None:
    # All reflectors are stopped first, so that their threads end concurrently.
    for part in parts:
        part.reflector.stop()
    for part in parts:
        part.empty()
