"""The status pages of a host over HTTP: documents, which an open page asks for again and again, and their assets."""

from __future__ import annotations

import asyncio
import gzip
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ctrlhost.server.accepted import accepts_gzip
from ctrlhost.server.aside import Aside, TooMany
from ctrlhost.server.asset_files import AssetFiles
from ctrlhost.server.page import Address, document, entity_tag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence
    from concurrent.futures import Future

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctrlhost.server.page import Page

#: Seconds for a rendering, less than a listener allows, and for what other processes add to it.
_TIMEOUT, _OTHERS = 8.0, 1.0
#: Seconds for the page of another process, after which this one says that it does not answer.
_ELSEWHERE = 2.5
#: Seconds for which open pages share a rendering; whoever loads a page gets a new one.
_SHARED = 1.0
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

    def __init__(self, host: Rendered) -> None:
        """Show `host`."""
        self._host = host
        self._threads: Aside[_Document] = Aside("page", _MOST)
        #: The last renderings by address, and the loop's time of their start.
        self._renderings: dict[Address, tuple[float, asyncio.Task[_Document]]] = {}

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a page."""
        address = self._address(scope["path"], scope["query_string"].decode("latin-1"))
        other = self._elsewhere(address.path)
        if other is not None and await _answered(other, scope, receive, send):
            return
        response = await self._answer(address, Request(scope))
        await response(scope, receive, send)

    async def asset(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the style or the script."""
        asset = self._files.by_path.get(scope["path"])
        response: Response = PlainTextResponse(f"no page at {scope['path']}\n", 404)
        if asset is not None:
            # The address has a hash of the content.
            headers = {"Cache-Control": "public, max-age=31536000, immutable"}
            response = Response(asset.content, headers=headers, media_type=asset.media_type)
        await response(scope, receive, send)

    def _address(self, path: str, query: str) -> Address:
        """Return the address of a page: viewers whose addresses differ in nothing that it reads share it."""
        path, known = f"/{path.strip('/')}", self._host.parameters(path)
        parameters = {name: value for name, value in parse_qsl(query, keep_blank_values=True) if name in known}
        return Address(path, tuple(sorted(parameters.items())))

    def _elsewhere(self, path: str) -> ASGIApp | None:
        """Return what answers for the page of a controller or a key in another process."""
        parts = path.split("/")
        if len(parts) == 5 and parts[:2] == ["", "status"] and parts[2] in ("controllers", "keys"):
            return self._host.elsewhere(parts[3], _ELSEWHERE)
        return None

    async def _answer(self, address: Address, request: Request) -> Response:
        known = request.headers.get("if-none-match")
        try:
            rendered = await asyncio.shield(self._rendering(address, shared=known is not None))
        except TooMany:
            return PlainTextResponse("too many requests at once\n", 503, {"Retry-After": "1"})
        except TimeoutError:
            return PlainTextResponse(f"no answer within {_TIMEOUT:g} s; `/readyz?verbose` names what hangs\n", 504)
        headers = {"Vary": "Accept, Accept-Encoding", "ETag": rendered.etag}
        if known == rendered.etag:
            return Response(status_code=304, headers=headers)
        body = rendered.body
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            body, headers["Content-Encoding"] = rendered.packed, "gzip"
        return Response(body, rendered.status, headers, "text/html; charset=utf-8")

    def _rendering(self, address: Address, *, shared: bool) -> asyncio.Task[_Document]:
        """Begin to render a page, unless it was rendered a moment ago and that may be `shared`."""
        now = asyncio.get_running_loop().time()
        self._renderings = {key: last for key, last in self._renderings.items() if now - last[0] < _SHARED}
        if shared and (last := self._renderings.get(address)) is not None:
            return last[1]
        task = asyncio.create_task(self._render(address))
        # Without this, an error that nobody waits for any more is logged.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._renderings[address] = now, task
        return task

    async def _render(self, address: Address) -> _Document:
        """Render a page on a thread of its own: a lock of the core must not hold up other requests."""
        path, query = address
        if not path.startswith(("/status/controllers/", "/status/keys/")) and (others := self._host.begin_status()):
            await asyncio.wait([asyncio.wrap_future(other) for other in others], timeout=_OTHERS)
        files = self._files
        return await self._threads.call(
            lambda: _Document(self._host.page(path, dict(query)), files), _TIMEOUT, waits=True
        )

    @cached_property
    def _files(self) -> AssetFiles:
        return AssetFiles()


class _Document:
    """A rendering of a page."""

    def __init__(self, page: Page, files: AssetFiles) -> None:
        self.status = page.status
        self.etag = entity_tag(page)
        self.body = document(page, files.style, files.script)

    @cached_property
    def packed(self) -> bytes:
        """The body with gzip."""
        return gzip.compress(self.body, _LEVEL)


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
    """An ASGI application as the endpoint of a route, which then answers GET and HEAD only."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], refusal: Response | None = None) -> None:
        """Answer by `app`, and other methods by a `refusal`."""
        self._app = app
        self._refusal = refusal or PlainTextResponse("use GET\n", 405, {"Allow": "GET, HEAD"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
        else:
            await self._refusal(scope, receive, send)
