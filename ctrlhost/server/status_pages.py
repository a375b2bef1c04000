"""The status pages of a host over HTTP: documents, their assets, and event streams."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ctrlhost.server.accepted import accepts_gzip
from ctrlhost.server.aside import Aside, TooMany
from ctrlhost.server.asset_files import AssetFiles
from ctrlhost.server.page import Address, document
from ctrlhost.server.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence
    from concurrent.futures import Future

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctrlhost.server.page import Page

    #: Makes the answer to a request for JSON that cannot be answered, of a status, an error and a hint.
    Problem = Callable[[int, str, str | None], Response]

#: Seconds for a rendering, less than a listener allows, and for what other processes add to it.
_TIMEOUT, _OTHERS = 8.0, 1.0
#: Seconds for the page of another process, after which this one says that it does not answer.
_ELSEWHERE = 2.5
#: Renderings at once.
_MOST = 8
#: How much processor time the compression of a page takes, from 1 to 9.
_LEVEL = 5
#: Answers of the process of a plugin that does not run, or hangs.
_DOWN = frozenset({502, 503, 504})


class Rendered(Protocol):
    """What the pages show; callable from any thread."""

    def begin_status(self) -> Sequence[Future[None]]:
        """Begin to ask other processes for their status, unless this is under way.

        Return what ends with that, for the processes whose last answer came in time.
        """

    def elsewhere(self, plugin: str, seconds: float) -> ASGIApp | None:
        """Return the application that answers for a plugin in another process within a time; None for others."""

    def parameters(self, path: str) -> Collection[str]:
        """Return the names of the parameters that the page at a path reads."""

    def page(self, path: str, query: dict[str, str]) -> Page:
        """Return the page at a path; may wait."""


class StatusPages:
    """The pages of one host. Belongs to one event loop; nothing here waits for locks of the core."""

    def __init__(self, host: Rendered, problem: Problem) -> None:
        """Show `host`; requests for a stream that cannot be answered get a `problem`."""
        self._host = host
        self._problem = problem
        self._threads: Aside[Page] = Aside("page", _MOST)
        self._assets: AssetFiles | None = None
        self._streams = Streams(self._render)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a page."""
        address = self._address(scope["path"], scope["query_string"].decode("latin-1"))
        other = self._elsewhere(address.path)
        if other is not None and not await _answered(other, scope, receive, send):
            other = None
        if other is None:
            packs = accepts_gzip(Request(scope).headers.get("accept-encoding", ""))
            response = await self._document(address, packs=packs)
            await response(scope, receive, send)

    async def asset(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the style or the script."""
        found = self._files().by_path.get(scope["path"])
        response: Response = PlainTextResponse(f"no page at {scope['path']}\n", 404)
        if found is not None:
            # The address has a hash of the content.
            headers = {"Cache-Control": "public, max-age=31536000, immutable"}
            response = Response(found.content, headers=headers, media_type=found.media_type)
        await response(scope, receive, send)

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the events of the page in the parameter `page`."""
        path, _, query = Request(scope).query_params.get("page", "/").partition("?")
        address = self._address(unquote(path), query)
        if (other := self._elsewhere(address.path)) is not None:
            await other(scope, receive, send)
            return
        async with self._streams.follow(address) as followed:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await followed.first()
            except TimeoutError:
                response = self._problem(504, f"no answer within {_TIMEOUT:g} s", "`/readyz?verbose` names what hangs")
            else:
                if scope["method"] == "HEAD":
                    # Nobody reads what would never end.
                    response = Response(status_code=followed.status, media_type="text/event-stream")
                elif followed.status == 200:
                    response = StreamingResponse(followed.events(), media_type="text/event-stream")
                else:
                    hint = "`page` is the path of a page, with its query"
                    response = self._problem(followed.status, followed.title, hint)
            await response(scope, receive, send)

    def _address(self, path: str, query: str) -> Address:
        """Return the address of a page: viewers whose addresses differ in nothing that it reads share it."""
        path, known = f"/{path.strip('/')}", self._host.parameters(path)
        found = {name: value for name, value in parse_qsl(query, keep_blank_values=True) if name in known}
        return Address(path, tuple(sorted(found.items())))

    def _elsewhere(self, path: str) -> ASGIApp | None:
        """Return what answers for the page of a controller or a key in another process."""
        parts = path.split("/")
        if len(parts) == 5 and parts[:2] == ["", "status"] and parts[2] in ("controllers", "keys"):
            return self._host.elsewhere(parts[3], _ELSEWHERE)
        return None

    async def _document(self, address: Address, *, packs: bool) -> Response:
        files = self._files()
        try:
            page = await self._render(address)
        except TooMany:
            return PlainTextResponse("too many requests at once\n", 503, {"Retry-After": "1"})
        except TimeoutError:
            return PlainTextResponse(f"no answer within {_TIMEOUT:g} s; `/readyz?verbose` names what hangs\n", 504)
        body, headers = document(page, files.style, files.script), {"Vary": "Accept, Accept-Encoding"}
        if packs:
            body, headers["Content-Encoding"] = gzip.compress(body, _LEVEL), "gzip"
        return Response(body, page.status, headers, "text/html; charset=utf-8")

    async def _render(self, address: Address) -> Page:
        """Render a page on a thread of its own: a lock of the core must not hold up other requests."""
        path, query = address
        if not path.startswith(("/status/controllers/", "/status/keys/")) and (others := self._host.begin_status()):
            await asyncio.wait([asyncio.wrap_future(one) for one in others], timeout=_OTHERS)
        return await self._threads.call(lambda: self._host.page(path, dict(query)), _TIMEOUT, waits=True)

    def _files(self) -> AssetFiles:
        if self._assets is None:
            self._assets = AssetFiles()
        return self._assets


async def _answered(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> bool:
    """Run an app; False without an answer if it says that its process is down."""
    down = False

    async def passed(message: Message) -> None:
        nonlocal down
        if message["type"] == "http.response.start":
            down = message["status"] in _DOWN
        if not down:
            await send(message)

    await app(scope, receive, passed)
    return not down


class Endpoint:
    """An ASGI application that answers GET and HEAD only."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        """Answer by `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse("use GET\n", 405, {"Allow": "GET, HEAD"})(scope, receive, send)
