"""A controller: sources that fill a queue, and workers that empty it."""

from __future__ import annotations

import inspect
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.controller.addresses import NAME_RULE, is_name
from ctrlhost.controller.async_worker import AsyncWorkers
from ctrlhost.controller.attachment import Attachment, AttachScope
from ctrlhost.controller.backoff import BackoffLimiter
from ctrlhost.controller.context import ControllerScope
from ctrlhost.controller.history import History
from ctrlhost.controller.hot_loops import HotLoops
from ctrlhost.controller.metrics import WorkerCounts
from ctrlhost.controller.pauses import Pause
from ctrlhost.controller.pool import Workers
from ctrlhost.controller.results import Results
from ctrlhost.controller.retries import RetryLimiter
from ctrlhost.controller.severity import Outcomes
from ctrlhost.controller.source import Source
from ctrlhost.controller.watchdog import Watchdog
from ctrlhost.controller.worker import LeaderGate, WorkerScope
from ctrlhost.errors import NotSynced, PluginLoadError
from ctrlhost.informers.indexers import ViewIndexer
from ctrlhost.own_writes.self_events import SelfEvents
from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.config.settings import ControllerOverrides
    from ctrlhost.controller.metrics import ControllerCounts
    from ctrlhost.controller.options import ControllerOptions
    from ctrlhost.controller.pauses import Paused
    from ctrlhost.controller.pool import Pool
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.controller.shard_gate import ShardGate
    from ctrlhost.controller.watchdog import RunningKey, Watched
    from ctrlhost.coordination.ownership import Span
    from ctrlhost.entries import Entry
    from ctrlhost.informers import Informer
    from ctrlhost.informers.handle import Handle
    from ctrlhost.request import Request

#: Seconds between two counts of the objects in a part of a cache.
_COUNT_EVERY = 10.0


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """The state of a controller, for pages and health checks."""

    name: str
    #: Whether the caches and handlers of all sources have their first list.
    synced: bool
    #: The reason why the controller cannot sync for now, such as a kind that is not served or a missing permission.
    waiting: str | None
    #: The number of workers; 0 before they start.
    workers: int
    active: int
    paused: bool
    queued: int
    runs: int
    errors: int
    last_error: str | None
    sources: tuple[str, ...]


