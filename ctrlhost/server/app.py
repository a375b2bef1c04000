"""The apps of the host's own servers: probes, metrics, queues, and below `/NAME/` the pages of plugins.

`/livez` and `/readyz` are answered by the native listener. Where they share an address, the server's loop answers other
probes itself. Everything else of the host runs on a second loop, and each page on the loop of its plugin.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import math
import re
import time
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from ctrlhost.health import report
from ctrlhost.server.accepted import accepts_gzip, accepts_html
from ctrlhost.server.api import api_app, json_response, problem
from ctrlhost.server.aside import Aside, TooMany
from ctrlhost.server.limits import METRICS, PROBES, STATUS, limited
from ctrlhost.server.relay import relayed
from ctrlhost.server.status_pages import Endpoint, StatusPages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctrlhost.health import Check
    from ctrlhost.server.api import Reported
    from ctrlhost.server.relay import Loop

#: Seconds that a request waits for all checks or collectors of plugins together, and until the first look at them.
PATIENCE = 0.05
#: Seconds for an answer, less than a listener allows, and the most answers at once.
_WAIT, _MOST = 8.0, 8
_LOOK = 0.001
#: An exposition of more bytes is shown for a second at least, and for so many times as long as it took; at most for so
#: many seconds.
_LARGE = 256 << 10
_REST, _LONGEST = 100, 15
#: The policy of a plugin's pages that have none.
_PAGE_POLICY = (
    b"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_POLICY = b"content-security-policy"
_PROBES = ("livez", "readyz", "healthz")


class Inspected(Protocol):
    """The state of a host that the app shows; the methods do not wait, and may be called from any thread."""

    @property
    def reports(self) -> Reported:
        """What `/api/v1` shows."""

    def refresh(self, endpoint: str, plugin: str | None) -> Sequence[Future[None]]:
        """Begin what `answer` shows, unless it is under way; return what ends when it is there."""

    def answer(self, endpoint: str, plugin: str | None) -> Sequence[Check] | None:
        """Return the last checks of `healthz`, or of one plugin; None for an unknown plugin."""

    def begin_scrape(self, accept: str) -> Sequence[Future[None]]:
        """Begin to collect the metrics of plugins, unless this is under way."""

    def scraped(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics, those of plugins as they were collected last, and their content type."""

    def begin_queues(self) -> Sequence[Future[None]]:
        """Begin to ask other processes for `queues`, unless this is under way; return what ends with the answers."""

    def queues(self) -> list[dict[str, Any]]:
        """Return the keys in each controller's queue, those of other processes as they said last."""

    def shards(self) -> dict[str, Any] | None:
        """Return how replicas share keys; None if they do not."""

    def stacks(self) -> str:
        """Return what all threads and tasks of this process do now."""

    def pages(self) -> Mapping[str, Mapping[str, ASGIApp]]:
        """Return the pages of plugins, by plugin and path, which answer from the loops of their plugins."""


def host_app(host: Inspected, loop: Loop, patience: float = PATIENCE, *, metrics: bool = True) -> ASGIApp:
    """Return the app of one address for everything; what is neither a probe nor a page runs on `loop`.

    It waits `patience` s for plugins. Without `metrics`, these have another address.
    """
    others = relayed(_others(host, patience, probes=True, metrics=metrics), loop, "the host")
    return probes_app(host, patience, _pages_or(host, others))


