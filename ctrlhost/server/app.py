"""The app of the host's own server: probes, metrics, queues, and below `/NAME/` the pages of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from ctrlhost.health import report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ctrlhost.health import Check


class Inspected(Protocol):
    """The state of a host that the app shows; all methods may be called from any thread."""

    def checks(self, endpoint: str) -> Sequence[Check]:
        """Return the checks of `livez`, `readyz` or `healthz`; may wait for checks of plugins."""

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their content type."""

    def queues(self) -> list[dict[str, Any]]:
        """Return the keys in each controller's queue."""

    def pages(self) -> Mapping[str, Mapping[str, ASGIApp]]:
        """Return the pages of plugins, by plugin and path."""


def host_app(host: Inspected) -> ASGIApp:
    """Return the app."""

    async def probe(request: Request) -> Response:
        endpoint = request.url.path.strip("/")
        checks = await run_in_threadpool(host.checks, endpoint)
        status, body = report(endpoint, checks, verbose="verbose" in request.query_params)
        return PlainTextResponse(
            body, status, headers={"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        )

    async def metrics(request: Request) -> Response:
        body, content_type = await run_in_threadpool(host.exposition, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    async def queues(_request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(host.queues))

    async def index(_request: Request) -> Response:
        own = ["/livez", "/readyz", "/healthz", "/metrics", "/debug/queues"]
        pages = [f"/{plugin}{path}" for plugin, paths in host.pages().items() for path in paths]
        return PlainTextResponse("\n".join([*own, *pages, ""]))

    routes = [Route(f"/{endpoint}", probe) for endpoint in ("livez", "readyz", "healthz")]
    routes += [Route("/metrics", metrics), Route("/debug/queues", queues), Route("/", index)]

    async def plugin_page(scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request to the plugin's page with the longest matching path; the pages may change at any time."""
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        name, slash, rest = path.lstrip("/").partition("/")
        pages = host.pages().get(name, {})
        if pages and not slash:
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

    return Starlette(routes=[*routes, Mount("/", app=plugin_page)])


def _covers(page: str, path: str) -> bool:
    return page in ("", "/") or path == page or path.startswith(page.rstrip("/") + "/")
