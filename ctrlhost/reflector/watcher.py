"""Watches: the streaming first list, and the loop that follows changes until a new list is necessary."""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ApiError, CtrlhostError, DecodeError, OverBudget, TooManyRequests, TransportError
from ctrlhost.reflector.progress import ListProgress
from ctrlhost.reflector.resume_point import is_busy, is_unavailable
from ctrlhost.reflector.steps import Read, Steps, Stopped
from ctrlhost.transport.responses import error_from_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.cache import SharedInformer, WatchProgress
    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.backoff import RetryWindow
    from ctrlhost.reflector.list_watch import ListWatch
    from ctrlhost.reflector.resume_point import ResumePoint
    from ctrlhost.reflector.skipped import SkippedObjects
    from ctrlhost.reflector.status import ReflectorStatus
    from ctrlhost.transport.interface import Stream

log = logging.getLogger("ctrlhost.informers.watcher")

_TRIES, _SILENCES = 8, 2
_SHORT_WATCH = 1.0
"""Seconds; a watch that ends sooner, without an event, indicates a fault, not its regular end."""


class NoStreamingList(Exception):
    """The server did not send a streaming list; `lasting` if it does not support them."""

    def __init__(self, cause: Exception | None, *, lasting: bool = False) -> None:
        """Set the cause, for the log."""
        super().__init__(str(cause) if cause else "the stream ended too early")
        self.lasting = lasting


class End(enum.Enum):
    """The end of a watch stream, named by the next step."""

    REWATCH = enum.auto()
    SHORT = enum.auto()
    RELIST = enum.auto()