def probes_app(host: Inspected, patience: float = PATIENCE, others: ASGIApp | None = None) -> ASGIApp:
    """Return the app of `healthz` and the probes of one plugin, which passes on other requests, or answers 404."""

    async def probe(request: Request) -> Response:
        endpoint = request.url.path.split("/")[1]
        plugin = request.path_params.get("plugin")
        if refreshed := host.refresh(endpoint, plugin):
            await _soon(refreshed, patience)
        checks = host.answer(endpoint, plugin)
        if checks is None:
            return PlainTextResponse(f"no plugin {plugin}\n", 404)
        status, body = report(endpoint, checks, verbose="verbose" in request.query_params)
        return PlainTextResponse(body, status)

    probes = [Route("/healthz", probe)]
    probes += [Route(f"/{endpoint}/{{plugin}}", probe) for endpoint in ("readyz", "healthz")]
    answering = limited(Starlette(routes=[*probes, _UNKNOWN]), PROBES)

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        mine = others is None or (scope["type"] == "http" and scope["path"].lstrip("/").partition("/")[0] in _PROBES)
        await (answering if others is None or mine else others)(scope, receive, send)

    return chosen


def metrics_app(host: Inspected, patience: float = PATIENCE) -> ASGIApp:
    """Return the app that answers scrapes only."""
    return limited(Starlette(routes=[Route("/metrics", _scrapes(host, patience)), _UNKNOWN]), METRICS)


def status_app(host: Inspected, patience: float = PATIENCE, *, metrics: bool) -> ASGIApp:
    """Return the app of what the host shows without probes; `metrics` may have another address."""
    return _pages_or(host, _others(host, patience, probes=False, metrics=metrics))


