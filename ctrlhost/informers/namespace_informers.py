"""The parts of an informer, one per namespace or one for all of them; they may come and go while it runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.informers.indexers import UnionIndexer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctrlhost.cache import Indexer
    from ctrlhost.informers.namespace_informer import Part


@dataclass(slots=True, eq=False)
class Attached:
    """One handler on all parts, those that come later too."""

    #: Adds the handler to a part, and gives what removes it: `remove(wait)`.
    add: Callable[[Part], Callable[[bool], None]]
    removes: dict[Part, Callable[[bool], None]] = field(default_factory=dict)


class Parts:
    """Holds the parts of one informer. All methods may be called from any thread."""

    def __init__(self, make: Callable[[Parts, str], Part], namespaces: Collection[str]) -> None:
        """Make a part for each namespace; `""` stands for all of them."""
        self._make = make
        self._lock = threading.RLock()
        #: Held while parts are emptied, which takes its time. Taken before the other one.
        self._changing = threading.Lock()
        self._started = self._stopped = False
        self._active: dict[str, Part] = {name: make(self, name) for name in namespaces}
        #: Namespaces that went away, whose handlers in Python may still be at what happened there.
        self._retired: dict[str, Part] = {}
        self._attached: list[Attached] = []
        self._union: UnionIndexer | None = None
        #: The namespaces are what they are, whatever is said of them later.
        self._fixed = False

    @property
    def now(self) -> tuple[Part, ...]:
        """The parts that there are at this moment."""
        return tuple(self._active.values())

    def indexer(self, *, fixed: bool) -> Indexer | UnionIndexer:
        """Give what reads from all parts; `fixed` says that there will be no others."""
        indexers = [part.engine.indexer for part in self.now]
        if fixed and len(indexers) == 1:
            only: Indexer = indexers[0]
            return only
        if self._union is None:
            self._union = UnionIndexer(indexers)
        return self._union

    def attach(self, add: Callable[[Part], Callable[[bool], None]]) -> Attached:
        """Add a handler to each part, now and later."""
        attached = Attached(add)
        with self._lock:
            for part in self.now:
                attached.removes[part] = add(part)
            self._attached.append(attached)
        return attached

    def detach(self, attached: Attached, wait: bool) -> None:
        """Remove a handler from all parts; with `wait`, return after a callback that runs has ended."""
        with self._lock:
            if attached in self._attached:
                self._attached.remove(attached)
            removes = list(attached.removes.values())
            attached.removes.clear()
        for remove in removes:
            remove(wait)

    def start(self) -> None:
        """Start the parts that do not run yet, and those that come later as they come."""
        with self._lock:
            self._started = True
            parts = self.now
        for part in parts:
            part.start()

    def keep_one(self, namespace: str) -> bool:
        """Have one part only, since it turned out that the kind has no namespaces; tell whether it is this one."""
        with self._lock:
            kept = next(iter(self._active))
            fixed, self._fixed = self._fixed, True
        if not fixed and len(self._active) > 1:
            # Off the reflector's thread, which may be one of those that end.
            threading.Thread(
                target=self._set, args=([kept],), name="parts of a cluster-scoped kind", daemon=True
            ).start()
        return namespace == kept

    def set(self, namespaces: Collection[str]) -> None:
        """Have parts for exactly these namespaces: new ones are started, others drop their objects, of which handlers
        hear as deletions.

        Waits for the reflectors of those that go.
        """
        if not self._fixed:
            self._set(namespaces)

    def restart(self) -> None:
        """Drop all objects, of which handlers hear as deletions, and begin anew."""
        with self._changing:
            parts = self.now
            for part in parts:
                part.reflector.stop()
            for part in parts:
                part.empty()
            with self._lock:
                for part in () if self._stopped else parts:
                    part.restart(run=self._started)

    def _set(self, namespaces: Collection[str]) -> None:
        with self._changing:
            self._change(namespaces)

    def _change(self, namespaces: Collection[str]) -> None:
        with self._lock:
            leaving = {name: part for name, part in self._active.items() if name not in namespaces}
            self._active = {name: part for name, part in self._active.items() if name in namespaces}
            self._retired.update(leaving)
        for part in leaving.values():
            part.reflector.stop()
        for part in leaving.values():
            part.empty()
        with self._lock:
            self._drop_idle()
            if self._ended():
                return
            missing = [name for name in namespaces if name not in self._active]
            self._active = {**self._active, **{name: self._revived(name) or self._made(name) for name in missing}}
            # Those that are empty now were read until now, so that nobody saw an object vanish before it was told.
            if self._union is not None:
                self._union.adopt([part.engine.indexer for part in self.now])

    def _ended(self) -> bool:
        return self._stopped

    def _revived(self, name: str) -> Part | None:
        part = self._retired.pop(name, None)
        if part is not None:
            self._attach_all(part)
            part.restart(run=self._started)
        return part

    def _made(self, name: str) -> Part:
        part = self._make(self, name)
        if self._union is not None:
            self._union.prepare(part.engine.indexer)
        self._attach_all(part)
        if self._started:
            part.start()
        return part

    def _attach_all(self, part: Part) -> None:
        for attached in self._attached:
            if part not in attached.removes:
                attached.removes[part] = attached.add(part)

    def _drop_idle(self) -> None:
        """Let go of namespaces that went away and of which every handler has heard everything; expects the lock."""
        for name, part in list(self._retired.items()):
            if not part.dispatcher.pending:
                del self._retired[name]
                for attached in self._attached:
                    attached.removes.pop(part, None)
                if self._union is not None:
                    self._union.forget(part.engine.indexer)
                part.end()

    def pending(self) -> int:
        """Count the notifications that wait for handlers in Python, or are being delivered to one."""
        with self._lock:
            return sum(part.dispatcher.pending for part in [*self.now, *self._retired.values()])

    def stop(self, timeout: float) -> None:
        """Stop for good: streams are cut, handlers told nothing more. Waits `timeout` seconds at most for threads."""
        with self._lock:
            self._stopped = True
            parts = [*self.now, *self._retired.values()]
        for part in parts:
            part.reflector.stop()
        deadline = time.monotonic() + timeout
        for part in parts:
            part.reflector.join(max(deadline - time.monotonic(), 0.0))
            part.end(max(deadline - time.monotonic(), 0.0))