class Controller:
    """One reconciler with its sources, queue and workers. Creating it starts nothing and needs no network.

    The host calls `attach`, waits for `has_synced`, then calls `start_workers`; to stop, `stop_intake` and `drain`.
    """

    def __init__(
        self,
        plugin: PluginScope,
        name: str,
        reconcile: Callable[..., Any],
        sources: Sequence[Source],
        options: ControllerOptions,
    ) -> None:
        """Check the declaration; PluginLoadError if it is invalid."""
        self.name = f"{plugin.name}/{name}"
        self.sources = tuple(sources)
        #: As the plugin declared them, with the operator's overrides.
        self.options = options.overridden(plugin.services.controller_overrides.get(self.name))
        self._declared = options
        self._plugin = plugin
        self._reconcile = reconcile
        self._check(name, sources)
        #: Whether runs are tasks on the plugin's loop instead of calls on threads.
        self.is_async = inspect.iscoroutinefunction(reconcile) or inspect.iscoroutinefunction(
            getattr(reconcile, "__call__", None)  # noqa: B004 - inspects how the method is defined
        )
        self._lock = threading.RLock()
        self._queue: WorkQueue | None = None
        self._limiter: RetryLimiter | None = None
        self._attached: AttachScope | None = None
        self._attachments: list[Attachment] = []
        self._pool: Pool | None = None
        self._results: Results | None = None
        self._counts: ControllerCounts | None = None
        self._watchdog: Watchdog | None = None
        self._hot_loops: HotLoops | None = None
        self._gate = self._make_gate()
        self._shards: ShardGate | None = None
        self._pause = Pause(self.name, plugin.services.pauses, paused=self.options.paused)
        echoes = options.suppress_echo or any(getattr(source, "suppress_echo", None) for source in sources)
        self._self_events = SelfEvents() if echoes else None
        #: When the objects of a part of a cache were counted, and how many there were.
        self._counted = (float("-inf"), 0)
        #: The last runs, and the failing keys.
        self.history = History(self.name, plugin.services.clock, plugin.services.errors)
        #: Held while the sources' predicates run to explain why a key is not being reconciled.
        self.explaining = threading.Lock()

    def _check(self, name: str, sources: Sequence[Any]) -> None:
        plugin, own = self._plugin.name, f"controller `{self.name}`"
        if not is_name(name):
            message = f"plugin `{plugin}`: {name!r} cannot be the name of a controller"
            raise PluginLoadError(plugin, message, hint=NAME_RULE)
        if not callable(self._reconcile):
            raise PluginLoadError(plugin, f"{own}: the reconciler {self._reconcile!r} cannot be called")
        for source in sources:
            if not isinstance(source, Source):
                hint = "a source is an object such as `ctrlhost.For(…)`"
                raise PluginLoadError(plugin, f"{own}: invalid source {source!r}", hint=hint)
            if problem := source.check(sources):
                raise PluginLoadError(plugin, f"{own}: {problem}")
        if (by := self.options.shard_by) is not None:
            from ctrlhost.controller.shard_rules import shard_problem

            resources = self._plugin.services.client.resources
            if unfit := shard_problem(by, self.sources, self.options.needs_leader, resources):
                raise PluginLoadError(plugin, f"{own}: {unfit.text}", hint=unfit.hint)

    @property
    def sharded(self) -> bool:
        """Whether the replicas share its keys."""
        return self.options.shard_by is not None and self._plugin.services.shards is not None

    @property
    def shards(self) -> ShardGate | None:
        """What admits its runs while replicas share its keys; None before the workers start."""
        return self._shards

    @property
    def awaits_leadership(self) -> bool:
        """Whether it runs only on the leader."""
        return self.options.needs_leader and not self.sharded

    def _make_gate(self) -> LeaderGate | None:
        services = self._plugin.services
        if self.sharded and services.shards is not None:
            # While the membership is suspended, keys stay queued.
            return LeaderGate(services.shards.tenure)
        elects = self.options.needs_leader and services.candidacy.elects
        return LeaderGate(services.candidacy.tenure) if elects else None

    @property
    def queue(self) -> WorkQueue:
        """The queue, created on first use."""
        with self._lock:
            if self._queue is None:
                services = self._plugin.services
                clock, qps = services.clock, services.supervision(self._plugin.name).retry_qps
                own, opened = self._own_limiter()
                limiter = RetryLimiter(own, qps, self.options.backoff, clock, services.jitter, opened)
                self._limiter = limiter
                self._queue = WorkQueue(self.name, rate_limiter=limiter, clock=cast("Any", clock))
            return self._queue

    def _own_limiter(self) -> tuple[Any, Callable[[], Entry] | None]:
        """Return the controller's own rate limiter, and what opens the entry of a call, if it is a plugin's."""
        own = self.options.rate_limiter
        if own is None:
            return BackoffLimiter(self.options.backoff), None
        # A limiter of the plugin may be its own code. The run that it delays counts as a thread that hangs.
        opened = partial(self._plugin.entries.open, "limiter", controller=self.name, costs_thread=False)
        return own, opened

    def _change_delays(self, limiter: RetryLimiter, before: ControllerOptions) -> None:
        options = self.options
        if (before.rate_limiter, before.backoff) == (options.rate_limiter, options.backoff):
            return
        own, opened = self._own_limiter()
        if isinstance(limiter.own, BackoffLimiter) and options.rate_limiter is None:
            # It knows the failures of each key.
            own = limiter.own
            own.backoff = options.backoff
        limiter.change(own, options.backoff, opened)

    def override(self, overrides: ControllerOverrides | None) -> None:
        """Replace the operator's overrides; the namespaces, the pause and `shard_by` stay as they are.

        A run in progress ends by the new limits. Keys that wait for their back-off do so as they were told.
        """
        with self._lock:
            before, after = self.options, self._declared.overridden(overrides)
            self.options = options = replace(
                after, namespaces=before.namespaces, paused=before.paused, shard_by=before.shard_by
            )
            if self._limiter is not None:
                self._change_delays(self._limiter, before)
            if self._pool is None or self._counts is None or self._results is None or self._watchdog is None:
                return
            self._counts.workers, self._results.timeout = options.workers, options.timeout
            self._watchdog.set_limits(options.timeout, options.slow_after)
            self._watchdog.notify()
            self._pool.resize(options.workers)

    @property
    def informers(self) -> tuple[Any, ...]:
        """The informers that the controller is attached to, one per source that watches a kind."""
        return tuple(attachment.informer for attachment in self._attachments if attachment.informer is not None)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The attached sources."""
        return tuple(self._attachments)

    @property
    def handlers(self) -> tuple[Any, ...]:
        """The handles of the queue's handlers on those informers."""
        return tuple(attachment.handle for attachment in self._attachments if attachment.handle is not None)

    @property
    def uses(self) -> list[tuple[Informer, Handle | None]]:
        """The informers that the controller is attached to, each with the handle of its handler, if it has one."""
        return [
            (attachment.informer, attachment.handle)
            for attachment in self._attachments
            if attachment.informer is not None
        ]

    def declare(self) -> None:
        """Declare the future reads of the sources to the informer factory, before any source attaches."""
        for source in self.sources:
            source.declare(self._plugin, self._limit(), self.options.shard_by if self.sharded else None)

    def attach(self) -> None:
        """Attach the sources to their informers and the queue; a second call, or one after a stop, does nothing."""
        with self._lock:
            if self._attached is not None or self.queue.shutting_down:
                return
            services = self._plugin.services
            scope = AttachScope(
                self._plugin,
                self.name,
                self.queue,
                self._limit(),
                self._self_events,
                self.options.suppress_echo,
                shard_by=self.options.shard_by if self.sharded else None,
            )
            attachments: list[Attachment] = []
            try:
                # The reconciled kind comes first, since other sources may use its indexes.
                for source in sorted(self.sources, key=lambda source: not source.is_primary):
                    attachments.append(source.attach(scope))  # noqa: PERF401 - those before a failing one are released
            except BaseException:
                for attachment in attachments:
                    attachment.release()
                raise
            self._attached, self._attachments = scope, attachments
            if self.options.shard_by is not None and services.shards is not None:
                from ctrlhost.controller.shard_gate import ShardGate

                ownership, by = services.shards.ownership, self.options.shard_by
                scope.shards = self._shards = ShardGate(ownership, by, self.queue, self.history, scope.uid_of)

    def has_synced(self) -> bool:
        """Return whether every source's first list is in the cache and was passed to the queue."""
        return self._attached is not None and all(attachment.has_synced() for attachment in self._attachments)

    def waiting(self) -> str | None:
        """Return why the controller cannot sync for now, such as a kind not served or a missing permission, or None."""
        return next((why for attachment in self._attachments if (why := attachment.waiting())), None)

    def wait_for_sync(self, timeout: float = 120.0, stop: threading.Event | None = None) -> bool:
        """Wait until `has_synced`; False when `stop` is set first, NotSynced after `timeout` real seconds."""
        deadline = time.monotonic() + timeout
        pause = stop or threading.Event()
        while not self.has_synced():
            if time.monotonic() >= deadline:
                behind = ", ".join(
                    attachment.describe() for attachment in self._attachments if not attachment.has_synced()
                )
                message = f"controller {self.name}: timed out waiting for caches to sync: {behind or 'not attached'}"
                raise NotSynced(message)
            if pause.wait(0.005):
                return False
        return True

    def start_workers(self) -> None:
        """Start the workers and timers, but not after a stop; RuntimeError if they were started before."""
        with self._lock:
            if self._counts is not None:
                raise RuntimeError(f"controller {self.name} is already started")
            if self.queue.shutting_down:
                return
            queue, services = self.queue, self._plugin.services
            # They may have changed since the controller was made.
            self.override(services.controller_overrides.get(self.name))
            options = self.options
            self._counts = services.metrics.controller(self.name, options.workers)
            self._results = Results(
                self.name, queue, options.timeout, self.history, lambda: self._plugin.rights, services.plugins
            )
            self._watchdog = Watchdog(
                self.name, queue, services.clock, self._plugin.entries, options.timeout, options.slow_after
            )
            self._counts.longest, self._counts.working = self._watchdog.longest, self._may_work
            self._counts.outcomes, self._counts.causes = self.outcomes, self.history.causes
            if services.supervision(self._plugin.name).hot_loop:
                self._hot_loops = self._find_hot_loops(queue, self._counts)
            scope = self._scope(queue, self._results, self._watchdog)
            if self.is_async:
                self._pool = AsyncWorkers(options.workers, scope, self._counts.worker())
            else:
                self._pool = Workers(options.workers, scope, self._counts)
            # Nobody could pause the controller itself while its plugin was set up.
            self._pause.renew()
            self._pool.start()
            for attachment in self._attachments:
                attachment.start()

    @property
    def paused(self) -> bool:
        """Whether the workers begin no reconcile, because of `pause` or the setting `paused`."""
        return self._pause.paused

    @property
    def pause_state(self) -> Paused | None:
        """Who has paused the controller, and since when; None while it is not paused."""
        return self._pause.state

    def pause(self, by: str = "the host", reason: str = "") -> bool:
        """Begin no further reconcile; those that run end, and events are queued and merged. Return whether it is new.

        A restart of the plugin does not end it; `by` says who asked for it.
        """
        return self._pause.pause(by, reason)

    def resume(self) -> bool:
        """End `pause`, also that of the setting. Return whether it was paused."""
        return self._pause.resume()

    def lead(self) -> None:
        """Resume the workers that stopped because this replica lost leadership."""
        if self._gate is not None:
            self._gate.resume()

    def stop_intake(self) -> None:
        """Accept no new keys: remove handlers, stop timers, ignore later adds. Queued keys are still reconciled."""
        # Not beside a start: what begins is also stopped.
        with self._lock:
            for attachment in self._attachments:
                attachment.detach()
            if not self.queue.shutting_down:
                # A second call would end workers that wait for a key that another one holds.
                self.queue.shut_down()
        self._pause.end()
        if self._gate is not None:
            self._gate.end()

    def drain(self, timeout: float) -> bool:
        """Wait until all queued keys are reconciled; return False if that takes over `timeout` real seconds.

        Delayed keys are dropped. A worker that does not return is abandoned: it begins no further run. The informers
        are released either way.
        """
        self.stop_intake()
        pool = self._pool
        drained = pool is None or pool.drain(time.monotonic() + timeout)
        if self._watchdog is not None:
            self._watchdog.stop()
        for attachment in self._attachments:
            attachment.release()
        # Without workers, as on a replica that never led, no work began.
        return drained and (pool is None or len(self.queue) == 0)

    def remove_metrics(self) -> None:
        """Remove the controller's series."""
        if self._counts is not None:
            self._plugin.services.metrics.remove(self._counts)

    @property
    def has_threads(self) -> bool:
        """Whether a worker still runs."""
        return self._pool is not None and self._pool.running

    def busy(self) -> str | None:
        """Return a description of the work in progress or due by the clock; None if there is none. For tests."""
        if self._counts is None:
            if self._may_work() and self.has_synced() and not self.queue.shutting_down:
                return f"controller {self.name}: its workers are about to start"
            return None
        if not self._may_work() and not self._counts.total().active:
            return None
        # Timers first: one that fires queues its requests before it is no longer due.
        now = self._plugin.services.clock.now()
        due = sum(attachment.due_at <= now for attachment in self._attachments)
        # Reading the length moves delayed keys that are due into the queue.
        queued, summary = len(self.queue), self.queue.summary(10)
        active = self._counts.total().active
        if not (queued or summary.queued or summary.processing or active or due):
            return None
        keys = [item.key for item in summary.first.processing] + [item.key for item in summary.first.queued]
        return f"controller {self.name}: {queued} queued, {active} active, {due} timers due; {keys[:10]}"

    def status(self) -> ControllerStatus:
        """Return the controller's current state."""
        started = self._counts is not None
        total = self._counts.total() if self._counts is not None else WorkerCounts()
        return ControllerStatus(
            name=self.name,
            synced=self.has_synced(),
            waiting=self.waiting(),
            workers=self.options.workers if started else 0,
            active=total.active,
            paused=self.paused,
            queued=len(self.queue),
            runs=total.runs,
            errors=total.errors,
            last_error=self._results.last_error if self._results else None,
            sources=tuple(source.describe() for source in self.sources),
        )

    @property
    def counts(self) -> ControllerCounts | None:
        """The counts of the runs; None before the workers start."""
        return self._counts

    @property
    def leading(self) -> bool:
        """Whether the controller needs no leadership, or this replica leads; also while it is paused."""
        services = self._plugin.services
        if self.sharded and services.shards is not None:
            return services.shards.tenure.term is not None
        return not self.options.needs_leader or services.candidacy.leading

    def owns(self, request: Request) -> bool:
        """Return whether a run of the request would begin here now, of a controller whose keys replicas share."""
        return self._shards is not None and self._shards.owns(request)

    def owner_of(self, request: Request) -> str:
        """Return in words which replica has the range of a request; for a controller whose keys replicas share."""
        shards, gate = self._plugin.services.shards, self._shards
        if shards is None or gate is None:
            return "this replica has no ranges yet"
        place = gate.place(request)
        if place is None:
            return "no object of this key is cached here, whose uid its range goes by"
        return shards.whose(gate.line, place)

    def opening(self, span: Span) -> None:
        """Begin no run of a range that is about to open, until `opened`."""
        if self._shards is not None:
            self._shards.hold(span)

    def opened(self, spans: Sequence[Span]) -> None:
        """Queue the objects of ranges that have opened, once, after all events; then their runs may begin."""
        shards = self._shards
        if shards is not None and (spans := [span for span in spans if span.line == shards.line]):
            try:
                for attachment in self._attachments:
                    attachment.opened(spans)
            finally:
                shards.release(spans)

    def lost(self, spans: Sequence[Span]) -> None:
        """Forget what is known of the keys of ranges that other replicas have now."""
        if self._shards is not None:
            self._shards.lost(spans)

    @property
    def leader(self) -> str:
        """The identity of the replica that leads for the controller; empty if that is unknown."""
        return self._plugin.services.candidacy.leader()

    @property
    def primary(self) -> Informer | None:
        """The informer of `For`; None without one, and before `attach`."""
        return self._attached.primary if self._attached is not None else None

    def running(self) -> list[RunningKey]:
        """Return the runs in progress, and the keys that wait behind each in its batch."""
        return self._watchdog.running_keys() if self._watchdog is not None else []

    @property
    def working(self) -> bool:
        """Whether the workers have started, are not paused, and need no leadership or have it."""
        return self._counts is not None and self._may_work()

    def running_workers(self) -> list[Watched]:
        """Return the workers, or slots for tasks, that run a reconcile now."""
        return self._watchdog.running() if self._watchdog is not None else []

    def outcomes(self) -> Outcomes:
        """Return the keys by their last runs; there are none on a replica that does not lead."""
        return self.history.outcomes(self._objects()) if self.leading else Outcomes()

    def _objects(self) -> int:
        """Return how many objects of `For` are in the cache; of a part of a cache, which looks at each, seldom."""
        indexer = self.primary.indexer if self.primary is not None else ()
        if not isinstance(indexer, ViewIndexer):
            return len(indexer)
        now, (at, count) = time.monotonic(), self._counted
        if now - at >= _COUNT_EVERY:
            self._counted = now, (count := len(indexer))
        return count

    def without_hot_loop(self) -> bool:
        """Return whether no key has been in a hot loop for a minute."""
        return self._hot_loops is None or self._hot_loops.over()

    def _limit(self) -> Sequence[str]:
        limit = self.options.namespaces
        return self._plugin.services.namespaces if limit is None else limit

    def _reconciler(self, queue: WorkQueue) -> Callable[..., Any]:
        """Return the plugin's reconciler, with spans if there are traces."""
        tracing = self._plugin.services.tracing
        if tracing is None:
            return self._reconcile
        return tracing.reconciler(self._reconcile, self.name, queue, is_async=self.is_async)

    def _find_hot_loops(self, queue: WorkQueue, counts: ControllerCounts) -> HotLoops:
        services, entries = self._plugin.services, self._plugin.entries
        return HotLoops(
            self._reconciler(queue),
            self.name,
            queue,
            counts,
            services.clock,
            services.written,
            entries,
            is_async=self.is_async,
        )

    def _scope(self, queue: WorkQueue, results: Results, watchdog: Watchdog) -> WorkerScope:
        plugin = self._plugin
        listers = self._attached.listers if self._attached is not None else {}
        primary = self._attached.primary if self._attached is not None else None
        needs_leader, awaits = self.options.needs_leader, self.awaits_leadership
        contexts = ControllerScope(
            plugin=plugin,
            controller=self.name,
            queue=queue,
            attempts=self.history.attempts,
            clients=plugin.clients,
            needs_leader=needs_leader,
            self_events=self._self_events,
            # Those of a sharded controller may be sent after its range has moved.
            events=plugin.events if awaits else plugin.replica_events,
            log=plugin.log,
            primary=listers[primary.api_version, primary.kind] if primary is not None else None,
            listers=listers,
            owned=self._attached.owned if self._attached is not None else {},
        )
        return WorkerScope(
            contexts,
            self._reconciler(queue),
            queue,
            results,
            watchdog,
            self.history,
            self._gate,
            self._pause,
            self._shards,
            self._hot_loops,
        )

    def _may_work(self) -> bool:
        return self.leading and not self.paused
