"""A controller: sources that fill a queue, workers that empty it."""

from __future__ import annotations

import inspect
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.async_worker import AsyncWorkers
from ctrlhost.controller.attachment import (
    Primary,
    attach_source,
    declare_source,
    listers_of,
    primary_lister,
    requests_of_primary,
)
from ctrlhost.controller.context import ControllerScope
from ctrlhost.controller.declaration import check_declaration, describe_source
from ctrlhost.controller.leader_gate import LeaderGate
from ctrlhost.controller.results import Outcomes
from ctrlhost.controller.sources import Every, For
from ctrlhost.controller.ticker import Ticker
from ctrlhost.controller.watchdog import Watchdog
from ctrlhost.controller.worker import Worker
from ctrlhost.errors import NotLeading, NotSynced
from ctrlhost.own_writes.self_events import SelfEvents
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.controller.attachment import Attachment
    from ctrlhost.controller.metrics import ControllerCounts
    from ctrlhost.controller.options import ControllerOptions
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.controller.sources import KindSource, Source


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """What a controller is doing, for pages and health checks."""

    name: str
    #: Whether the caches and handlers of all sources have their first list.
    synced: bool
    #: Why the controller can not sync yet: a kind that is not served, a right that is missing; None otherwise.
    waiting: str | None
    #: How many workers have been started; 0 before the start.
    workers: int
    active: int
    queued: int
    runs: int
    errors: int
    last_error: str | None
    sources: tuple[str, ...]