class Watcher:
    """Reads the watch streams of one reflector, as steps of it."""

    def __init__(
        self,
        requests: ListWatch,
        engine: SharedInformer,
        position: ResumePoint,
        status: ReflectorStatus,
        clock: Clock,
        *,
        window: RetryWindow,
        wait: Callable[[CtrlhostError | None], Steps[None]],
        stopping: Callable[[], bool],
        on_change: Callable[[], None],
        report: Callable[[str, Exception], Steps[None]],
        skipped: SkippedObjects,
    ) -> None:
        """Call `wait` to back off, `on_change` after changes, and `report` for failures."""
        self._requests = requests
        self._engine = engine
        self._position = position
        self._status = status
        self._clock = clock
        self._window = window
        self._wait = wait
        self._stopping = stopping
        self._on_change = on_change
        self._report = report
        self._skipped = skipped
        #: A new list is requested although the watch works.
        self.list_wanted = threading.Event()
        #: An ERROR frame in the same piece as the end of the initial events.
        self._pending_error: dict[str, Any] | None = None
        #: Consecutive watches that a transport error ended before the first byte.
        self._silent = 0

    def streaming_list(self, resource: Resource) -> Steps[Stream]:
        """Replace the content with the server's state, from a stream that then continues as a watch.

        Raises NoStreamingList if the server does not send one; an incomplete one is opened again, a few times.
        """
        for _ in range(_TRIES):
            self._check()
            try:
                stream = yield from self._requests.watch(
                    resource, self._position.watch_list_version(), initial_events=True
                )
                version = yield from self._initial_events(stream, resource.name)
            except CtrlhostError as error:
                self._engine.abort_list()
                if isinstance(error, OverBudget):
                    raise
                yield from self._decide_after_initial(error)
                continue
            except Stopped:
                # The engine may have another reflector by now.
                raise
            except BaseException:
                self._engine.abort_list()
                raise
            if version is not None:
                stream.set_idle(self._requests.idle_timeout)
                self._position.listed(version, 1, "")
                self._status.listed(version, self._clock.now())
                return stream
        raise NoStreamingList(None)

    def _decide_after_initial(self, error: CtrlhostError) -> Steps[None]:
        """Return to retry the streaming list; raise otherwise."""
        self._check()
        if is_unavailable(error) and not self._position.unavailable:
            self._position.unavailable = True
        elif is_busy(error):
            yield from self._wait_for_server(error)
        else:
            # Old servers answer 422, some proxies and aggregated servers 400 or 405, and will do so again.
            lasting = isinstance(error, ApiError) and error.status in (400, 405, 422)
            raise NoStreamingList(error, lasting=lasting) from error

    def _initial_events(self, stream: Stream, name: str) -> Steps[str | None]:
        """Stage events up to their final bookmark, which completes the list.

        Return its version, None if the stream ended regularly before.
        """
        started, events, listed = self._clock.now(), 0, ListProgress(self._clock)
        self._engine.begin_list()
        try:
            self._engine.begin_watch(stream.content_type)
            while (progress := (yield Read(stream, self._engine, "initial"))) is not None:
                events += self._record(progress)
                if progress.damaged:
                    # One that is in this list already; it comes again with the next one.
                    self.list_wanted.set()
                self._status.listing = events
                listed.report(name, events)
                if progress.plain_bookmarks and not progress.initial_events_end:
                    # A server that streams lists sends no bookmark before the one that ends the initial events.
                    raise NoStreamingList(TransportError("the server does not support sendInitialEvents"), lasting=True)
                if progress.initial_events_end:
                    self._pending_error = progress.error
                    version: str = progress.resource_version
                    return version
                if progress.error is not None:
                    raise error_from_status(progress.error)
        except BaseException:
            stream.close()
            raise
        finally:
            self._status.listing = 0
        stream.close()
        self._check()
        self._engine.abort_list()
        if not events and self._clock.now() - started < _SHORT_WATCH:
            raise NoStreamingList(None)
        return None

    def follow(self, resource: Resource, stream: Stream | None) -> Steps[CtrlhostError | None]:
        """Follow changes until a new list is necessary, and return the error that is the reason, if any.

        Raises the errors of opening a watch, unless the server is unreachable or busy.
        """
        # A stream that sent the first list works.
        proved = stream is not None
        while True:
            if stream is None:
                stream = yield from self._open(resource)
            if self.list_wanted.is_set():
                # The request came before there was a stream to interrupt.
                stream.close()
            end, error = yield from self._consume(stream, proved, resource.name)
            stream, proved = None, False
            self._check()
            if self.list_wanted.is_set():
                self.list_wanted.clear()
                return None
            if end is not End.REWATCH:
                if end is End.SHORT:
                    log.info("watch of %s ended at once without an event", resource.name)
                return error if isinstance(error, CtrlhostError) else None

    def _open(self, resource: Resource) -> Steps[Stream]:
        """Open a watch where the last one ended; wait while the server is unreachable or busy, without a new list."""
        while True:
            self._check()
            try:
                stream = yield from self._requests.watch(resource, self._position.last)
                self._engine.begin_watch(stream.content_type)
                return stream
            except CtrlhostError as error:
                self._check()
                if not is_busy(error):
                    raise
                yield from self._wait_for_server(error)

    def _wait_for_server(self, error: CtrlhostError) -> Steps[None]:
        """Report why no stream can be opened, which may differ from why the last one ended, and back off."""
        self._status.set("reconnecting" if self._position.last else "listing", str(error), self._clock.now())
        yield from self._report("watch", error)
        yield from self._wait(error)

    def _consume(self, stream: Stream, proved: bool, resource: str) -> Steps[tuple[End, Exception | None]]:
        started, before, silent = self._clock.now(), self._position.last, True
        self._status.watches += 1
        self._status.set("watching", "", started)
        pending, self._pending_error = self._pending_error, None
        error: Exception | None = None if pending is None else error_from_status(pending)
        try:
            while error is None and (progress := (yield Read(stream, self._engine, "watch"))) is not None:
                silent = False
                self._on_change()
                self._record(progress)
                self._position.last = self._status.resource_version = progress.resource_version
                if progress.error is not None:
                    error = error_from_status(progress.error)
                if progress.damaged:
                    log.warning("%s cached objects are damaged; listing %s again", progress.damaged, resource)
                if progress.damaged or (progress.unknown_fields and self._requests.must_list_as_json()):
                    self.list_wanted.set()
                    yield from self.close(stream)
                    break
        except (CtrlhostError, ValueError) as raised:
            error = raised
        finally:
            stream.close()
            error = self._finish(error)
        self._check()
        if isinstance(error, OverBudget):
            raise error
        self._status.set("reconnecting", str(error) if error else "", self._clock.now())
        if error is not None:
            yield from self._report("watch", error)
        # A watch that fails repeatedly without progress must back off.
        progressed = proved or self._position.last != before or self._clock.now() - started >= _SHORT_WATCH
        self._silent = self._silent + 1 if silent and isinstance(error, TransportError) else 0
        if self._silent >= _SILENCES:
            # A server that was restored to an earlier state keeps such a watch open and sends nothing, not even
            # bookmarks, until its versions reach the requested one. Only a list detects that.
            self._silent = 0
            return End.RELIST, error
        return (yield from self._decide(error, progressed)), error

    def close(self, stream: Stream) -> Steps[None]:
        """Close a stream; nothing of it is on its way to the engine afterwards."""
        stream.close()
        with contextlib.suppress(CtrlhostError, ValueError):
            while (yield Read(stream, self._engine, "watch")) is not None:
                pass

    def _finish(self, error: Exception | None) -> Exception | None:
        """End the engine's stream; return `error`, else the error of a cut frame."""
        with contextlib.suppress(Stopped):
            try:
                self._engine.end_watch()
                self._engine.process()
            except (CtrlhostError, ValueError) as raised:
                error = error or raised
            # Frames before a malformed one count, else they would arrive again and the cache go back in time.
            self._position.last = self._status.resource_version = self._engine.last_resource_version
        return error

    def _decide(self, error: Exception | None, progressed: bool) -> Steps[End]:
        if isinstance(error, TooManyRequests):
            yield from self._wait(error)
            return End.REWATCH
        if isinstance(error, ApiError):
            again = error.status == 500 and error.reason == "InternalError" and self._window.failed()
            return End.REWATCH if again else End.RELIST
        if isinstance(error, CtrlhostError) and not isinstance(error, TransportError | DecodeError):
            # A step of a decode thread has panicked, and its events may be lost.
            return End.RELIST
        if error is not None and not isinstance(error, TransportError) and not progressed:
            return End.RELIST
        return End.REWATCH if progressed else End.SHORT

    def _record(self, progress: WatchProgress) -> int:
        now = self._clock.now()
        status = self._status
        status.last_byte_at = now
        if progress.events:
            status.last_event_at = now
            status.events += progress.events
        if progress.bookmarks:
            status.last_bookmark_at = now
            status.bookmarks += progress.bookmarks
        if progress.skipped or progress.bookmarks:
            self._skipped.report()
        return progress.events

    def _check(self) -> None:
        if self._stopping():
            raise Stopped