def _pages_or(host: Inspected, others: ASGIApp) -> ASGIApp:
    """Return the app of the plugins' pages, which passes on other requests."""

    async def plugin_page(scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request to the plugin's page with the longest matching path; the pages may change at any time."""
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        name, slash, rest = path.lstrip("/").partition("/")
        pages = host.pages().get(name, {})
        if not pages:
            await others(scope, receive, send)
            return
        if not slash:
            # A page's relative links need the trailing slash.
            await PlainTextResponse("", 307, headers={"Location": f"/{name}/"})(scope, receive, send)
            return
        fitting = [page for page in pages if _covers(page, f"/{rest}")]
        if not fitting:
            await PlainTextResponse(f"no page at {path}\n", 404)(scope, receive, send)
            return
        page = max(fitting, key=len)
        below = {**scope, "root_path": f"{scope.get('root_path', '')}/{name}{page.rstrip('/')}"}
        await pages[page](below, receive, _with_policy(send))

    return plugin_page


def _others(host: Inspected, patience: float, *, probes: bool, metrics: bool) -> ASGIApp:
    """Return the app of what may take a while."""
    threads = Aside[Response]("status", _MOST)

    async def queues(request: Request) -> Response:
        if not _is_local(request):
            return PlainTextResponse("only for clients on this machine\n", 403)
        await _soon(host.begin_queues(), patience)
        return await _aside(threads, lambda: json_response(host.queues()))

    async def shards(request: Request) -> Response:
        if not _is_local(request):
            return PlainTextResponse("only for clients on this machine\n", 403)
        return await _aside(threads, lambda: json_response(host.shards() or {"shards": False}))

    async def stacks(request: Request) -> Response:
        if not _is_local(request):
            return PlainTextResponse("only for clients on this machine\n", 403)
        return PlainTextResponse(host.stacks())

    pages = StatusPages(host.reports)

    async def index(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if accepts_html(request.headers.get("accept", "")) and _is_local(request):
            await pages.show(scope, receive, send)
            return
        own = [f"/{probe}" for probe in _PROBES] if probes else []
        own += ["/metrics"] if metrics else []
        own += ["/debug/queues", "/debug/shards", "/debug/stacks", "/api/v1/status"]
        others = [f"/{plugin}{path}" for plugin, paths in host.pages().items() for path in paths]
        response = PlainTextResponse("\n".join([*own, *others, ""]), headers={"Vary": "Accept"})
        await response(scope, receive, send)

    async def status(scope: Scope, receive: Receive, send: Send) -> None:
        if _is_local(Request(scope)):
            await pages.show(scope, receive, send)
        else:
            await PlainTextResponse("only for clients on this machine\n", 403)(scope, receive, send)

    routes: list[BaseRoute] = [
        _below("/api/v1", api_app(host.reports, _is_local)),
        Mount("/api", app=_no_path),
        Mount("/admin", app=_no_path),
        Route("/debug/queues", queues),
        Route("/debug/shards", shards),
        Route("/debug/stacks", stacks),
        Route("/", Endpoint(index)),
        Mount("/assets", app=Endpoint(pages.asset)),
        _below("/status", Endpoint(status)),
    ]
    if metrics:
        routes.append(Route("/metrics", _scrapes(host, patience)))
    return limited(Starlette(routes=[*routes, _UNKNOWN]), STATUS)


def _scrapes(host: Inspected, patience: float) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers `/metrics`. Requests that come at the same time share a scrape and its compression."""
    scrapes: dict[tuple[str, bool], asyncio.Task[Response]] = {}

    def exposed(accept: str, compressed: bool, began: float) -> Response:
        body, content_type = host.scraped(accept)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if len(body) > _LARGE:
            # The listener answers the next scrapes with it.
            age = max(1, math.ceil((time.monotonic() - began) * _REST))
            headers["Cache-Control"] = f"max-age={min(age, _LONGEST)}"
        if compressed:
            # The fastest level: the exposition becomes a tenth of its size.
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        return Response(body, headers=headers)

    async def scrape(accept: str, compressed: bool) -> Response:
        began = time.monotonic()
        try:
            await _soon(host.begin_scrape(accept), patience)
        finally:
            # Those that come from here on wait for another scrape: this one may lack what they have just changed.
            scrapes.pop((accept, compressed), None)
        return exposed(accept, compressed, began)

    async def metrics(request: Request) -> Response:
        wanted = request.headers.get("accept", ""), accepts_gzip(request.headers.get("accept-encoding", ""))
        running = scrapes.get(wanted)
        if running is None:
            running = scrapes[wanted] = asyncio.create_task(scrape(*wanted))
        return await asyncio.shield(running)

    return metrics


def _with_policy(send: Send) -> Send:
    """Return `send` for the answer of a plugin's page."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            if all(name.lower() != _POLICY for name, _ in headers):
                message = {**message, "headers": [*headers, (_POLICY, _PAGE_POLICY)]}
        await send(message)

    return sent


async def _aside(threads: Aside[Response], function: Callable[[], Response]) -> Response:
    """Answer on another thread: a lock of the core must not hold up other requests."""
    try:
        return await threads.call(function, _WAIT)
    except TooMany:
        return PlainTextResponse("too many requests at once\n", 503)
    except TimeoutError:
        return PlainTextResponse(f"no answer within {_WAIT:g} s; `/readyz?verbose` names what hangs\n", 504)


async def _no_path(scope: Scope, receive: Receive, send: Send) -> None:
    await problem(404, "no such path", "the API is below /api/v1")(scope, receive, send)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(f"no page at {scope['path']}\n", 404)(scope, receive, send)


def _below(path: str, app: ASGIApp) -> Mount:
    """Return the route of all paths below one, with line breaks too: a plugin chooses the names of its controllers."""
    mount = Mount(path, app=app)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


_UNKNOWN = _below("/", _unknown)


async def _soon(futures: Sequence[Future[None]], patience: float) -> None:
    """Wait for all of them, but not for long. A callback on one that hangs would remain there."""
    end, pause = time.monotonic() + patience, _LOOK
    while not all(future.done() for future in futures) and (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(pause, left))
        # Beside threads that compute, each look has to wait for the interpreter.
        pause *= 2


def _is_local(request: Request) -> bool:
    """Return whether the client is on this machine: on loopback, or at a Unix socket, which has no address."""
    if request.client is None or not request.client.host:
        return True
    address = ipaddress.ip_address(request.client.host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _covers(page: str, path: str) -> bool:
    return page in ("", "/") or path == page or path.startswith(page.rstrip("/") + "/")
