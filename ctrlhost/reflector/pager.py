"""A whole list, page by page, fed to the decoder as it arrives: no page is ever in memory as a whole."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.errors import DecodeError, Expired
from ctrlhost.reflector.progress import ListLog
from ctrlhost.transport.interface import FollowedStream
from ctrlhost.transport.responses import error_from_status

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.engine import Engine, ListMeta
    from ctrlhost.reflector.list_watch import Wire
    from ctrlhost.reflector.resume_point import Position
    from ctrlhost.reflector.skipped import Skips
    from ctrlhost.reflector.status import ReflectorStatus

log = logging.getLogger("ctrlhost.informers.pager")

_LINGER = 0.05
"""Seconds for which a page is taken in without a word here."""


class Pager:
    """Lists one resource into an engine. For use by the reflector's thread."""

    def __init__(
        self, wire: Wire, engine: Engine, position: Position, status: ReflectorStatus, clock: Clock, skips: Skips
    ) -> None:
        """Read from `wire` and stage in `engine`, from where `position` says."""
        self._wire = wire
        self._engine = engine
        self._position = position
        self._status = status
        self._clock = clock
        self._log = ListLog(clock)
        self._skips = skips

    def list(self, resource: Resource) -> None:
        """Stage a whole list and make it the content; on any error what was known stays.

        A continue token that expired is answered with one list without pages, at the version asked for at first.
        """
        self._log.begin()
        version = self._position.list_version()
        limit = self._position.limit(version)
        try:
            try:
                seen, pages = self._pages(resource, version, limit)
            except Expired:
                if self._status.listing == 0:
                    raise
                log.info("the list of %s expired between two pages; listing it in one piece", resource.name)
                seen, pages = self._pages(resource, version, 0)
            self._engine.replace(seen)
        except BaseException:
            self._engine.abort_list()
            raise
        finally:
            self._status.listing, self._status.remaining = 0, None
        self._position.listed(seen, pages, version)
        self._status.lists += 1
        self._status.last_list_at = self._clock.now()
        self._status.resource_version = seen

    def _pages(self, resource: Resource, version: str, limit: int) -> tuple[str, int]:
        """Stage all pages; give the version of the last one and their number."""
        self._engine.begin_list()
        self._status.listing = 0
        token, pages = "", 0
        while True:
            meta = self._page(resource, version, limit, token)
            self._skips.look()
            pages += 1
            self._status.listing += meta.count
            self._status.remaining = meta.remaining_item_count
            token = meta.continue_ or ""
            if not token:
                return meta.resource_version, pages
            self._log.more(resource.name, self._status.listing, self._status.remaining)

    def _page(self, resource: Resource, version: str, limit: int, token: str) -> ListMeta:
        stream = self._wire.list_page(resource, version, limit, token)
        try:
            if isinstance(stream, FollowedStream):
                while stream.feed_list(self._engine, _LINGER):
                    self._status.last_byte_at = self._clock.now()
            else:
                while chunk := stream.read():
                    self._status.last_byte_at = self._clock.now()
                    self._engine.feed_list(chunk)
            return self._engine.end_page()
        except DecodeError as error:
            # A failure may come with a status of 200 once the first bytes are out.
            if error.status is not None:
                raise error_from_status(error.status) from error
            raise
        finally:
            stream.close()
