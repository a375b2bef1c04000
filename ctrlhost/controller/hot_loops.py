"""Hot loops: reconciles that only the host's own writes cause, again and again.

Only writes are counted at first, so that a reconcile without them pays nothing. A key with many writing runs is
watched: its queue records the changes that add it, and these are compared with the versions that the host's plugins
wrote. If nobody else causes its runs the key is hot: its next runs wait, until one of them writes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ctrlhost.clock import doubling
from ctrlhost.own_writes.versions import Writer
from ctrlhost.request import Request, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.client.target import Write
    from ctrlhost.clock import Clock
    from ctrlhost.controller.metrics import ControllerCounts
    from ctrlhost.entries import Entries
    from ctrlhost.own_writes.versions import WrittenVersions
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")

#: A key is hot after so many writing runs within so many seconds.
RUNS = 20
SECONDS = 10.0
#: The causes of its runs are recorded after so many of them.
_WATCHED_AFTER = 10
#: Writing runs without a recorded cause: a change that is added late may count for the run before.
_UNEXPLAINED = 2
#: The first wait of a hot key, and the longest, in seconds.
FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
#: How long a run that somebody else caused waits after the one before, in seconds.
_OTHERS_WAIT = 1.0
#: An event may overtake the answer of the write that caused it, by so many seconds.
_ANSWER = 0.1
#: The plugin is no longer degraded after so many seconds without a hot key.
DEGRADED_FOR = 60.0


class Run(Protocol):
    """The worker, the number and the key of a run, which its context has."""

    worker: int
    number: int

    @property
    def request(self) -> Request | None:
        """The key."""


@dataclass(slots=True)
class _Window:
    """The writing runs of a key that is not watched."""

    since: float
    runs: int = 0
    last: tuple[int, int] = (-1, -1)


@dataclass(slots=True)
class _Watched:
    """A key whose causes are recorded."""

    since: float
    runs: int
    hot: bool = False
    #: Writing runs that no recorded change caused.
    unexplained: int = 0
    #: The waits before the next runs of a hot key, when the next one begins, and when the last one began.
    delays: Iterator[float] = field(default_factory=lambda: doubling(FIRST_WAIT, LONGEST_WAIT))
    due: float = 0.0
    began: float = 0.0
    #: When the key comes back from a wait.
    back: float = 0.0
    #: Whether somebody else has changed what the key depends on since its last run.
    others: bool = False
    #: Changes that may be of a write without an answer yet: when they were seen, uid and version.
    unknown: list[tuple[float, str, str]] = field(default_factory=list)
    #: Who wrote what caused the runs, and what they wrote; as an ordered set.
    writers: dict[Writer, None] = field(default_factory=dict)
    #: The last run that wrote.
    wrote: tuple[int, int] = (-1, -1)


class HotLoops:
    """The hot keys of one controller. A key is never reconciled twice at once, so each is handled by one thread."""

    def __init__(
        self,
        reconcile: Callable[..., Any],
        controller: str,
        queue: WorkQueue,
        counts: ControllerCounts,
        clock: Clock,
        written: WrittenVersions,
        entries: Entries,
        *,
        is_async: bool,
    ) -> None:
        """Prepare for the `reconcile` of a controller."""
        #: What workers call for a key; read before each batch.
        self.reconcile = reconcile
        self._plain = reconcile
        self._slowed = self._reconcile_async if is_async else self._reconcile
        self._controller = controller
        self._queue = queue
        self._counts = counts
        self._clock = clock
        self._written = written
        self._entries = entries
        self._lock = threading.Lock()
        #: By the begin of their windows.
        self._windows: OrderedDict[Request, _Window] = OrderedDict()
        self._watched: dict[Request, _Watched] = {}
        self._cooled_at: float | None = None

    def over(self) -> bool:
        """Return whether no key has been hot for 60 seconds."""
        return not self._counts.hot_keys and (
            self._cooled_at is None or self._clock.now() - self._cooled_at >= DEGRADED_FOR
        )

    def wrote(self, context: Run, write: Write) -> None:
        """Note a write of the run in `context` that changed something; called by the plugin's clients."""
        key, run = context.request, (context.worker, context.number)
        if type(key) is not Request:
            # Only objects have events.
            return
        watched = self._watched.get(key)
        if watched is not None:
            watched.wrote = run
            self._note_writer(watched, write)
            return
        now = self._clock.now()
        with self._lock:
            window = self._windows.get(key)
            if window is None or now - window.since > SECONDS:
                window = self._windows[key] = _Window(now)
                self._windows.move_to_end(key)
                self._forget_old(now)
            if window.last != run:
                window.runs, window.last = window.runs + 1, run
            if window.runs < _WATCHED_AFTER:
                return
            del self._windows[key]
            watched = self._watched[key] = _Watched(window.since, window.runs)
            self.reconcile = self._slowed
        self._note_writer(watched, write)
        self._queue.record_causes(key)

    def _forget_old(self, now: float) -> None:
        while self._windows:
            key, window = next(iter(self._windows.items()))
            if now - window.since <= SECONDS:
                return
            del self._windows[key]

    def _note_writer(self, watched: _Watched, write: Write) -> None:
        watched.writers.setdefault(Writer(write.field_manager, write.verb))

    def _reconcile(self, context: Run, key: Any) -> Any:
        watched = self._watched.get(key)
        if watched is None:
            return self._plain(context, key)
        cause = self._cause(key, watched)
        if (wait := self._wait(watched, cause)) > 0:
            return Result(requeue_after=wait)
        failed = True
        try:
            result = self._plain(context, key)
            failed = False
        finally:
            self._ended(context, key, watched, cause, failed=failed)
        return result

    async def _reconcile_async(self, context: Run, key: Any) -> Any:
        watched = self._watched.get(key)
        if watched is None:
            return await self._plain(context, key)
        cause = self._cause(key, watched)
        if (wait := self._wait(watched, cause)) > 0:
            return Result(requeue_after=wait)
        failed = True
        try:
            result = await self._plain(context, key)
            failed = False
        finally:
            self._ended(context, key, watched, cause, failed=failed)
        return result

    def _cause(self, key: Request, watched: _Watched) -> Literal["own", "others", "none"]:
        """Return who caused the run that begins; `none`: no change of an object did, but a timer or a call."""
        now, taken = self._clock.now(), self._queue.take_causes(key)
        watched.unknown += [(now, uid, version) for uid, version in taken]
        unknown = []
        for seen, uid, version in watched.unknown:
            if writer := self._written.writer(uid, version):
                watched.writers.setdefault(writer)
            elif uid and now - seen < _ANSWER:
                unknown.append((seen, uid, version))
            else:
                watched.others = True
        watched.unknown = unknown
        if watched.others:
            return "others"
        # The same change may run the key twice; while its writer is unknown, it is not taken for a call.
        return "own" if taken or unknown else "none"

    def _wait(self, watched: _Watched, cause: str) -> float:
        """Return the seconds that a run has to wait; 0 if it may begin."""
        if not watched.hot:
            return 0.0
        now = self._clock.now()
        # A timer of the plugin, or a call of `enqueue`, counts as somebody else.
        others = cause == "others" or (cause == "none" and now < watched.back)
        due = min(watched.due, watched.began + _OTHERS_WAIT) if others else watched.due
        watched.others = others
        if now >= due:
            watched.began, watched.others = now, False
            return 0.0
        wait = min(due - now, _ANSWER) if watched.unknown else due - now
        watched.back = now + wait
        return wait

    def _ended(self, context: Run, key: Request, watched: _Watched, cause: str, *, failed: bool) -> None:
        """Count a run, and decide whether the key is hot."""
        wrote, now = watched.wrote == (context.worker, context.number), self._clock.now()
        if watched.hot:
            if wrote:
                watched.due = now + next(watched.delays)
            elif not failed:
                self._release(key, watched)
            return
        if wrote:
            watched.runs += 1
            watched.unexplained += cause == "none"
        if watched.others or watched.unexplained > _UNEXPLAINED or now - watched.since > SECONDS:
            self._release(key, watched)
        elif wrote and watched.runs >= RUNS and not watched.unknown:
            self._heat(key, watched, now)

    def _heat(self, key: Request, watched: _Watched, now: float) -> None:
        watched.hot, watched.began, watched.due = True, now, now + next(watched.delays)
        with self._lock:
            self._counts.hot_keys += 1
        seconds = now - watched.since
        writers = ", ".join(f"{writer.verb} by {writer.field_manager}" for writer in watched.writers)
        subject = "/".join(part for part in (key.cluster, key.namespace, key.name) if part)
        why = (
            f"reconcile of {subject} ran {watched.runs} times in {seconds:.2f} s, "
            f"caused by nothing but writes of this host ({writers})"
        )
        log.warning(
            "controller %s: %s; its next runs wait for %g to %g s",
            self._controller,
            why,
            FIRST_WAIT,
            LONGEST_WAIT,
            extra={
                "key": subject,
                "rate": round(watched.runs / max(seconds, 0.01), 1),
                "verbs": sorted({writer.verb for writer in watched.writers}),
                "managers": sorted({writer.field_manager for writer in watched.writers}),
            },
        )
        self._entries.degrade("hot-loop", f"controller {self._controller}: {why}")

    def _release(self, key: Request, watched: _Watched) -> None:
        with self._lock:
            del self._watched[key]
            if watched.hot:
                self._counts.hot_keys -= 1
                self._cooled_at = self._clock.now()
            if not self._watched:
                self.reconcile = self._plain
        self._queue.forget_causes(key)