class Controller:
    """One reconciler with its sources, queue and workers. Constructing it starts nothing and needs no network.

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
        """Check what was declared; PluginLoadError says what is wrong with it."""
        self.name = f"{plugin.name}/{name}"
        self.sources = tuple(sources)
        self.options = options
        check_declaration(plugin.name, name, reconcile, self.sources)
        self._plugin = plugin
        self._reconcile = reconcile
        #: Decided once: whether runs are tasks on the plugin's loop, or calls on threads.
        self.is_async = inspect.iscoroutinefunction(reconcile) or inspect.iscoroutinefunction(
            getattr(reconcile, "__call__", None)  # noqa: B004 - asks for the method itself, to see how it is defined
        )
        self._lock = threading.Lock()
        self._queue: WorkQueue | None = None
        self._attachments: list[Attachment] | None = None
        self._tickers: list[Ticker] = []
        self._threads: list[threading.Thread] = []
        self._outcomes: Outcomes | None = None
        self._counts: ControllerCounts | None = None
        self._watchdog: Watchdog | None = None
        electing = options.needs_leader and plugin.services.elects
        self._gate = LeaderGate(plugin.services.leading) if electing else None
        self._echoes = SelfEvents() if options.suppress_echo else None

    @property
    def queue(self) -> WorkQueue:
        """The queue, made when it is first needed."""
        with self._lock:
            return self._made_queue()

    @property
    def informers(self) -> tuple[Any, ...]:
        """The informers that the controller is attached to, one per source that watches a kind."""
        return tuple(one.informer for one in self._attachments or ())

    @property
    def handlers(self) -> tuple[Any, ...]:
        """The handles of the queue's handlers on those informers."""
        return tuple(one.handle for one in self._attachments or () if one.handle is not None)

    def declare(self) -> None:
        """Say to the factory what the sources will read, before any of them attaches."""
        for source in self.sources:
            if not isinstance(source, Every):
                declare_source(self._plugin, source, self._namespaces())

    def attach(self) -> None:
        """Ask the factory for the informers and let them fill the queue; a second call does nothing."""
        with self._lock:
            if self._attachments is not None:
                return
            queue = self._made_queue()
            sources = [one for one in self.sources if not isinstance(one, Every)]
            attached: dict[int, Attachment] = {}
            primary: Primary | None = None
            try:
                # The kind that is reconciled comes first, since others may look into its indexes.
                for at in sorted(range(len(sources)), key=lambda at: not isinstance(sources[at], For)):
                    source = sources[at]
                    if isinstance(source, For):
                        primary = Primary(source, None)
                    attached[at] = self._attach(source, queue, primary)
                    if isinstance(source, For):
                        primary = Primary(source, attached[at].informer)
            except BaseException:
                for one in attached.values():
                    one.release()
                raise
            self._attachments = [attached[at] for at in sorted(attached)]

    def has_synced(self) -> bool:
        """Say whether every source's first list is in the cache and was handed to the queue."""
        return self._attachments is not None and all(one.has_synced() for one in self._attachments)

    def waiting(self) -> str | None:
        """Say what the controller waits for before it can sync: a kind that is not served, a right that is missing."""
        for one in self._attachments or ():
            if one.informer.state == "waiting":
                return f"{one.source.kind} ({one.source.api_version}): {one.informer.reason}"
        return None

    def wait_for_sync(self, timeout: float = 120.0, stop: threading.Event | None = None) -> bool:
        """Wait until `has_synced`; False when `stop` is set first, NotSynced after `timeout` real seconds."""
        deadline = time.monotonic() + timeout
        pause = stop or threading.Event()
        while not self.has_synced():
            if time.monotonic() >= deadline:
                behind = ", ".join(one.describe() for one in self._attachments or () if not one.has_synced())
                message = f"controller {self.name}: timed out waiting for caches to sync: {behind or 'not attached'}"
                raise NotSynced(message)
            if pause.wait(0.005):
                return False
        return True

    def start_workers(self) -> None:
        """Start the workers and timers; RuntimeError when they were started before."""
        with self._lock:
            if self._counts is not None:
                raise RuntimeError(f"controller {self.name} was started already")
            queue, services, options = self._made_queue(), self._plugin.services, self.options
            self._counts = services.metrics.controller(self.name, options.workers)
            self._outcomes = Outcomes(self.name, queue, options.timeout)
            self._watchdog = Watchdog(self.name, queue, services.clock, options.timeout)
            self._threads = self._make_threads(self._scope(queue), self._outcomes, self._counts, self._watchdog)
            self._tickers = [
                Ticker(self.name, source, lambda: requests_of_primary(self._attachments or ()), queue, services.clock)
                for source in self.sources
                if isinstance(source, Every)
            ]
        for thread in self._threads:
            thread.start()
        for ticker in self._tickers:
            ticker.start()

    def resume(self) -> None:
        """Let the workers go on where they stopped because this replica ceased to lead."""
        if self._gate is not None:
            self._gate.resume()

    def stop_intake(self) -> None:
        """Take no new keys: handlers are removed, timers stopped, later adds ignored. What is queued is still run."""
        for ticker in self._tickers:
            ticker.stop()
        for one in self._attachments or ():
            one.detach()
        self.queue.shut_down()
        if self._gate is not None:
            self._gate.end()

    def drain(self, timeout: float) -> bool:
        """Wait until all that was queued has run, and say whether it did within `timeout` real seconds.

        Delays that are not over are dropped. A worker that does not come back is left behind. The informers are
        released either way.
        """
        self.stop_intake()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        drained = not any(thread.is_alive() for thread in self._threads)
        if self._watchdog is not None:
            self._watchdog.stop()
        for one in self._attachments or ():
            one.release()
        # Without workers, on a replica that never led, nothing was begun and nothing is lost.
        return drained and (not self._threads or len(self.queue) == 0)

    def busy(self) -> str | None:
        """Say what the controller is at, now or by the clock at once; None when it is idle. For tests."""
        if self._counts is None:
            if self._may_work() and self.has_synced() and not self.queue.shutting_down:
                return f"controller {self.name}: its workers are about to start"
            return None
        if not self._may_work() and not self._counts.total().active:
            return None
        # Asking for its length first makes the queue take up what is due by its clock.
        queued, snapshot = len(self.queue), self.queue.snapshot()
        active = self._counts.total().active
        due = sum(ticker.due for ticker in self._tickers)
        if not (queued or snapshot.queued or snapshot.processing or active or due):
            return None
        keys = [one.key for one in snapshot.processing] + [one.key for one in snapshot.queued]
        return f"controller {self.name}: {queued} queued, {active} active, {due} timers due; {keys[:10]}"

    def status(self) -> ControllerStatus:
        """Describe the controller as it is now."""
        total = self._counts.total() if self._counts is not None else None
        return ControllerStatus(
            name=self.name,
            synced=self.has_synced(),
            waiting=self.waiting(),
            workers=self.options.workers if total is not None else 0,
            active=total.active if total else 0,
            queued=len(self.queue),
            runs=total.runs if total else 0,
            errors=total.errors if total else 0,
            last_error=self._outcomes.last_error if self._outcomes else None,
            sources=tuple(describe_source(source) for source in self.sources),
        )

    def _attach(self, source: KindSource, queue: WorkQueue, primary: Primary | None) -> Attachment:
        return attach_source(self._plugin, source, queue, primary, self._namespaces(), self._echoes)

    def _namespaces(self) -> Sequence[str]:
        limit = self.options.namespaces
        return self._plugin.services.namespaces if limit is None else limit

    def _made_queue(self) -> WorkQueue:
        """Make the queue if there is none; expects the lock."""
        if self._queue is None:
            limiter = self.options.rate_limiter or ItemExponentialFailureRateLimiter(
                self.options.base_delay, self.options.max_delay
            )
            clock: Any = self._plugin.services.clock
            self._queue = WorkQueue(self.name, rate_limiter=limiter, clock=clock)
        return self._queue

    def _scope(self, queue: WorkQueue) -> ControllerScope:
        plugin, services = self._plugin, self._plugin.services
        attachments = self._attachments or []
        client = plugin.writing_client(self._forbid_writes, self._echoes)
        return ControllerScope(
            plugin=plugin.name,
            controller=self.name,
            queue=queue,
            client=client,
            async_client=plugin.async_client(client),
            events=plugin.events,
            log=plugin.log,
            clock=services.clock,
            leading=services.leading,
            stopping=services.stopping,
            primary=primary_lister(attachments),
            listers=listers_of(attachments),
        )

    def _forbid_writes(self) -> None:
        """Refuse a write of a controller that needs to lead and does not."""
        if not self._may_work():
            raise NotLeading(f"controller {self.name} writes nothing: this replica does not lead")

    def _may_work(self) -> bool:
        return not self.options.needs_leader or self._plugin.services.leading()

    def _make_threads(
        self, scope: ControllerScope, outcomes: Outcomes, counts: ControllerCounts, watchdog: Watchdog
    ) -> list[threading.Thread]:
        count = self.options.workers
        if self.is_async:
            pool = AsyncWorkers(
                count, self._reconcile, scope, outcomes, counts.worker(), watchdog, self._plugin.loop, self._gate
            )
            watchdog.watch(pool.runs)
            return [threading.Thread(target=pool.run, name=f"{self.name} feeder", daemon=True)]
        workers = [
            Worker(index, self._reconcile, scope, outcomes, counts.worker(), watchdog, self._gate)
            for index in range(count)
        ]
        watchdog.watch(workers)
        return [
            threading.Thread(target=worker.run, name=f"{self.name} worker {index}", daemon=True)
            for index, worker in enumerate(workers)
        ]
