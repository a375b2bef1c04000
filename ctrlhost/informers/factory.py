"""Informers for a whole host: one per kind and scope, shared and reference-counted."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ctrlhost import _core
from ctrlhost.clock import SystemClock
from ctrlhost.duration import in_seconds
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.caller import Caller
from ctrlhost.informers.declarations import scope_of, served_scope, union
from ctrlhost.informers.informer import Informer
from ctrlhost.informers.kind_watch import API_VERSION, KIND, KindWatch, is_custom
from ctrlhost.informers.metrics import InformerMetrics
from ctrlhost.informers.namespace_follower import NamespaceFollower
from ctrlhost.informers.namespace_informer import NamespaceInformer, Reads, Scope, Transform
from ctrlhost.informers.namespace_informers import NamespaceInformers
from ctrlhost.informers.owner_kinds import OwnerKinds
from ctrlhost.informers.resync import Resyncer
from ctrlhost.informers.sharing import Sharing
from ctrlhost.informers.view import View
from ctrlhost.reflector.options import ReflectorOptions
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.duration import DurationLike
    from ctrlhost.entries import Entries
    from ctrlhost.informers.held_ranges import HeldRanges
    from ctrlhost.reflector.shard import ShardBy

log = logging.getLogger(__name__)


class InformerFactory:
    """Creates and shares informers, as client-go's `SharedInformerFactory`: equal requests return the same informer.

        factory = InformerFactory(client)
        pods = factory.informer("v1", "Pod")
        with factory:
            factory.wait_for_sync(30)
            pods.lister.list("default")

    As a context manager it starts the informers requested so far, and stops all of them at the end. All methods may be
    called from any thread.
    """

    #: Whether an informer that has not started may keep more for another user, in place of a second watch.
    _may_widen = True

    def __init__(
        self,
        client: Client,
        resync: DurationLike | None = None,
        *,
        clock: Clock | None = None,
        options: ReflectorOptions | None = None,
        on_error: Callable[[str, Exception], None] | None = None,
        entries: Entries | None = None,
    ) -> None:
        """Start empty; `resync` is a duration, None for never. Each failed list or watch calls `on_error(key, error)`.

        Functions that are added without the caller of a plugin run on threads of the factory; `entries` watch them.
        """
        self._client = client
        self._clock = clock or SystemClock()
        self._options = options or ReflectorOptions()
        self._resync = None if resync is None else in_seconds(resync)
        budget = self._options.memory_budget
        #: What the objects of all informers may take; None for any amount.
        self.budget = None if budget is None else _core.MemoryBudget(budget)
        self._on_error = on_error
        self._lock = threading.Lock()
        self._progress = threading.Condition()
        self._sharing = Sharing(may_widen=self._may_widen)
        self._caller = Caller("informers", entries)
        #: Calls the factory's own handlers, which no handler of a user may hold up.
        self._own = Caller("factory")
        self._owners = OwnerKinds(client)
        self._stopped = False
        self._kinds: KindWatch | None = None
        self.resyncer = Resyncer(self._clock, self._parts)
        self._ranges: HeldRanges | None = None
        self._ranges_lock = threading.Lock()
        #: A collector for prometheus-client.
        self.metrics = InformerMetrics(self.informers, self.budget)

    @property
    def ranges(self) -> HeldRanges:
        """What its sharded informers hold."""
        with self._ranges_lock:
            if self._ranges is None:
                from ctrlhost.informers.held_ranges import HeldRanges

                self._ranges = HeldRanges(self._watched, self._clock)
            return self._ranges

    def declare(
        self,
        api_version: str,
        kind: str,
        *,
        namespaces: Sequence[str] | NamespaceSelector | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        reads: Reads | Sequence[str] = None,
        owner: Hashable = None,
        shard_by: ShardBy | None = None,
    ) -> None:
        """Declare future reads of a kind, so that one shared informer keeps enough for all of its users.

        They count until `withdraw` is called with the same `owner`.
        """
        scope = scope_of(
            api_version,
            kind,
            namespaces=namespaces,
            label_selector=label_selector,
            field_selector=field_selector,
            reads=reads,
            shard_by=shard_by,
        )
        self.declare_scope(scope, owner)

    def declare_scope(self, scope: Scope, owner: Hashable = None) -> None:
        """Declare future reads of a scope; see `declare`."""
        base = self._base(scope)
        with self._lock:
            self._sharing.declare(base, scope.reads, owner)
        self._retry_over_budget()

    def withdraw(self, owner: Hashable) -> None:
        """Forget what `owner` has declared; informers that exist stay as they are."""
        with self._lock:
            self._sharing.declared.withdraw(owner)

    def informer(
        self,
        api_version: str,
        kind: str,
        *,
        namespaces: Sequence[str] | NamespaceSelector | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        reads: Reads | Sequence[str] = None,
        transform: Transform = None,
        caller: Caller | None = None,
        shard_by: ShardBy | None = None,
    ) -> Informer:
        """Return the shared informer of a kind; call its `release` when done, and `start` on the factory to run it.

        `namespaces` None is all of them; otherwise they are selected by name, by glob, or as `label:SELECTOR`, and
        followed: the objects of a removed namespace count as deleted. `reads` is the part of each object to keep: None
        for all of it, "metadata", or paths such as "spec.rules"; the informer may keep more, for other users.
        `transform` returns the object to keep for an object; such an informer has a watch of its own, and belongs to
        the plugin of `caller`. If a wider informer (by namespaces, labels, or a field selector of name or namespace)
        exists or was declared, the result is a view of that one. With `shard_by` the informer has a watch of its own
        and holds the objects whose hash is in the ranges of `ranges.hold`, by their namespace, name or uid, or by the
        uid of the owner that controls them.

        CtrlhostError once the factory has stopped; TypeError or ValueError for invalid arguments.
        """
        scope = scope_of(
            api_version,
            kind,
            namespaces=namespaces,
            label_selector=label_selector,
            field_selector=field_selector,
            reads=reads,
            shard_by=shard_by,
        )
        return self.share(replace(scope, transform=transform, owner=None if transform is None else caller))

    def share(self, scope: Scope) -> Informer:
        """Return the shared informer of a scope; see `informer`."""
        base, wanted = self._base(scope), scope.reads
        with self._lock:
            if self._stopped:
                raise CtrlhostError(f"cannot create an informer of {scope.kind}: the factory was stopped")
            if scope.transform is None:
                wanted = union(self._sharing.declared.reads(base), wanted)
            return self._get(replace(base, reads=wanted, transform=scope.transform, owner=scope.owner))

    def _base(self, scope: Scope) -> Scope:
        """Return the objects of a scope, whatever is kept of each."""
        return replace(served_scope(self._client.resources, scope), reads=None, transform=None, owner=None)

    def _missing(self, scope: Scope) -> None:
        """Watch CRDs, since the server does not serve a custom kind; called by the kind's reflector."""
        if not is_custom(scope):
            return
        with self._lock:
            informer = self._sharing.informers.get(scope)
            if self._stopped or informer is None:
                return
            if self._kinds is None:
                crds = self._get(Scope(API_VERSION, KIND, reads="metadata"), optional=True)
                self._kinds = KindWatch(crds, self._watched, self._client.resources, self._own)
            kinds = self._kinds
            self._sharing.started.add(kinds.crds.scope)
        kinds.crds.start()
        kinds.missing(informer)

    def _watched(self) -> list[Informer]:
        return [informer for informer in self.informers() if not isinstance(informer, View)]

    def _get(self, scope: Scope, *, optional: bool = False) -> Informer:
        """Return an informer, existing or new, or a view of a wider one, and count a user; requires the lock."""
        informer = self._sharing.serving(scope)
        if informer is None:
            informer = self._view(scope) or self._make(scope, optional=optional)
            informer._release = self._release  # noqa: SLF001 - the factory counts the users of what it makes
            self._sharing.informers[scope] = informer
        informer.users += 1
        return informer

    def _view(self, scope: Scope) -> View | None:
        known = self._sharing.wider(scope)
        if known is not None:
            informer, selection = known
            informer.users += 1
            return View(scope, self._sharing.key(scope), informer, selection)
        wider = self._sharing.declared.wider(replace(scope, reads=None))
        if wider is None:
            return None
        declared, selection = wider
        wide = self._get(replace(declared, reads=union(self._sharing.declared.reads(declared), scope.reads)))
        return View(scope, self._sharing.key(scope), wide, selection)

    def _make(self, scope: Scope, *, optional: bool) -> Informer:
        key, chosen, on_error = self._sharing.key(scope), scope.namespaces, self._on_error

        def make_part(parts: NamespaceInformers, namespace: str) -> NamespaceInformer:
            return NamespaceInformer(
                self._client,
                scope,
                namespace,
                self._clock,
                self._options,
                budget=self.budget,
                caller=scope.owner or self._caller,
                resync=self._resync,
                compression=self._options.compressions.of(scope.api_version, scope.kind),
                on_change=self._notify,
                on_error=None if on_error is None else lambda error: on_error(key, error),
                cluster_scoped=lambda: parts.keep_one(namespace),
                missing=lambda: self._missing(scope),
                optional=optional,
                shard=None if scope.shard_by is None else self.ranges.source(scope.shard_by, namespace),
            )

        def widen(wider: Scope) -> None:
            nonlocal scope
            scope = wider
            for part in parts.now:
                part.widen(wider)

        parts = NamespaceInformers(make_part, [""] if chosen is None else chosen if isinstance(chosen, tuple) else ())
        follower = None
        if isinstance(chosen, NamespaceSelector):
            namespaces = self._get(Scope("v1", "Namespace", reads="metadata"))
            follower = NamespaceFollower(chosen, namespaces, parts, self._own)
        return Informer(
            scope,
            key,
            parts,
            self._client,
            self._clock,
            follower,
            caller=scope.owner or self._caller,
            owners=self._owners,
            optional=optional,
            beside=self._sharing.narrower(scope),
            widen=widen,
        )

    def _release(self, informer: Informer) -> None:
        with self._lock:
            if self._sharing.informers.get(informer.scope) is not informer:
                return
            informer.users -= 1
            if informer.users > 0:
                return
            del self._sharing.informers[informer.scope]
            self._sharing.started.discard(informer.scope)
            kinds = self._kinds
            if kinds is not None and not any(is_custom(scope) for scope in self._sharing.informers):
                self._kinds = None
            else:
                kinds = None
        log.debug("stopping %s: no users left", informer.key)
        informer.stop()
        if isinstance(informer, View):
            informer.wide.release()
        elif informer.follower is not None:
            informer.follower.namespaces.release()
        if kinds is not None:
            kinds.stop()
            kinds.crds.release()
        self._retry_over_budget()

    def set_memory_budget(self, budget: int) -> None:
        """Change the memory budget, in bytes; ValueError for 0. Without one since the start, nothing happens.

        A lower one takes away nothing that is cached.
        """
        if self.budget is not None and self.budget.limit != budget:
            self.budget.limit = budget
            self._retry_over_budget()

    def _retry_over_budget(self) -> None:
        """List again where the memory budget may have room now."""
        if self.budget is None:
            return
        for informer in self._watched():
            if informer.state == "over budget":
                informer.wake()

    def informers(self) -> list[Informer]:
        """Return the informers in use."""
        with self._lock:
            return list(self._sharing.informers.values())

    def start(self) -> None:
        """Start the requested informers that are not running; call it again after further requests."""
        with self._lock:
            if self._stopped:
                return
            fresh = [
                (scope, informer)
                for scope, informer in self._sharing.informers.items()
                if scope not in self._sharing.started
            ]
            self._sharing.started.update(scope for scope, _ in fresh)
        for _, informer in fresh:
            informer.start()
        self.resyncer.start()

    def wake(self, group: str) -> None:
        """Retry the waiting informers of an API group at once, for example after its CRDs were installed."""
        self._owners.wake()
        for informer in self.informers():
            if informer.state == "waiting" and informer.scope.api_version.rpartition("/")[0] == group:
                informer.wake()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until all started informers, and the queues that they fill, have their first list; False at `timeout`.

        Logs the informers that are late, and those requested after `start`, for which it does not wait. The seconds are
        real ones whatever the factory's clock: the network does not follow it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            idle = sorted(
                informer.key
                for scope, informer in self._sharing.informers.items()
                if scope not in self._sharing.started
            )
        if idle:
            log.warning("not waiting for informers requested after start(): %s", ", ".join(idle))
        while True:
            with self._progress:
                late = self._late()
                if not late:
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                if self._stopped or (left is not None and left <= 0):
                    break
                # Listeners do not report their progress, so it is polled.
                self._progress.wait(0.1 if left is None else min(left, 0.1))
        log.warning("timed out waiting for %s", ", ".join(late))
        return False

    def _late(self) -> list[str]:
        with self._lock:
            started = [
                informer for scope, informer in self._sharing.informers.items() if scope in self._sharing.started
            ]
        return sorted(
            f"{informer.key} ({informer.state})"
            for informer in started
            if not informer.has_filled_queues and not informer.optional
        )

    def stop(self, timeout: float = 5.0) -> None:
        """Stop all informers for good, and wait at most `timeout` seconds for threads. May be repeated."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopped = True
            informers = list(self._sharing.informers.values())
        self.resyncer.stop()
        self._owners.stop()
        # Cut all streams first, so that the threads end concurrently.
        for informer in informers:
            for part in informer.parts:
                part.reflector.stop()
        for informer in informers:
            informer.stop(max(deadline - time.monotonic(), 0.0))
        for caller in (self._caller, self._own):
            caller.stop(max(deadline - time.monotonic(), 0.0))
        self._notify()

    def __enter__(self) -> Self:
        """Start the informers requested so far."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all informers."""
        self.stop()

    def _notify(self) -> None:
        budget = self.budget
        if budget is not None and budget.take_warning():
            log.warning("informers use %s of the memory budget of %s bytes", f"{budget.used:,}", f"{budget.limit:,}")
        with self._progress:
            self._progress.notify_all()

    def _parts(self) -> list[Any]:
        return [part for informer in self._watched() for part in informer.parts]
