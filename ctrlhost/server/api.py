"""The JSON of `/api/v1`: what an operator sees of the host. Errors are `{"error": …, "hint": …}`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ctrlhost.controller.error_text import encodable
from ctrlhost.server.aside import Aside, TooMany
from ctrlhost.server.status_pages import Endpoint, Rendered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    Respond = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Seconds for an answer, less than a listener allows, and for what other processes add to it.
_TIMEOUT, _OTHERS = 8.0, 1.0
#: Requests that are answered at once.
_MOST = 8
_HINTS = {
    404: "paths: /status, /causes/PLUGIN/NAME, /queues/PLUGIN/NAME, /keys/PLUGIN/NAME?key=KEY, /series/PLUGIN/NAME",
    405: "use GET",
}


class Reported(Rendered, Protocol):
    """What the API and the pages show. All but `begin_status` and `elsewhere` may wait; callable from any thread."""

    def status_json(self) -> bytes:
        """Return the status of the host, those of other processes as they said last."""

    def queue_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the status of HTTP and a part of a queue, or a problem."""

    def causes_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the status of HTTP and the causes for which keys of a controller fail, or a problem."""

    def key_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the status of HTTP and why a key is not being reconciled, or a problem."""

    def series_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the status of HTTP and the samples of a controller, or a problem."""


def api_app(host: Reported, is_allowed: Callable[[Request], bool]) -> ASGIApp:
    """Return the application for the paths below `/api/v1`; requests that are not allowed are answered 403."""
    threads = Aside[tuple[int, bytes]]("status", _MOST)

    async def aside(function: Callable[[], tuple[int, bytes]]) -> Response:
        """Answer on a thread of its own: a lock of the core must not hold up other requests."""
        try:
            status, body = await threads.call(function, _TIMEOUT)
        except TooMany:
            return problem(503, "too many requests at once", "try again in a second")
        except TimeoutError:
            return problem(504, f"no answer within {_TIMEOUT:g} s", "`/readyz?verbose` names what hangs")
        return Response(body, status, media_type="application/json")

    async def status(_request: Request) -> Response:
        if others := host.begin_status():
            await asyncio.wait([asyncio.wrap_future(other) for other in others], timeout=_OTHERS)
        return await aside(lambda: (200, host.status_json()))

    def of_controller(
        answer: Callable[[str, str, dict[str, str]], tuple[int, bytes]],
    ) -> Endpoint:
        async def respond(request: Request) -> Response:
            plugin, name = request.path_params["plugin"], request.path_params["name"]
            query = dict(request.query_params)
            return await aside(lambda: answer(plugin, name, query))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            other = host.elsewhere(scope["path_params"]["plugin"], _TIMEOUT)
            if other is not None:
                await other(scope, receive, send)
                return
            response = await respond(Request(scope, receive, send))
            await response(scope, receive, send)

        return Endpoint(app, problem(405, "no such method", _HINTS[405]))

    async def failed(_request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        text = {404: "no such path", 405: "no such method"}.get(code, "the request failed")
        return problem(code, text, _HINTS.get(code))

    routes = [
        Route("/status", status),
        Route("/queues/{plugin}/{name}", of_controller(host.queue_json)),
        Route("/causes/{plugin}/{name}", of_controller(host.causes_json)),
        Route("/keys/{plugin}/{name}", of_controller(host.key_json)),
        Route("/series/{plugin}/{name}", of_controller(host.series_json)),
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: failed, 500: failed})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if is_allowed(Request(scope)):
            await inner(scope, receive, send)
        else:
            hint = "in a cluster, use `kubectl port-forward`"
            await problem(403, "only for clients on this machine", hint)(scope, receive, send)

    return app


def problem(status: int, error: str, hint: str | None = None) -> Response:
    """Return the answer to a request that cannot be answered."""
    return json_response({"error": error, "hint": hint}, status)


def json_response(content: Any, status: int = 200) -> Response:
    """Return an answer with JSON, whatever texts of a plugin are in it."""
    text = encodable(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
    return Response(text, status, media_type="application/json")
