"""The app of the host's own server: probes, metrics, queues, and below `/NAME/` the pages of plugins.

The server's loop answers probes itself. Everything else of the host runs on a second loop, and each page on the loop
of its plugin, so that neither delays a probe.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from ctrlhost.health import report
from ctrlhost.server.relay import relayed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ctrlhost.health import Check
    from ctrlhost.server.relay import Loop

#: Seconds that a request waits for all checks or collectors of plugins together, and until the first look at them.
PATIENCE = 0.05
_LOOK = 0.001


class Inspected(Protocol):
    """The state of a host that the app shows; the methods do not wait, and may be called from any thread."""

    def refresh(self, endpoint: str, plugin: str | None) -> Sequence[Future[None]]:
        """Begin what `answer` shows, unless it is under way; return what ends when it is there."""

    def answer(self, endpoint: str, plugin: str | None) -> Sequence[Check] | None:
        """Return the last checks of `livez`, `readyz` or `healthz`, or of one plugin; None for an unknown plugin."""

    def begin_scrape(self, accept: str) -> Sequence[Future[None]]:
        """Begin to collect the metrics of plugins, unless this is under way."""

    def scraped(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics, those of plugins as they were collected last, and their content type."""

    def begin_queues(self) -> Sequence[Future[None]]:
        """Begin to ask other processes for `queues`, unless this is under way; return what ends with the answers."""

    def queues(self) -> list[dict[str, Any]]:
        """Return the keys in each controller's queue, those of other processes as they said last."""

    def pages(self) -> Mapping[str, Mapping[str, ASGIApp]]:
        """Return the pages of plugins, by plugin and path, which answer from the loops of their plugins."""


def host_app(host: Inspected, loop: Loop, patience: float = PATIENCE) -> ASGIApp:
    """Return the app, in which what is neither a probe nor a page runs on `loop`; it waits `patience` s for plugins."""

    async def probe(request: Request) -> Response:
        endpoint = request.url.path.split("/")[1]
        plugin = request.path_params.get("plugin")
        await _soon(host.refresh(endpoint, plugin), patience)
        checks = host.answer(endpoint, plugin)
        if checks is None:
            return PlainTextResponse(f"no plugin {plugin}\n", 404)
        status, body = report(endpoint, checks, verbose="verbose" in request.query_params)
        return PlainTextResponse(
            body, status, headers={"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        )

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
        await pages[page](below, receive, send)

    others = relayed(_status_app(host, patience), loop, "the host")
    probes = [Route(f"/{endpoint}", probe) for endpoint in ("livez", "readyz", "healthz")]
    probes += [Route(f"/{endpoint}/{{plugin}}", probe) for endpoint in ("readyz", "healthz")]
    return Starlette(routes=[*probes, Mount("/", app=plugin_page)])


def _status_app(host: Inspected, patience: float) -> ASGIApp:
    """Return the app of what may take a while."""
    scrapes: dict[str, asyncio.Task[tuple[bytes, str]]] = {}

    async def scrape(accept: str) -> tuple[bytes, str]:
        await _soon(host.begin_scrape(accept), patience)
        # Those that come from here on wait for another scrape: this one may lack what they have just changed.
        scrapes.pop(accept, None)
        return host.scraped(accept)

    async def metrics(request: Request) -> Response:
        # Requests that come at the same time share a scrape.
        accept = request.headers.get("accept", "")
        running = scrapes.get(accept)
        if running is None:
            running = scrapes[accept] = asyncio.create_task(scrape(accept))
        body, content_type = await asyncio.shield(running)
        return Response(body, headers={"Content-Type": content_type})

    async def queues(request: Request) -> Response:
        if not _is_local(request):
            return PlainTextResponse("only for clients on this machine\n", 403)
        await _soon(host.begin_queues(), patience)
        return JSONResponse(host.queues())

    async def index(_request: Request) -> Response:
        own = ["/livez", "/readyz", "/healthz", "/metrics", "/debug/queues"]
        pages = [f"/{plugin}{path}" for plugin, paths in host.pages().items() for path in paths]
        return PlainTextResponse("\n".join([*own, *pages, ""]))

    async def unknown(request: Request) -> Response:
        return PlainTextResponse(f"no page at {request.url.path}\n", 404)

    routes = [Route("/metrics", metrics), Route("/debug/queues", queues), Route("/", index)]
    return Starlette(routes=[*routes, Route("/{path:path}", unknown, methods=None)])


async def _soon(futures: Sequence[Future[None]], patience: float) -> None:
    """Wait for all of them, but not for long. A callback on one that hangs would remain there."""
    end, pause = time.monotonic() + patience, _LOOK
    while not all(one.done() for one in futures) and (left := end - time.monotonic()) > 0:
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
