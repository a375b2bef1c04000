"""Server-sent events with what changes on the host's pages: each page is rendered once a second for all who look at it.

While nobody looks at a page, it is not rendered.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.server.aside import TooMany

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ctrlhost.server.page import Address, Page, Section

log = logging.getLogger("ctrlhost.server")

#: Seconds between two renderings, and without an event until a comment shows that the connection works.
PERIOD, COMMENT = 1.0, 15.0
#: Milliseconds after which a browser connects again.
_RETRY = 2000
#: Versions for which it is known which rows have gone; the order of the rows says so to those who are further behind.
_GONE = 120


class Streams:
    """The pages that somebody looks at, by their addresses. Belongs to one event loop."""

    def __init__(self, render: Callable[[Address], Awaitable[Page]], period: float = PERIOD) -> None:
        """Render pages with this function, every `period` s."""
        self._render = render
        self._period = period
        self._followed: dict[Address, Followed] = {}

    @asynccontextmanager
    async def follow(self, address: Address) -> AsyncIterator[Followed]:
        """Render the page of an address until nobody follows it any more."""
        followed = self._followed.get(address)
        if followed is None:
            followed = self._followed[address] = Followed()
            followed.task = asyncio.create_task(self._run(address, followed))
        followed.viewers += 1
        try:
            yield followed
        finally:
            followed.viewers -= 1
            if not followed.viewers:
                del self._followed[address]
                if followed.task is not None:
                    followed.task.cancel()

    async def _run(self, address: Address, followed: Followed) -> None:
        loop, failed = asyncio.get_running_loop(), False
        # Pages that were opened together are not rendered together from then on.
        due = loop.time() - self._period * random.random()  # noqa: S311 - spreads the work
        while True:
            try:
                followed.take(await self._render(address))
                failed = False
            except (TooMany, TimeoutError):
                # The page shows when it was current last.
                pass
            except Exception as error:
                if not failed:
                    log.exception("the page %s cannot be rendered: %s", address.path, error)
                failed = True
            due = max(due + self._period, loop.time())
            await asyncio.sleep(due - loop.time())


class _Rows:
    """The rows of a section, each with the version in which it was new."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, int]] = {}
        self.order: list[str] = []
        self.ordered = 0
        self.gone: dict[str, int] = {}

    def take(self, section: Section, version: int) -> bool:
        """Take a newer rendering; return whether something has changed."""
        before, self.rows = self.rows, {}
        changed = False
        for row in section.rows:
            known = before.pop(row.id, None)
            if known is None or known[0] != row.html:
                known, changed = (row.html, version), True
            self.rows[row.id] = known
            self.gone.pop(row.id, None)
        self.gone.update(dict.fromkeys(before, version))
        self.gone = {one: at for one, at in self.gone.items() if at > version - _GONE}
        order = list(self.rows)
        if order != self.order:
            self.order, self.ordered, changed = order, version, True
        return changed

    def since(self, name: str, seen: int) -> dict[str, Any] | None:
        """Return what has changed since a version; None if nothing has."""
        rows = [{"id": one, "html": str(html)} for one, (html, version) in self.rows.items() if version > seen]
        gone = [one for one, version in self.gone.items() if version > seen]
        if not rows and not gone and self.ordered <= seen:
            return None
        found: dict[str, Any] = {"section": name, "rows": rows, "gone": gone}
        return found | {"order": self.order} if self.ordered > seen else found


class Followed:
    """One page that somebody looks at."""

    def __init__(self) -> None:
        """Start without a rendering."""
        self.viewers = 0
        self.task: asyncio.Task[None] | None = None
        #: The status of HTTP of the last rendering, and its title; 0 before the first.
        self.status, self.title = 0, ""
        self._version = 0
        self._sections: dict[str, _Rows] = {}
        self._changed = asyncio.Event()
        #: The events for those who have seen a version.
        self._encoded: dict[int, bytes] = {}

    def take(self, page: Page) -> None:
        """Take a newer rendering."""
        self.status, self.title = page.status, page.title
        version = self._version + 1
        # Not `any`: each section has to be taken.
        changed = [self._sections.setdefault(one.name, _Rows()).take(one, version) for one in page.sections]
        if any(changed) or not self._version:
            self._version = version
            self._encoded.clear()
            self._changed.set()
            self._changed = asyncio.Event()

    async def first(self) -> None:
        """Wait for the first rendering."""
        if not self._version:
            await self._changed.wait()

    async def events(self) -> AsyncIterator[bytes]:
        """Return the events for one viewer: the whole page, and then always the newest state, when the viewer reads."""
        yield b"retry: %d\n\n" % _RETRY
        seen = 0
        while True:
            if self._version == seen:
                try:
                    async with asyncio.timeout(COMMENT):
                        await self._changed.wait()
                except TimeoutError:
                    yield b":\n\n"
                continue
            now = self._version
            yield self._since(seen)
            seen = now

    def _since(self, seen: int) -> bytes:
        if seen not in self._encoded:
            found = [rows.since(name, seen) for name, rows in self._sections.items()]
            events = [b"event: rows\ndata: " + msgspec.json.encode(one) + b"\n\n" for one in found if one is not None]
            self._encoded[seen] = b"".join(events)
        return self._encoded[seen]
