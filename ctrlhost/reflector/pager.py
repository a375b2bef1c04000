"""A whole list, page by page, decoded as it arrives: no page is in memory as a whole."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.errors import DecodeError, Expired
from ctrlhost.reflector.progress import ListProgress
from ctrlhost.reflector.steps import Read, Steps, Stopped
from ctrlhost.transport.responses import error_from_status

if TYPE_CHECKING:
    from ctrlhost.cache import ListMeta, SharedInformer
    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.list_watch import ListWatch
    from ctrlhost.reflector.resume_point import ResumePoint
    from ctrlhost.reflector.skipped import SkippedObjects
    from ctrlhost.reflector.status import ReflectorStatus

log = logging.getLogger("ctrlhost.informers.pager")


class Pager:
    """Lists one resource into an engine. For use by the reflector."""

    def __init__(
        self,
        requests: ListWatch,
        engine: SharedInformer,
        position: ResumePoint,
        status: ReflectorStatus,
        clock: Clock,
        skipped: SkippedObjects,
    ) -> None:
        """Read from `requests` and stage in `engine`, at the version of `position`."""
        self._requests = requests
        self._engine = engine
        self._position = position
        self._status = status
        self._clock = clock
        self._skipped = skipped
        #: Objects of the complete pages of the current list.
        self._count = 0

    def list(self, resource: Resource) -> Steps[None]:
        """Stage a whole list, then replace the content with it; after an error the content is unchanged.

        If a continue token expires, request one list without pages, at the version of the first request.
        """
        version = self._position.list_version()
        limit = self._position.limit(version)
        try:
            try:
                seen, pages = yield from self._pages(resource, version, limit)
            except Expired:
                if self._count == 0:
                    raise
                log.info("list of %s expired between two pages; listing without pages", resource.name)
                seen, pages = yield from self._pages(resource, version, 0)
        except Stopped:
            # The engine may have another reflector by now.
            raise
        except BaseException:
            self._engine.abort_list()
            raise
        finally:
            self._status.listing, self._status.remaining = 0, None
        self._position.listed(seen, pages, version)
        self._status.listed(seen, self._clock.now())

    def count(self, resource: Resource) -> Steps[int | None]:
        """Return about how many objects a list would have; None if the server does not tell."""
        self._engine.begin_list()
        try:
            meta = yield from self._page(resource, "", 1, "")
        finally:
            self._engine.abort_list()
        remaining = meta.remaining_item_count
        return None if meta.continue_ and remaining is None else meta.count + (remaining or 0)

    def _pages(self, resource: Resource, version: str, limit: int) -> Steps[tuple[str, int]]:
        """Stage all pages, of which the last completes the list; return its version and their number."""
        self._engine.begin_list()
        self._count, progress = 0, ListProgress(self._clock)
        token, pages = "", 0
        while True:
            meta = yield from self._page(resource, version, limit, token)
            self._skipped.report()
            pages += 1
            self._count += meta.count
            self._status.listing = self._count
            self._status.remaining = meta.remaining_item_count
            token = meta.continue_ or ""
            if not token:
                return meta.resource_version, pages
            progress.report(resource.name, self._count, self._status.remaining)

    def _page(self, resource: Resource, version: str, limit: int, token: str) -> Steps[ListMeta]:
        stream = yield from self._requests.list_page(resource, version, limit, token)
        try:
            self._engine.begin_page(stream.content_type)
            while (meta := (yield Read(stream, self._engine, "page"))) is None:
                self._status.last_byte_at = self._clock.now()
            listed: ListMeta = meta
            return listed
        except DecodeError as error:
            # A server that fails after the first bytes has already sent the status 200.
            if error.status is not None:
                raise error_from_status(error.status) from error
            raise
        finally:
            stream.close()
