"""A whole list, as a stream or page by page, decoded as it arrives: no list is in memory as a whole."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.errors import ApiError, CtrlhostError, DecodeError, Expired, OverBudget, TransportError
from ctrlhost.reflector.progress import ListProgress
from ctrlhost.reflector.resume_point import is_busy, is_unavailable
from ctrlhost.reflector.states import Watching
from ctrlhost.reflector.steps import Read, Steps, Stopped
from ctrlhost.transport.responses import error_from_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ctrlhost.cache import ListMeta
    from ctrlhost.client.resources import Resource
    from ctrlhost.reflector.feed import Feed
    from ctrlhost.reflector.ranges import Ranges
    from ctrlhost.transport.interface import Stream

log = logging.getLogger("ctrlhost.informers.pager")

_TRIES = 8
SHORT_WATCH = 1.0
"""Seconds; a watch that ends sooner, without an event, indicates a fault, not its regular end."""


class NoStreamingList(Exception):
    """The server did not send a streaming list; `lasting` if it does not support them."""

    def __init__(self, cause: Exception | None, *, lasting: bool = False) -> None:
        """Set the cause, for the log."""
        super().__init__(str(cause) if cause else "the stream ended too early")
        self.lasting = lasting


class _Initial(NamedTuple):
    """The end of the initial events: their version, and an ERROR frame in the same piece."""

    version: str
    error: dict[str, Any] | None


class Lists:
    """Replaces the content of an engine with the server's. For use by the reflector."""

    def __init__(self, feed: Feed, wait: Callable[[CtrlhostError], Steps[None]]) -> None:
        """List through `feed`; call `wait` to report that the server is unreachable or busy, and to back off."""
        self._feed = feed
        self._wait = wait
        #: Objects of the complete pages of the current list.
        self._count = 0

    def stream(self, resource: Resource) -> Steps[Watching]:
        """Replace the content from a stream that then continues as a watch (KEP-3157).

        Raises NoStreamingList if the server does not send one; an incomplete one is opened again, a few times.
        """
        feed = self._feed
        for _ in range(_TRIES):
            feed.check()
            feed.check_ranges()
            try:
                version = feed.position.watch_list_version()
                stream = yield from feed.requests.watch(resource, version, initial_events=True)
                initial = yield from self._initial_events(stream, resource.name)
            except CtrlhostError as error:
                feed.engine.abort_list()
                if isinstance(error, OverBudget):
                    raise
                yield from self._retry_stream(error)
                continue
            except Stopped:
                # The engine may have another reflector by now.
                raise
            except BaseException:
                feed.engine.abort_list()
                raise
            if initial is not None:
                stream.set_idle(feed.requests.idle_timeout)
                feed.listed(initial.version, 1, "")
                return Watching(resource, stream, proved=True, error=initial.error)
        raise NoStreamingList(None)

    def _retry_stream(self, error: CtrlhostError) -> Steps[None]:
        """Return to retry the streaming list; raise otherwise."""
        self._feed.check()
        if is_unavailable(error) and not self._feed.position.unavailable:
            self._feed.position.unavailable = True
        elif is_busy(error):
            yield from self._wait(error)
        else:
            # Old servers answer 422, some proxies and aggregated servers 400 or 405, and will do so again.
            lasting = isinstance(error, ApiError) and error.status in (400, 405, 422)
            raise NoStreamingList(error, lasting=lasting) from error

    def _initial_events(self, stream: Stream, name: str) -> Steps[_Initial | None]:
        """Stage events up to their final bookmark, which completes the list; None if the stream ended before."""
        feed = self._feed
        started, events, progressing = feed.clock.now(), 0, ListProgress(feed.clock)
        #: When the first plain bookmark came.
        bookmarked: float | None = None
        feed.engine.begin_list()
        try:
            if feed.shard is not None:
                feed.shard.follow(stream)
            feed.engine.begin_watch(stream.content_type)
            while (progress := (yield Read(stream, feed.engine, "initial"))) is not None:
                events += feed.record(progress)
                if progress.damaged:
                    # One that is in this list already; it comes again with the next one.
                    feed.list_wanted.set()
                feed.status.listing = events
                progressing.report(name, events)
                if progress.initial_events_end:
                    return _Initial(progress.resource_version, progress.error)
                if progress.plain_bookmarks:
                    # It ends nothing. A server that sends nothing but such ones never will: it ignores the parameter.
                    now = feed.clock.now()
                    bookmarked = now if bookmarked is None else bookmarked
                    if now - bookmarked >= feed.requests.initial_idle_timeout:
                        cause = TransportError("the server does not support sendInitialEvents")
                        raise NoStreamingList(cause, lasting=True)
                if progress.error is not None:
                    raise error_from_status(progress.error)
        except BaseException:
            stream.close()
            raise
        finally:
            feed.status.listing = 0
            if feed.shard is not None:
                feed.shard.leave()
        stream.close()
        feed.check()
        feed.engine.abort_list()
        feed.check_ranges()
        if not events and feed.clock.now() - started < SHORT_WATCH:
            raise NoStreamingList(None)
        return None

    def pages(self, resource: Resource) -> Steps[None]:
        """Stage a whole list, then replace the content with it; after an error the content is unchanged.

        If a continue token expires, request one list without pages, at the version of the first request.
        """
        version = self._feed.position.list_version()
        seen, pages = yield from self._complete(resource, version, self._feed.engine.begin_list)
        self._feed.listed(seen, pages, version)

    def part(self, resource: Resource, ranges: Ranges, version: str) -> Steps[str]:
        """Add a list of these ranges to the content, not older than `version`; return its version.

        The resume point stays; after an error the content is unchanged.
        """
        begin = partial(self._feed.engine.begin_range, ranges.pairs)
        seen, _ = yield from self._complete(resource, version, begin)
        return seen

    def _complete(self, resource: Resource, version: str, begin: Callable[[], None]) -> Steps[tuple[str, int]]:
        """Stage a list at a version, which its last page completes; return its version and the number of pages."""
        feed = self._feed
        limit = feed.position.limit(version)
        try:
            try:
                return (yield from self._pages(resource, version, limit, begin))
            except Expired:
                if self._count == 0:
                    raise
                log.info("list of %s expired between two pages; listing without pages", resource.name)
                return (yield from self._pages(resource, version, 0, begin))
        except Stopped:
            # The engine may have another reflector by now.
            raise
        except BaseException:
            feed.engine.abort_list()
            raise
        finally:
            feed.status.listing, feed.status.remaining = 0, None

    def count(self, resource: Resource) -> Steps[int | None]:
        """Return about how many objects a list would have; None if the server does not tell."""
        self._feed.engine.begin_list()
        try:
            meta = yield from self._page(resource, "", 1, "")
        finally:
            self._feed.engine.abort_list()
        remaining = meta.remaining_item_count
        return None if meta.continue_ and remaining is None else meta.count + (remaining or 0)

    def _pages(self, resource: Resource, version: str, limit: int, begin: Callable[[], None]) -> Steps[tuple[str, int]]:
        """Stage all pages, of which the last completes the list; return its version and their number.

        RangesChanged if other ranges are wanted before the last page: the server chooses all pages by one selector.
        """
        feed = self._feed
        begin()
        self._count, progress = 0, ListProgress(feed.clock)
        token, pages = "", 0
        while True:
            meta = yield from self._page(resource, version, limit, token)
            feed.skipped.report()
            pages += 1
            self._count += meta.count
            feed.status.listing = self._count
            feed.status.remaining = meta.remaining_item_count
            token = meta.continue_ or ""
            if feed.shard is not None:
                feed.shard.listed(meta, feed.requests.shard_selector)
            if not token:
                return meta.resource_version, pages
            feed.check_ranges()
            progress.report(resource.name, self._count, feed.status.remaining)

    def _page(self, resource: Resource, version: str, limit: int, token: str) -> Steps[ListMeta]:
        feed = self._feed
        stream = yield from feed.requests.list_page(resource, version, limit, token)
        try:
            feed.engine.begin_page(stream.content_type)
            while (meta := (yield Read(stream, feed.engine, "page"))) is None:
                feed.status.last_byte_at = feed.clock.now()
            listed: ListMeta = meta
            return listed
        except DecodeError as error:
            # A server that fails after the first bytes has already sent the status 200.
            if error.status is not None:
                raise error_from_status(error.status) from error
            raise
        finally:
            stream.close()
