"""One shared informer: what its users hold in their hands."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.callback_metrics import HandlerCost, handler_name, measured
from ctrlhost.informers.core_mappings import mapping_in_core
from ctrlhost.informers.dispatcher import Callbacks, OnAdd, OnDelete, OnUpdate, Registration
from ctrlhost.informers.handle import Handle
from ctrlhost.informers.lister import Lister
from ctrlhost.informers.predicates import in_core
from ctrlhost.informers.status_report import status_of, worst_state
from ctrlhost.informers.verify import Difference, check_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.cache import Indexer
    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers.callback_metrics import FunctionCost
    from ctrlhost.informers.indexers import UnionIndexer, ViewIndexer
    from ctrlhost.informers.namespace_follower import Following
    from ctrlhost.informers.namespace_informer import Part, Scope
    from ctrlhost.informers.namespace_informers import Parts
    from ctrlhost.reflector.status import InformerStatus, State
    from ctrlhost.workqueue import WorkQueue

_FIRST_LISTS = -100
"""The priority of what comes with a first list or a resync: after all that really changed."""


class Informer:
    """Mirrors the objects of one kind, as far as its scope goes, and tells handlers of changes.

    Made by `InformerFactory.informer` and shared: equal requests get the same informer, and it stops when the last of
    its users has called `release`. All methods may be called from any thread.
    """

    def __init__(
        self,
        scope: Scope,
        key: str,
        parts: Parts,
        client: Client,
        clock: Clock,
        following: Following | None = None,
        *,
        optional: bool = False,
    ) -> None:
        """Join the parts; `following` has them follow the namespaces that there are."""
        #: Nobody needs it to sync: it makes others quicker.
        self.optional = optional
        self.scope = scope
        #: A readable name, different for informers that are not shared.
        self.key = key
        self.following = following
        self._parts = parts
        self._synced = False
        self.users = 0
        self.client = client
        self.clock = clock
        self._handles: list[Handle] = []
        #: Whether it was stopped, for good.
        self.stopped = False
        self._lock = threading.Lock()
        self._release: Callable[[Informer], None] = lambda _: None
        fixed = following is None
        self.indexer: Indexer | UnionIndexer | ViewIndexer = parts.indexer(fixed=fixed)
        self.lister = Lister(self.indexer)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts at this moment: one per namespace, or one for all of them."""
        return self._parts.now

    @property
    def api_version(self) -> str:
        """The group and version of the kind."""
        return self.scope.api_version

    @property
    def kind(self) -> str:
        """The kind."""
        return self.scope.kind

    def add_handler(
        self,
        on_add: OnAdd | None = None,
        on_update: OnUpdate | None = None,
        on_delete: OnDelete | None = None,
        *,
        filter: Callable[[Any], bool] | None = None,  # noqa: A002 - upstream's word
        resync: float | None = None,
        name: str | None = None,
        every_change: bool = False,
    ) -> Handle:
        """Call `on_add(obj, is_initial)`, `on_update(old, new)` and `on_delete(obj_or_tombstone)` with each change.

        They run in a thread of the informer, one call at a time; what one raises is logged under its name and the next
        change still comes. What is cached already is told as initial adds. With `filter` the handler hears of objects
        that pass it: one that begins to pass is added for it, one that ceases to is deleted. `resync` is in seconds:
        tell of every object again after that time; None is the factory's, 0 never.

        Where more than 1024 notifications wait for a slow handler, those of one object are merged: it hears of the
        newest state, and of each deletion of what it had heard of. `every_change` keeps all, without a bound.
        """
        self._must_run()
        for callback in (on_add, on_update, on_delete, filter):
            if not (callback is None or callable(callback)):
                raise TypeError(f"a handler is made of functions, not of {callback!r}")
        callbacks = Callbacks(name or handler_name(on_add, on_update, on_delete), on_add, on_update, on_delete, filter)
        registrations: dict[Part, Registration] = {}
        cost = HandlerCost("handler", callbacks.name)

        def add(part: Part) -> Callable[[bool], None]:
            registration = registrations[part] = part.dispatcher.add(
                callbacks, part.engine.add_listener(resync, every_change=every_change), cost
            )

            def remove(wait: bool) -> None:
                registrations.pop(part, None)
                part.dispatcher.remove(registration, wait=wait)

            return remove

        attached = self._parts.attach(add)

        def synced() -> bool:
            known = [registrations.get(part) for part in self.parts]
            return self._looked_everywhere() and all(each is None or each.listener.has_synced for each in known)

        handle = Handle(callbacks.name, lambda wait: self._parts.detach(attached, wait), synced)
        handle.costs = (cost,)
        return self._keep(handle)

    def enqueue_to(
        self,
        queue: WorkQueue,
        key: Any = "object",
        *,
        predicates: Sequence[Any] = (),
        priority: int | None = None,
        low_priority: int | None = _FIRST_LISTS,
    ) -> Handle:
        """Put a request into a queue for each change that all `predicates` let through.

        `key` is "object", an `Owner`, a `ByLabel`, or a function from an object to requests. The first three, and the
        predicates of `ctrlhost.predicates`, never enter Python; what functions cost is counted. What a first list or a
        resync brings has `low_priority`.
        """
        self._must_run()
        if not hasattr(queue, "add_many"):
            raise TypeError(f"what an informer fills is a WorkQueue, not {queue!r}")
        costs: list[FunctionCost] = []
        key = measured("map", mapping_in_core(key, self.client), costs)
        wanted = self._chosen([measured("predicate", in_core(each), costs) for each in predicates])

        def add(part: Part) -> Callable[[bool], None]:
            handle = part.engine.enqueue_to(queue, key, predicates=wanted, priority=priority, low_priority=low_priority)
            return lambda _: part.engine.remove_handler(handle)

        attached = self._parts.attach(add)
        name = f"queue {getattr(queue, 'name', '')}"
        handle = Handle(name, lambda wait: self._parts.detach(attached, wait), lambda: self.has_synced)
        handle.costs = tuple(costs)
        return self._keep(handle)

    def _keep(self, handle: Handle) -> Handle:
        with self._lock:
            self._handles = [each for each in self._handles if each.active]
            self._handles.append(handle)
        return handle

    def _chosen(self, predicates: list[Any]) -> list[Any]:
        """Give the predicates for what belongs to the informer: all that its reflectors bring."""
        return predicates

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache and handlers were told of it; never false again afterwards."""
        if not self._synced:
            self._synced = self._looked_everywhere() and all(part.engine.has_synced for part in self.parts)
        return self._synced

    @property
    def costs(self) -> tuple[FunctionCost, ...]:
        """What the functions cost that handlers call in Python, of the handlers that were not removed."""
        with self._lock:
            return tuple(cost for handle in self._handles if handle.active for cost in handle.costs)

    def _looked_everywhere(self) -> bool:
        return self.following is None or self.following.complete

    def covers(self, namespace: str) -> bool:
        """Tell whether objects of a namespace belong to it now; `""` is that of cluster-scoped objects."""
        if self.following is None and isinstance(self.scope.namespaces, tuple):
            # Namespaces mean nothing for a cluster-scoped object.
            return not namespace or namespace in self.scope.namespaces
        return any(part.namespace in ("", namespace) for part in self.parts)

    def version_in(self, namespace: str) -> str:
        """Give the version that the cache of one namespace is at, the oldest one where it is of none of them."""
        for part in self.parts:
            if part.namespace in ("", namespace):
                return part.engine.last_resource_version
        return self.last_resource_version

    @property
    def last_resource_version(self) -> str:
        """The version that the cache is at; of several namespaces the oldest. Empty before the first list."""
        versions = [part.engine.last_resource_version for part in self.parts]
        return min(versions, key=lambda version: (len(version), version), default="")

    @property
    def pending(self) -> int:
        """How many notifications wait for handlers in Python, or are being delivered to one."""
        return self._parts.pending()

    @property
    def state(self) -> State:
        """What it does right now; of several namespaces the worst."""
        return worst_state(self)[0]

    @property
    def reason(self) -> str:
        """Why it waits or reconnects; empty while all is well."""
        return worst_state(self)[1]

    def status(self) -> InformerStatus:
        """Say how it is doing, for health checks, metrics and pages."""
        return status_of(self)

    def check(self, *, repair: bool = False) -> list[Difference]:
        """Compare the cache with the server, at the cache's own version, and give what differs: nothing, unless the
        cache lies.

        With `repair` a part that differs lists again. Stale while changes come too fast for a comparison, Expired if
        the server has forgotten the version. It costs the server a list of metadata.
        """
        return check_parts(self.client, self.parts, repair=repair)

    def kind_gone(self) -> None:
        """Drop all objects, of which handlers hear as deletions, and wait for the kind: the server has it no more."""
        self.client.resources.forget(self.api_version, self.kind)
        self._parts.restart()

    def poke(self) -> None:
        """Try again now where a reflector waits, as after a CRD was installed or a right was given."""
        for part in self.parts:
            part.reflector.poke()

    def release(self) -> None:
        """Give the informer back; the last of its users stops it. Each user does this once."""
        self._release(self)

    def start(self) -> None:
        """Start the reflectors that do not run yet; called by the factory."""
        self._parts.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop for good: streams are cut, handlers told nothing more. Waits `timeout` seconds at most for threads."""
        with self._lock:
            self.stopped = True
        if self.following is not None:
            self.following.stop()
        self._parts.stop(timeout)

    def _must_run(self) -> None:
        if self.stopped:
            what = f"handler of {self.key} was not added to shared informer because it has stopped already"
            raise CtrlhostError(what)
