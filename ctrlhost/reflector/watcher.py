"""Watches: the streaming first list, and the loop that follows changes until only a new list can help."""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost.clock import SystemClock
from ctrlhost.errors import ApiError, CtrlhostError, TooManyRequests, TransportError
from ctrlhost.reflector.progress import ListLog
from ctrlhost.reflector.resume_point import is_busy, is_unavailable
from ctrlhost.transport.interface import FollowedStream
from ctrlhost.transport.responses import error_from_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.backoff import RetryWindow
    from ctrlhost.reflector.engine import Engine
    from ctrlhost.reflector.list_watch import Wire
    from ctrlhost.reflector.resume_point import Position
    from ctrlhost.reflector.skipped import Skips
    from ctrlhost.reflector.status import ReflectorStatus
    from ctrlhost.transport.interface import Stream, WatchProgress

log = logging.getLogger("ctrlhost.informers.watcher")

_TRIES, _SILENCES = 8, 2
_SHORT = 1.0
"""A watch that ends sooner, without an event, is a sign that something is wrong, not the end of its time."""

_LINGER = 0.05
"""Seconds for which events go to queues without a word here."""


class Stopped(Exception):
    """The reflector was told to stop."""


class NoStreamingList(Exception):
    """The server did not give a streaming list; `lasting` if it never will."""

    def __init__(self, cause: Exception | None, *, lasting: bool = False) -> None:
        """Keep the cause, for the log."""
        super().__init__(str(cause) if cause else "the stream ended too early")
        self.lasting = lasting


class End(enum.Enum):
    """How a watch stream ended, by what is to be done next."""

    REWATCH = enum.auto()
    SHORT = enum.auto()
    RELIST = enum.auto()


