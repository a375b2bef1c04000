"""The shared informer, the interface for its users."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.duration import in_seconds
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.callback_metrics import FunctionMetrics, HandlerMetrics, handler_name
from ctrlhost.informers.delivery import Callbacks, Delivery, OnAdd, OnDelete, OnUpdate
from ctrlhost.informers.handle import Handle
from ctrlhost.informers.lister import Lister
from ctrlhost.informers.namespace_informers import PartFollower
from ctrlhost.informers.predicates import in_core
from ctrlhost.informers.verify import Difference, check_parts
from ctrlhost.reflector.status import InformerStatus, State
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost._core import SharedInformer
    from ctrlhost.cache import Indexer, Object
    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.duration import DurationLike
    from ctrlhost.informers.caller import Caller
    from ctrlhost.informers.handle import Added
    from ctrlhost.informers.indexers import UnionIndexer, ViewIndexer
    from ctrlhost.informers.namespace_follower import NamespaceFollower
    from ctrlhost.informers.namespace_informer import NamespaceInformer, Scope
    from ctrlhost.informers.namespace_informers import NamespaceInformers
    from ctrlhost.informers.owner_kinds import OwnerKinds
    from ctrlhost.workqueue import WorkQueue

_FIRST_LISTS = -100
"""The priority of requests from a first list or a resync: after all real changes."""
#: The state of an informer is the first of these that any of its reflectors has.
_WORST_FIRST: tuple[State, ...] = ("waiting", "over budget", "listing", "reconnecting", "watching", "stopped")


class Informer:
    """Mirrors the objects of one kind within its scope and notifies handlers, as client-go's `SharedIndexInformer`.

    Created by `InformerFactory.informer` and shared: equal requests get the same informer, and it stops when its last
    user has called `release`. All methods may be called from any thread.
    """

    def __init__(
        self,
        scope: Scope,
        key: str,
        parts: NamespaceInformers,
        client: Client,
        clock: Clock,
        follower: NamespaceFollower | None = None,
        *,
        caller: Caller,
        owners: OwnerKinds,
        optional: bool = False,
        beside: tuple[str, ...] = (),
        widen: Callable[[Scope], None] | None = None,
    ) -> None:
        """Combine the parts; `follower` keeps them equal to the selected namespaces.

        `caller` calls the functions that are added without another one, `owners` knows which owners have a namespace.
        `beside` are the keys of narrower informers that keep the watches that they had before. `widen` makes the parts,
        present and future, keep what another scope of the same objects reads.
        """
        self.caller = caller
        self.owners = owners
        #: Whether `wait_for_sync` ignores it.
        self.optional = optional
        self.beside = beside
        self._widen = widen
        self.scope = scope
        #: A readable name, unique in its factory.
        self.key = key
        self.follower = follower
        self._parts = parts
        self._synced = False
        self.users = 0
        self.client = client
        self.clock = clock
        self._handles: list[Handle] = []
        self._index_metrics: dict[str, list[FunctionMetrics]] = {}
        #: Whether it was stopped for good.
        self.stopped = False
        self._lock = threading.Lock()
        self._release: Callable[[Informer], None] = lambda _: None
        self.indexer: Indexer | UnionIndexer | ViewIndexer = parts.indexer(fixed=follower is None)
        self.lister = Lister(self.indexer)

    @property
    def parts(self) -> tuple[NamespaceInformer, ...]:
        """The current parts: one per namespace, or one for all of them."""
        return self._parts.now

    @property
    def restores(self) -> int:
        """How often its server was found restored to an earlier state."""
        return self._parts.restores

    @property
    def api_version(self) -> str:
        """The group and version of the kind."""
        return self.scope.api_version

    @property
    def kind(self) -> str:
        """The kind."""
        return self.scope.kind

    @property
    def resource(self) -> str:
        """The plural as the server serves it; empty before that is known."""
        known = self.client.resources.last_known(self.api_version, self.kind)
        return known.plural if known is not None else ""

    def add_handler(
        self,
        on_add: OnAdd | None = None,
        on_update: OnUpdate | None = None,
        on_delete: OnDelete | None = None,
        *,
        filter: Callable[[Any], bool] | None = None,  # noqa: A002 - upstream's word
        resync: DurationLike | None = None,
        name: str | None = None,
        every_change: bool = False,
        caller: Caller | None = None,
    ) -> Handle:
        """Call `on_add(obj, is_initial)`, `on_update(old, new)` and `on_delete(obj_or_tombstone)` with each change.

        They run in the callback thread of the plugin, or of the factory, one call at a time; an exception is logged
        under `name`, and later changes are still delivered. Cached objects are delivered as initial adds. With `filter`
        the handler sees only objects that pass it: an object that begins to pass is an add, one that stops passing is a
        deletion. Every object is delivered again after `resync`, a duration; None is the factory's period, 0 never.

        If more than 1024 notifications wait for a slow handler, those of one object are merged: the handler gets the
        newest state, and each deletion of an object that it has seen. `every_change` keeps them all. If more than
        100,000 wait, or twice the number of objects, the handler is removed, and the plugin fails.

        CtrlhostError if the informer has stopped, TypeError if a callback is not callable.
        """
        self._check_running()
        for callback in (on_add, on_update, on_delete, filter):
            if not (callback is None or callable(callback)):
                raise TypeError(f"handler callbacks must be functions, got {callback!r}")
        caller, period = caller or self.caller, None if resync is None else in_seconds(resync)
        name = name or handler_name(on_add, on_update, on_delete)
        callbacks = Callbacks(name, on_add, on_update, on_delete, self._narrowed(filter))
        metrics, entry = HandlerMetrics(), caller.callbacks.entry("handler", "")

        def add(engine: SharedInformer, buffer: dict[str, Any]) -> Added:
            listener = engine.add_listener(period, every_change=every_change, **buffer)
            return listener, Delivery(callbacks, listener, metrics, entry)

        functions = (FunctionMetrics("handler", name, metrics),)
        key = f"{name} for {self.key}"
        return self._keep(Handle(self._parts, name, key, caller, add, lambda: self.has_synced, functions))

    def enqueue_to(
        self,
        queue: WorkQueue,
        key: Any = "object",
        *,
        predicates: Sequence[Any] = (),
        priority: int | None = None,
        low_priority: int | None = _FIRST_LISTS,
        caller: Caller | None = None,
        controller: str = "",
    ) -> Handle:
        """Add a request to a queue for each change that passes all `predicates`.

        `key` is "object", an `Owner`, a `ByLabel`, or a function from an object to requests. The first three, and the
        predicates of `ctrlhost.predicates`, never enter Python. Functions run in the callback thread of the plugin, or
        of the factory: the changes of one object that wait for it are merged, and beyond the limit of `add_handler` the
        handler is removed. Their calls are counted in the metrics. Requests from a first list or a resync have
        `low_priority`.

        CtrlhostError if the informer has stopped, TypeError if `queue` is not a WorkQueue.
        """
        self._check_running()
        if not hasattr(queue, "add_many"):
            raise TypeError(f"queue must be a WorkQueue, got {queue!r}")
        caller, metrics = caller or self.caller, list[FunctionMetrics]()
        mapping = caller.watched("map", self.owners.in_core(key), metrics, controller)
        checks = [caller.watched("predicate", in_core(predicate), metrics, controller) for predicate in predicates]
        wanted, name = self._within(checks), f"queue {getattr(queue, 'name', '')}"
        options: dict[str, Any] = {"predicates": wanted, "priority": priority, "low_priority": low_priority}

        def add(engine: SharedInformer, buffer: dict[str, Any]) -> Added:
            added = engine.enqueue_to(queue, mapping, **options, **buffer)
            return added, None if isinstance(added, int) else added

        handle = Handle(
            self._parts,
            name,
            f"{controller or name} for {self.key}",
            caller,
            add,
            # The first list, and what the functions had to do with it.
            lambda: self.has_synced,
            tuple(metrics),
            fills_queue=True,
            on_remove=lambda: self.owners.forget(mapping) if isinstance(mapping, _core.Owner) else None,
        )
        return self._keep(handle)

    def widen(self, scope: Scope, key: str) -> bool:
        """Keep what a scope of the same objects reads; before the start. False for a view, which keeps nothing."""
        if self._widen is None:
            return False
        self._widen(scope)
        self.scope, self.key = scope, key
        return True

    def follow_parts(self, add: Callable[[NamespaceInformer], Callable[[bool], None]]) -> Callable[[], None]:
        """Call `add` with each part, present and future; return the function that ends that.

        `add` returns a function that the end calls for parts that are still in use, with False.
        """
        follower = PartFollower(add)
        self._parts.attach(follower)
        return lambda: self._parts.detach(follower, False)

    def add_indexers(
        self, indexers: Mapping[str, Callable[[Object], Iterable[str] | None] | str], *, caller: Caller | None = None
    ) -> None:
        """Add indexes by functions, which run in the index thread of the plugin or of the factory, or by paths.

        Readers of an index wait for its function, for up to 2 seconds. ValueError for a name that is taken.
        """
        caller = caller or self.caller
        metrics: dict[str, list[FunctionMetrics]] = {name: [] for name in indexers}
        functions = {name: caller.index_function(by, metrics[name]) for name, by in indexers.items()}
        self.indexer.add_indexers(functions)
        with self._lock:
            self._index_metrics = {**self._index_metrics, **metrics}
        if caller is not self.caller:
            names = tuple(indexers)
            caller.owns_indexes(lambda: self.remove_indexers(names))

    def remove_indexers(self, names: Sequence[str]) -> None:
        """Remove indexes; unknown names are no error."""
        self.indexer.remove_indexers(names)
        with self._lock:
            self._index_metrics = {
                name: index_metric for name, index_metric in self._index_metrics.items() if name not in names
            }

    def _keep(self, handle: Handle) -> Handle:
        with self._lock:
            self._handles = [*(known for known in self._handles if known.active), handle]
        if handle.caller is not self.caller:
            handle.caller.owns_handler(handle)
        return handle

    def _narrowed(self, filter: Callable[[Any], bool] | None) -> Callable[[Any], bool] | None:  # noqa: A002 - as above
        """Return the filter that also checks whether an object belongs to the informer."""
        return filter

    def _within(self, predicates: list[Any]) -> list[Any]:
        """Return predicates that only pass objects of the informer."""
        return predicates

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache and was delivered to handlers; once true, it stays true.

        RuntimeError in a forked child.
        """
        parts = self.parts
        if not self._synced:
            self._synced = self._knows_namespaces() and all(part.engine.has_synced for part in parts)
        return self._synced

    @property
    def has_filled_queues(self) -> bool:
        """Whether it has synced, and the queues have the requests for the first list, also those of maps in Python."""
        with self._lock:
            handles = [handle for handle in self._handles if handle.active and handle.fills_queue]
        return self.has_synced and all(handle.has_synced for handle in handles)

    @property
    def handles(self) -> tuple[Handle, ...]:
        """The handles of the handlers that were not removed."""
        with self._lock:
            return tuple(handle for handle in self._handles if handle.active)

    @property
    def callback_metrics(self) -> tuple[FunctionMetrics, ...]:
        """The metrics of the Python functions of all handlers and indexes that were not removed."""
        with self._lock:
            handles = [
                callback_metric
                for handle in self._handles
                if handle.active
                for callback_metric in handle.callback_metrics
            ]
            indexes = [metric for metrics in self._index_metrics.values() for metric in metrics]
        return (*handles, *indexes, *(index_metric for part in self.parts for index_metric in part.index_metrics))

    def _knows_namespaces(self) -> bool:
        return self.follower is None or self.follower.complete

    def covers(self, namespace: str) -> bool:
        """Return whether objects of a namespace belong to it at present; `""` is that of cluster-scoped objects."""
        chosen = self.scope.namespaces
        if chosen is None or isinstance(chosen, tuple):
            # Cluster-scoped objects have no namespace to compare.
            return chosen is None or not namespace or namespace in chosen
        return self._find_part(namespace) is not None

    def has_place(self, place: int) -> bool:
        """Return whether its cache has the objects of a hash."""
        return all(part.holds(place, place + 1) for part in self.parts)

    def objects_of(self, start: int, end: int) -> list[Object]:
        """Return the cached objects whose hash, by what the informer is sharded by, is from `start` to before `end`."""
        return [obj for part in self.parts for obj in part.engine.objects_of([(start, end)])]

    def version_in(self, namespace: str) -> str:
        """Return the version of one namespace's cache, or the oldest of all if no cache holds the namespace."""
        part = self._find_part(namespace)
        return part.engine.last_resource_version if part else self.last_resource_version

    def over_budget_in(self, namespace: str) -> str:
        """Return the reason while the memory budget has no room for the objects of one namespace; empty otherwise."""
        part = self._find_part(namespace)
        return part.reflector.status.reason if part and part.reflector.status.state == "over budget" else ""

    def _find_part(self, namespace: str) -> NamespaceInformer | None:
        return next((part for part in self.parts if part.namespace in ("", namespace)), None)

    @property
    def last_resource_version(self) -> str:
        """The version of the cache; with several namespaces the oldest. Empty before the first list."""
        versions = [part.engine.last_resource_version for part in self.parts]
        return min(versions, key=lambda version: (len(version), version), default="")

    @property
    def pending(self) -> int:
        """The number of notifications that Python handlers have not processed."""
        return self._parts.pending()

    @property
    def state(self) -> State:
        """Its current state; with several namespaces the worst."""
        return self._worst_state()[0]

    @property
    def reason(self) -> str:
        """The reason for which it waits or reconnects; empty otherwise."""
        return self._worst_state()[1]

    @property
    def last_byte_age(self) -> float | None:
        """The seconds since the last byte from the server, of whichever namespace; None before the first."""
        times = [part.reflector.status.last_byte_at for part in self.parts]
        last = max((moment for moment in times if moment is not None), default=None)
        return None if last is None else self.clock.now() - last

    @property
    def over_budget(self) -> str:
        """Its key and the reason while the memory budget has no room for its objects; empty otherwise."""
        state, reason = self._worst_state()
        return f"{self.key}: {reason}" if state == "over budget" else ""

    def status(self) -> InformerStatus:
        """Return its status, for health checks, metrics and pages."""
        now = self.clock.now()
        reflectors = [part.reflector.status for part in self.parts]
        stats = [part.engine.stats() for part in self.parts]
        state, reason = self._worst_state()
        namespaces = self.scope.namespaces
        if isinstance(namespaces, NamespaceSelector):
            namespaces = tuple(sorted(part.namespace for part in self.parts))

        def age(times: list[float | None]) -> float | None:
            known = [moment for moment in times if moment is not None]
            return now - min(known) if known else None

        remaining = [reflector.remaining for reflector in reflectors if reflector.remaining is not None]
        return InformerStatus(
            key=self.key,
            api_version=self.api_version,
            kind=self.kind,
            namespaces=namespaces,
            state=state,
            reason=reason,
            state_age=age([reflector.since for reflector in reflectors if reflector.state == state]),
            has_synced=self.has_synced,
            users=self.users,
            objects=sum(counts["objects"] for counts in stats),
            bytes=sum(counts["bytes"] for counts in stats),
            resource_version=self.last_resource_version,
            last_byte_age=age([reflector.last_byte_at for reflector in reflectors]),
            last_event_age=age([reflector.last_event_at for reflector in reflectors]),
            last_bookmark_age=age([reflector.last_bookmark_at for reflector in reflectors]),
            last_list_age=age([reflector.last_list_at for reflector in reflectors]),
            staleness=age([reflector.current_at for reflector in reflectors]),
            relists=sum(max(reflector.lists - 1, 0) for reflector in reflectors),
            errors=sum(sum(reflector.errors.values()) for reflector in reflectors),
            last_error=next((reflector.last_error for reflector in reflectors if reflector.last_error), ""),
            listing=sum(reflector.listing for reflector in reflectors),
            remaining=sum(remaining) if remaining else None,
            beside=self.beside,
        )

    def _worst_state(self) -> tuple[State, str]:
        if self.stopped:
            return "stopped", ""
        states = [(part.reflector.status.state, part.reflector.status.reason) for part in self.parts]
        if self.follower is not None:
            states.append(self.follower.state)
        return min(states, key=lambda state: _WORST_FIRST.index(state[0]), default=("watching", ""))

    def check(self, *, repair: bool = False) -> list[Difference]:
        """Compare the cache with the server at the cache's version and return the differences, normally none.

        With `repair` a part that differs lists again. Raises Stale while changes arrive too fast for a comparison,
        Expired if the server no longer has the version. The server has to list metadata.
        """
        return check_parts(self.client, self.parts, repair=repair)

    def kind_gone(self) -> None:
        """Drop all objects, which handlers see as deletions, and wait for the kind: the server no longer has it."""
        self.client.resources.forget(self.api_version, self.kind)
        self._parts.restart()

    def wake(self) -> None:
        """Retry waiting reflectors at once, for example after a CRD was installed or a right was granted."""
        for part in self.parts:
            part.reflector.wake()

    def release(self) -> None:
        """Return the informer to its factory; each user calls this once, and the last one stops it."""
        self._release(self)

    def start(self) -> None:
        """Start the reflectors that are not running; called by the factory."""
        self._parts.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop for good: streams are cut and handlers no longer called. Waits at most `timeout` seconds for threads."""
        with self._lock:
            self.stopped = True
        if self.follower is not None:
            self.follower.stop()
        self._parts.stop(timeout)

    def _check_running(self) -> None:
        if self.stopped:
            raise CtrlhostError(
                f"handler of {self.key} was not added to shared informer because it has stopped already"
            )
