"""Reflector: keeps an engine equal to the server; lists, watches, and lists again when the watch is lost."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.client.client import Client
from ctrlhost.clock import SystemClock, doubling
from ctrlhost.errors import (
    ApiError,
    BadRequest,
    CtrlhostError,
    DecodeError,
    Forbidden,
    NotFound,
    OverBudget,
    TooManyRequests,
    TransportError,
    UnknownKind,
)
from ctrlhost.reflector.backoff import Backoff, RetryWindow
from ctrlhost.reflector.driver import Driver
from ctrlhost.reflector.failures import Failures
from ctrlhost.reflector.feed import Feed
from ctrlhost.reflector.list_watch import ListWatch
from ctrlhost.reflector.lists import SHORT_WATCH, Lists, NoStreamingList
from ctrlhost.reflector.negotiation import Negotiation
from ctrlhost.reflector.resume_point import ResumePoint, is_busy, is_older, is_unavailable
from ctrlhost.reflector.skipped import SkippedObjects
from ctrlhost.reflector.states import BackingOff, Listed, Resting, State, Unlisted, Watching
from ctrlhost.reflector.status import ReflectorStatus
from ctrlhost.reflector.steps import BackOff, Call, RangesChanged, Read, Steps, Stopped
from ctrlhost.transport.responses import error_from_status
from ctrlhost.transport.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.cache import SharedInformer
    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.reflector.range_steps import RangeSteps
    from ctrlhost.reflector.shard import Shard, ShardSource
    from ctrlhost.reflector.status import State as StatusState
    from ctrlhost.transport.interface import Stream

log = logging.getLogger("ctrlhost.informers.reflector")
watcher_log = logging.getLogger("ctrlhost.informers.watcher")

NO_PERMISSION = "no permission to"
"""How the reason begins for which an informer without rights waits."""

_OVER_BUDGET_DELAY = 300.0
"""Seconds until a list is tried again for which the memory budget had no room."""

_LEARNING_DELAY = 5.0
"""The same while a dictionary is being learnt, with which the objects may fit."""

_FAST_TRIES, _FAST_DELAY = 6, 0.25
"""The number of fast retries after `wake`, and the delay of the first one in seconds; it doubles."""


class Reflector:
    """Feeds one engine from one resource in one namespace, or in all of them.

    It never gives up: it reports every failure in `status` and in the log, backs off and retries. It runs on the thread
    that all reflectors share. All methods may be called from any thread.
    """

    def __init__(
        self,
        client: Client,
        api_version: str,
        kind: str,
        engine: SharedInformer,
        clock: Clock,
        options: ReflectorOptions,
        *,
        namespace: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        on_change: Callable[[], None] = lambda: None,
        on_error: Callable[[Exception], None] | None = None,
        cluster_scoped: Callable[[], bool] = lambda: True,
        missing: Callable[[], None] = lambda: None,
        optional: bool = False,
        shard: ShardSource | None = None,
    ) -> None:
        """Call `on_change` after lists and whatever else a watch reports; events alone are not.

        If the kind of a reflector with a namespace turns out to be cluster-scoped, it continues if `cluster_scoped`
        returns True. Neither may block. `on_error` is called for every failure, and `missing` each time the server does
        not serve the kind, both on a thread where they may block; only this reflector waits for them. The failures of
        an `optional` reflector are not logged as warnings. With a `shard` only its ranges are held.
        """
        self._client = client
        self._api_version, self._kind = api_version, kind
        self._engine = engine
        self._clock = clock
        self._options = options
        self._namespace = namespace
        self._on_change = on_change
        self._cluster_scoped = cluster_scoped
        self._missing = missing
        self._status = ReflectorStatus(namespace)
        self._position = ResumePoint(page_size=options.page_size)
        #: Bookmarks of older versions so far.
        self._backward = 0
        #: Whether to try streaming lists, which the server may not support.
        self._streaming = options.watch_list
        #: The delays of the next attempts after a `wake`.
        self._fast: Iterator[float] = iter(())
        self._failures = Failures(kind, self._status, clock, on_error, optional=optional)
        self._negotiation = Negotiation(api_version, kind, engine, options.encodings, metadata_only=metadata_only)
        self._requests = ListWatch(
            client.transport,
            options,
            self._negotiation,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        self._backoff = Backoff(clock, options.backoff)
        self._window = RetryWindow(clock, options.internal_error_window)
        skipped = SkippedObjects(engine, kind, clock)
        #: The part that is held; None for all.
        self.shard = None if shard is None else self._shard_of(shard, metadata_only=metadata_only)
        self._feed = Feed(self._requests, engine, self._position, self._status, clock, skipped, self.shard)
        self._lists = Lists(self._feed, self._wait_for_server)
        self._ranges = None if self.shard is None else self._range_steps(self.shard)
        #: Whether the decode threads read its streams.
        self._native = client.transport.native_streams and type(clock) is SystemClock and not engine.transforms
        name = f"reflector {namespace}/{kind}" if namespace else f"reflector {kind}"
        self._driver = Driver(self._run(), clock, name, native=self._native)

    def _shard_of(self, source: ShardSource, *, metadata_only: bool) -> Shard:
        from ctrlhost.reflector.shard import Shard

        # Lists of custom objects are filtered as others are, but do not say so; those of metadata neither.
        tells = not metadata_only and builtin_plural(self._api_version, self._kind) is not None
        return Shard(source, self._kind, self._engine, self.follow_ranges, tells=tells)

    def _range_steps(self, shard: Shard) -> RangeSteps:
        from ctrlhost.reflector.range_steps import RangeSteps

        return RangeSteps(shard, self._feed, self._lists, self._wait_for_server)

    def start(self) -> None:
        """Start to list and watch."""
        self._driver.start()

    def wake(self) -> None:
        """Retry now if the reflector backs off, as after a CRD was installed, and soon again if that fails."""
        self._fast = islice(doubling(_FAST_DELAY), _FAST_TRIES)
        self._driver.wake()

    def relist(self) -> None:
        """List again now, even if the watch works, and correct all differences."""
        self._feed.list_wanted.set()
        self._requests.interrupt()
        self._driver.wake()

    def follow_ranges(self) -> None:
        """Hold the ranges that its shard wants by now."""
        if self.shard is not None:
            if self.shard.waiting:
                self._driver.wake()
            self.shard.changed()

    def reopen(self) -> None:
        """Close the open watch, and open it again where it ended."""
        self._requests.interrupt()

    def stop(self) -> None:
        """Stop: the open stream is closed. Returns at once; `join` waits for the end."""
        self._feed.stopping.set()
        self._driver.wake()
        self._requests.stop()

    def join(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for its end; return whether it has ended, or was not started."""
        return self._driver.join(timeout)

    @property
    def status(self) -> ReflectorStatus:
        """The status at present."""
        if self._native:
            self._status.arrived(*self._engine.arrived())
        return self._status

    @property
    def restores(self) -> int:
        """How often the server was found restored to an earlier state."""
        return self._status.restores

    @property
    def held_back(self) -> float:
        """Seconds in which a connection was not read because the decode threads were behind."""
        return self._requests.held_back

    def _run(self) -> Steps[None]:
        state: State = Unlisted()
        try:
            while True:
                self._feed.check()
                state = yield from self._next(state)
        except Stopped:
            pass
        finally:
            self._set("stopped", "")
            if self.shard is not None:
                self.shard.stop()

    def _next(self, state: State) -> Steps[State]:
        """Do what a state is there for, and return the state that follows."""
        try:
            match state:
                case Unlisted():
                    return (yield from self._in_turn(self._list()))
                case Listed():
                    return (yield from self._in_turn(self._open(state)))
                case Watching():
                    return (yield from self._follow(state))
                case Resting():
                    yield from self._rest()
                    return Unlisted()
                case BackingOff(error, made_room):
                    yield from self._back_off(error, made_room=made_room)
                    return Unlisted(made_room)
        except Stopped:
            raise
        except RangesChanged:
            return state
        except (CtrlhostError, ValueError) as error:
            self._feed.check()
            yield from self._failed(state, error)
            made_room = isinstance(state, Unlisted) and state.made_room
            if isinstance(error, OverBudget):
                # A list that made room for the next one is followed by that at once, but not a second time.
                made_room = error.made_room and not made_room
            return BackingOff(error if isinstance(error, CtrlhostError) else None, made_room)
        except Exception as error:  # a bug here must not end the informer; the log has the traceback
            log.exception("reflector for %s failed unexpectedly", self._kind)
            self._status.failed("internal", str(error))
            return BackingOff()

    def _in_turn(self, steps: Steps[State]) -> Steps[State]:
        """Carry out steps that may list ranges, and let others list theirs afterwards."""
        try:
            return (yield from steps)
        finally:
            if self.shard is not None:
                self.shard.end_turn()

    def _rest(self) -> Steps[None]:
        """Wait until there is something to hold."""
        self._set("watching", "")
        self._status.resting = True
        self._on_change()
        if self._ranges is not None:
            yield from self._ranges.rest()
        self._status.resting = False

    def _list(self) -> Steps[State]:
        """Copy the server's content, as a stream if the server sends one, else in pages."""
        if self._status.state not in ("waiting", "over budget"):
            self._set("reconnecting" if self._position.last else "listing", self._status.reason)
        if self._ranges is not None and not (yield from self._ranges.begin()):
            return Resting()
        resource = yield from self._resource()
        self._feed.check()
        former = self._position.last
        if self._namespace and not resource.namespaced and not self._cluster_scoped():
            raise Stopped
        listed = (yield from self._list_as_stream(resource)) if self._streaming else None
        if listed is None:
            yield from self._list_in_pages(resource)
        self._fast = iter(())
        if is_older(self._position.last, former):
            # Counted after the list, which has no write that the restore has undone.
            self._status.restores += 1
            log.warning(
                "%s: the server went back from version %s to %s, as after a restore; listed again",
                resource.name,
                former,
                self._position.last,
            )
        self._on_change()
        if self.shard is not None:
            self.shard.fill()
        if self._negotiation.must_list_as_json():
            if listed is not None:
                yield from self._close(listed.stream)
            return BackingOff()
        return listed or Listed(resource)

    def _list_as_stream(self, resource: Resource) -> Steps[Watching | None]:
        if self._ranges is not None:
            yield from self._ranges.ask(resource)
        try:
            return (yield from self._lists.stream(resource))
        except NoStreamingList as reason:
            log.debug("no streaming list of %s; listing in pages: %s", resource.name, reason)
            self._streaming = not reason.lasting
            return None

    def _list_in_pages(self, resource: Resource) -> Steps[None]:
        try:
            yield from self._lists.pages(resource)
        except CtrlhostError as error:
            if not is_unavailable(error) or self._position.unavailable:
                raise
            self._position.unavailable = True
            yield from self._lists.pages(resource)

    def _open(self, listed: Listed) -> Steps[State]:
        """Open a watch where the last one ended."""
        try:
            if listed.doubted and (yield from self._was_restored(listed.resource)):
                return Unlisted()
            if self._ranges is not None and not self._ranges.shard.complete:
                following = yield from self._ranges.change(listed.resource)
                self._on_change()
                return following
            if self._ranges is not None:
                yield from self._ranges.ask(listed.resource)
            stream = yield from self._requests.watch(listed.resource, self._position.last)
            self._engine.begin_watch(stream.content_type)
        except CtrlhostError as error:
            self._feed.check()
            if not is_busy(error):
                raise
            yield from self._wait_for_server(error)
            return listed
        return Watching(listed.resource, stream)

    def _was_restored(self, resource: Resource) -> Steps[bool]:
        """Return whether the server's state is older than the resume point, so that only a list helps.

        Such a server keeps a watch open and sends nothing until its versions reach the requested one.
        """
        try:
            version = yield from self._requests.newest_version(resource)
        except CtrlhostError as error:
            if is_busy(error):
                raise
            return False
        self._position.unavailable |= (restored := is_older(version, self._position.last))
        return restored

    def _went_back(self) -> bool:
        """Return whether a bookmark of an older version came since the last call."""
        before, self._backward = self._backward, self._engine.stats()["backward_bookmarks"]
        return self._backward > before

    def _follow(self, watching: Watching) -> Steps[State]:
        """Follow changes up to the end of the watch."""
        started, before, list_wanted = self._clock.now(), self._position.last, self._feed.list_wanted
        if list_wanted.is_set():
            # The request came before there was a stream to interrupt.
            watching.stream.close()
        self._status.watches += 1
        self._status.set("watching", "", started)
        shard = self.shard
        if shard is not None:
            shard.follow(watching.stream)
        error = yield from self._changes(watching)
        if shard is not None:
            shard.leave()
        self._feed.check()
        if isinstance(error, OverBudget):
            raise error
        self._set("reconnecting", str(error) if error else "")
        if shard is not None:
            if error is None and shard.cut:
                return Listed(watching.resource)
            shard.asked = False
        if error is not None:
            yield from self._failures.report("watch", error)
        # A watch that fails repeatedly without progress must back off.
        progressed = watching.proved or self._position.last != before or self._clock.now() - started >= SHORT_WATCH
        doubted = self._options.restorable and (
            error is not None or self._clock.now() - started < self._options.min_watch_timeout
        )
        following = yield from self._after(Listed(watching.resource, doubted), error, progressed=progressed)
        self._feed.check()
        if list_wanted.is_set():
            list_wanted.clear()
            return BackingOff()
        return following

    def _changes(self, watching: Watching) -> Steps[Exception | None]:
        """Read a watch to its end; return the error that ended it."""
        stream = watching.stream
        error: Exception | None = None if watching.error is None else error_from_status(watching.error)
        try:
            while error is None and (progress := (yield Read(stream, self._engine, "watch"))) is not None:
                self._on_change()
                self._feed.record(progress)
                self._position.last = self._status.resource_version = progress.resource_version
                if progress.error is not None:
                    error = error_from_status(progress.error)
                if progress.damaged:
                    name = watching.resource.name
                    watcher_log.warning("%s cached objects are damaged; listing %s again", progress.damaged, name)
                restored = (
                    progress.bookmarks > 0
                    and self._went_back()
                    and self._options.restorable
                    and (yield from self._was_restored(watching.resource))
                )
                if restored or progress.damaged or (progress.unknown_fields and self._negotiation.must_list_as_json()):
                    self._feed.list_wanted.set()
                    yield from self._close(stream)
                    break
        except (CtrlhostError, ValueError) as raised:
            error = raised
        finally:
            stream.close()
            error = self._end_watch(error)
        return error

    def _close(self, stream: Stream) -> Steps[None]:
        """Close a stream; nothing of it is on its way to the engine afterwards."""
        stream.close()
        with suppress(CtrlhostError, ValueError):
            while (yield Read(stream, self._engine, "watch")) is not None:
                pass

    def _end_watch(self, error: Exception | None) -> Exception | None:
        """End the engine's stream; return `error`, else the error of a cut frame."""
        try:
            self._engine.end_watch()
            self._engine.process()
        except (CtrlhostError, ValueError) as raised:
            error = error or raised
        # Frames before a malformed one count, else they would arrive again and the cache go back in time.
        self._position.last = self._status.resource_version = self._engine.last_resource_version
        return error

    def _after(self, listed: Listed, error: Exception | None, *, progressed: bool) -> Steps[State]:
        """Return the state after a watch: `listed` to open another one, unless only a list helps, as after a 410."""
        relist = BackingOff(error if isinstance(error, CtrlhostError) else None)
        match error:
            case TooManyRequests():
                yield from self._back_off(error)
                return listed
            case ApiError():
                again = error.status == 500 and error.reason == "InternalError" and self._window.failed()
                return listed if again else relist
            case CtrlhostError() if not isinstance(error, TransportError | DecodeError):
                # A step of a decode thread has panicked, and its events may be lost.
                return relist
        if progressed:
            return listed
        if error is None or isinstance(error, TransportError):
            watcher_log.info("watch of %s ended at once without an event", listed.resource.name)
        return relist

    def _wait_for_server(self, error: CtrlhostError) -> Steps[None]:
        """Report why no stream can be opened, which may differ from why the last one ended, and back off."""
        self._set("reconnecting" if self._position.last else "listing", str(error))
        yield from self._failures.report("watch", error)
        yield from self._back_off(error)
        if self._ranges is not None:
            yield from self._ranges.await_turn()

    def _back_off(self, error: CtrlhostError | None, *, made_room: bool = False) -> Steps[None]:
        """Sleep until the next attempt, at least as long as the server requests."""
        if self.shard is not None:
            self.shard.end_turn()
        if isinstance(error, OverBudget):
            delay = 0.0 if made_room else _LEARNING_DELAY if error.learning else _OVER_BUDGET_DELAY
        else:
            delay = self._backoff.next()
            if self._status.state == "waiting":
                delay = min(delay, self._options.waiting_cap)
            # Also for a kind that is served but not ready: for a new CRD's storage the server answers 429 at first.
            delay = min(delay, next(self._fast, delay))
            if isinstance(error, ApiError) and error.retry_after:
                delay = max(delay, error.retry_after)
        yield BackOff(delay)
        self._feed.check()

    def _failed(self, state: State, error: Exception) -> Steps[None]:
        """Report in the status and the log why a state could not be left in the usual way."""
        verb = "list" if isinstance(state, Unlisted) else "watch"
        if isinstance(error, NotFound):
            self._client.resources.forget(self._api_version, self._kind)
            # The server answers for a path that it does not serve as for a typing error: 404 page not found.
            gone = f"the server does not serve kind {self._kind} in {self._api_version}"
            self._set("waiting", error.message if isinstance(error, UnknownKind) else gone)
            yield Call(self._missing)
        elif isinstance(error, Forbidden):
            where = f" in namespace {self._namespace}" if self._namespace else ""
            what = f"{verb} {self._kind} ({self._api_version}){where}"
            self._set("waiting", f"{NO_PERMISSION} {what}: {error.message}")
        elif isinstance(error, BadRequest):
            # Such as a field selector that the kind does not support: nothing but a change of the server helps.
            self._set("waiting", error.message)
        elif isinstance(error, OverBudget):
            # What is gone may have been dropped.
            self._engine.process()
            self._on_change()
            self._set("over budget", (yield from self._describe(error)))
        else:
            self._set("reconnecting" if self._position.last else "listing", str(error))
        yield from self._failures.report(verb, error)

    def _describe(self, error: OverBudget) -> Steps[str]:
        """Describe what the cache has and what the memory budget has no room for."""
        if self._engine.has_synced:
            reached = OverBudget(error.limit, self._engine.stats()["objects"])
            return f"{reached}; the cache stays as of version {self._engine.last_resource_version}"
        try:
            count = yield from self._lists.count((yield from self._resource()))
        except (CtrlhostError, ValueError):
            count = None
        more = f"about {count - error.objects:,} more" if count is not None and count > error.objects else "more"
        return f"{error}; {more} were to come"

    def _resource(self) -> Steps[Resource]:
        resource: Resource = yield from steps_of(Client.resource)(self._client, self._api_version, self._kind)
        return resource

    def _set(self, state: StatusState, reason: str) -> None:
        self._status.set(state, reason, self._clock.now())