class Watcher:
    """Reads the watch streams of one reflector, in its thread."""

    def __init__(
        self,
        wire: Wire,
        engine: Engine,
        position: Position,
        status: ReflectorStatus,
        clock: Clock,
        *,
        window: RetryWindow,
        wait: Callable[[CtrlhostError | None], None],
        stopping: Callable[[], bool],
        fed: Callable[[], None],
        note: Callable[[str, Exception], None],
        skips: Skips,
    ) -> None:
        """`wait` sleeps for the next back-off, `fed` is called when handlers have news, `note` hears of failures."""
        self._wire = wire
        self._engine = engine
        self._position = position
        self._status = status
        self._clock = clock
        self._log = ListLog(clock)
        self._window = window
        self._wait = wait
        self._stopping = stopping
        self._fed = fed
        self._note = note
        self._skips = skips
        # A clock that is moved by hand may be asked right after an event when it came.
        self._linger = _LINGER if isinstance(clock, SystemClock) else 0.0
        #: Somebody wants a new list although the watch is fine.
        self.list_wanted = threading.Event()
        #: An ERROR frame that came in the same piece as the end of the initial events.
        self._left_over: dict[str, Any] | None = None
        #: Watches in a row that were given up without having brought a byte.
        self._silent = 0

    def streaming_list(self, resource: Resource) -> Stream:
        """Make the server's state the content, from a stream that then goes on as a watch.

        NoStreamingList if that can not be had. One that ends before it was complete is opened again, a few times.
        """
        for _ in range(_TRIES):
            self._check()
            try:
                stream = self._wire.watch(resource, self._position.watch_list_version(), initial_events=True)
                version = self._initial_events(stream, resource.name)
            except CtrlhostError as error:
                self._engine.abort_list()
                self._decide_after_initial(error)
                continue
            except BaseException:
                self._engine.abort_list()
                raise
            if version is not None:
                stream.set_idle(self._wire.idle_timeout)
                self._position.listed(version, 1, "")
                self._status.lists += 1
                self._status.last_list_at = self._clock.now()
                self._status.resource_version = version
                return stream
        raise NoStreamingList(None)

    def _decide_after_initial(self, error: CtrlhostError) -> None:
        """Return to try the streaming list again, raise to do something else."""
        self._check()
        if is_unavailable(error) and not self._position.unavailable:
            self._position.unavailable = True
        elif is_busy(error):
            self._away(error)
        else:
            # Old servers say 422, some proxies and aggregated servers 400 or 405: they will say it again.
            lasting = isinstance(error, ApiError) and error.status in (400, 405, 422)
            raise NoStreamingList(error, lasting=lasting) from error

    def _initial_events(self, stream: Stream, name: str) -> str | None:
        """Stage events up to the bookmark that ends them; None if the stream ended regularly before."""
        started, events = self._clock.now(), 0
        self._engine.begin_list()
        self._log.begin()
        try:
            read = self._reader(stream)
            while (progress := read()) is not None:
                events += self._heard(progress)
                self._status.listing = events
                self._log.more(name, events)
                if progress.plain_bookmarks and not progress.initial_events_end:
                    # A server that streams lists sends no bookmark before the one that ends the initial events.
                    raise NoStreamingList(TransportError("the server does not know sendInitialEvents"), lasting=True)
                if progress.initial_events_end:
                    self._engine.replace(progress.resource_version)
                    self._left_over = progress.error
                    return progress.resource_version
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
        if not events and self._clock.now() - started < _SHORT:
            raise NoStreamingList(None)
        return None

    def follow(self, resource: Resource, stream: Stream | None) -> CtrlhostError | None:
        """Follow changes until the only way on is a new list, and give the reason where there is one.

        What opening a watch raises, other than that the server is away or busy, is raised.
        """
        # A stream that brought the first list has proved itself already.
        proved = stream is not None
        while True:
            if stream is None:
                stream = self._open(resource)
            end, error = self._consume(stream, proved)
            stream, proved = None, False
            self._check()
            if self.list_wanted.is_set():
                self.list_wanted.clear()
                return None
            if end is not End.REWATCH:
                if end is End.SHORT:
                    log.info("the watch of %s ended at once without an event", resource.name)
                return error if isinstance(error, CtrlhostError) else None

    def _open(self, resource: Resource) -> Stream:
        """Open a watch where the last one ended; wait as long as the server is away or busy, without a new list."""
        while True:
            self._check()
            try:
                return self._wire.watch(resource, self._position.last)
            except CtrlhostError as error:
                self._check()
                if not is_busy(error):
                    raise
                self._away(error)

    def _away(self, error: CtrlhostError) -> None:
        """Say why there is no stream, which may not be why the last one ended, and wait before another try."""
        self._status.set("reconnecting" if self._position.last else "listing", str(error), self._clock.now())
        self._note("watch", error)
        self._wait(error)

    def _consume(self, stream: Stream, proved: bool) -> tuple[End, Exception | None]:
        started, before, silent = self._clock.now(), self._position.last, True
        self._status.watches += 1
        self._status.set("watching", "", started)
        left_over, self._left_over = self._left_over, None
        error: Exception | None = None if left_over is None else error_from_status(left_over)
        try:
            read = self._reader(stream)
            while error is None and (progress := read()) is not None:
                silent = False
                self._fed()
                self._heard(progress)
                self._position.last = self._status.resource_version = progress.resource_version
                if progress.error is not None:
                    error = error_from_status(progress.error)
        except (CtrlhostError, ValueError) as raised:
            error = raised
        finally:
            stream.close()
            error = self._finish(error)
        self._check()
        self._status.set("reconnecting", str(error) if error else "", self._clock.now())
        if error is not None:
            self._note("watch", error)
        # What comes again and again, and leads nowhere, is no reason to hurry back.
        went_well = proved or self._position.last != before or self._clock.now() - started >= _SHORT
        self._silent = self._silent + 1 if silent and isinstance(error, TransportError) else 0
        if self._silent >= _SILENCES:
            # A server that was put back to an earlier state keeps such a watch open and sends nothing, not even
            # bookmarks, until it has counted up to the version that was asked for. Only a list brings that to light.
            self._silent = 0
            return End.RELIST, error
        return self._decide(error, went_well), error

    def _reader(self, stream: Stream) -> Callable[[], WatchProgress | None]:
        """Give what passes on what comes next, up to the handlers, and gives None at the end of the stream."""
        if isinstance(stream, FollowedStream):
            return partial(stream.follow, self._engine, self._linger)
        return partial(self._fed_by, stream)

    def _fed_by(self, stream: Stream) -> WatchProgress | None:
        if not (chunk := stream.read()):
            return None
        progress = self._engine.feed_watch(chunk)
        self._engine.process()
        return progress

    def _finish(self, error: Exception | None) -> Exception | None:
        """Tell the engine that the stream is over; a frame that was cut is the error, unless there is one already."""
        with contextlib.suppress(Stopped):
            try:
                self._engine.end_watch()
                self._engine.process()
            except (CtrlhostError, ValueError) as raised:
                error = error or raised
            # Frames before a broken one count, else they would come again and the cache go back in time.
            self._position.last = self._status.resource_version = self._engine.last_resource_version
        return error

    def _decide(self, error: Exception | None, went_well: bool) -> End:
        if isinstance(error, TooManyRequests):
            self._wait(error)
            return End.REWATCH
        if isinstance(error, ApiError):
            again = error.status == 500 and error.reason == "InternalError" and self._window.failed()
            return End.REWATCH if again else End.RELIST
        if error is not None and not isinstance(error, TransportError) and not went_well:
            return End.RELIST
        return End.REWATCH if went_well else End.SHORT

    def _heard(self, progress: WatchProgress) -> int:
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
            self._skips.look()
        return progress.events

    def _check(self) -> None:
        if self._stopping():
            raise Stopped
