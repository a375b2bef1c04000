"""The status pages, with the paths, the status codes and the headers that the provider knows from upstream."""

from __future__ import annotations

import json
import platform
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ctrlhost_hostname.prepared import PreparedPages, PreparedResult

MANAGED_HOSTNAMES = "/managed-hostnames"
IGNORE_LIST = "/ignore-list"

_TEXT = "text/plain; charset=utf-8"


def status_pages(pages: PreparedPages) -> ASGIApp:
    """Build the pages as an ASGI application, which may be mounted under any path.

    It is written by hand since a router would answer HEAD, which upstream refuses with 405.
    """
    version = version_document()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        await _respond(path, scope["method"], pages, version)(scope, receive, send)

    return application


def version_document() -> bytes:
    """Encode what `/version` answers, under upstream's keys."""
    document: dict[str, Any] = {
        "name": "ctrlhost",
        "server_name": "ctrlhost-hostname",
        "version": ctrlhost.__version__,
        "commit": "",
        "build_tags": "",
        "go": f"{platform.python_implementation()} {platform.python_version()} {platform.system().lower()}",
        "build_deps": None,
        "cosmos_sdk_version": "",
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _respond(
    path: str, method: str, pages: PreparedPages, version: bytes
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Choose the answer to one request."""
    if path == "/health":
        return _text(b"OK")
    prepared = pages.get(path)
    if prepared is None and path != "/version":
        return _text(b"404 page not found\n", status=404)
    if method != "GET":
        return Response(status_code=405)
    return _text(version) if prepared is None else _prepared(prepared)


def _prepared(result: PreparedResult) -> Response:
    """Answer with the bytes that were prepared last, or with 204 before there are any."""
    headers = {"Cache-Control": "no-cache, max-age=0"}
    data, prepared_at = result.get()
    if not data:
        return Response(status_code=204, headers=headers)
    headers["Last-Modified"] = formatdate(prepared_at, usegmt=True)
    return _text(data, headers=headers)


def _text(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status_code=status, headers=headers, media_type=_TEXT)
