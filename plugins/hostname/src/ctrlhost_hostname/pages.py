"""The status pages: Go's JSON, the prepared data, and the HTTP responses."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

MANAGED_HOSTNAMES, IGNORE_LIST, REMOVAL_BRAKE = "/managed-hostnames", "/ignore-list", "/removal-brake"
MAX_PAGE_BYTES = 8 * 1024 * 1024

_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"},
)
#: The answer of `/version`, under upstream's keys.
_VERSION = {
    "name": "ctrlhost",
    "server_name": "ctrlhost-hostname",
    "version": ctrlhost.__version__,
    "commit": "",
    "build_tags": "",
    "go": f"{platform.python_implementation()} {platform.python_version()} {platform.system().lower()}",
    "build_deps": None,
    "cosmos_sdk_version": "",
}


def to_json(entries: Mapping[str, Any]) -> bytes:
    """Encode like Go, which reads it: compact, with sorted top-level keys, HTML escaped, and a final newline."""
    ordered = {key: entries[key] for key in sorted(entries, key=lambda key: key.encode("utf-8", "replace"))}
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    # JSON has none of these characters outside strings, so the whole text can be translated.
    return text.translate(_ESCAPES).encode("utf-8", "replace") + b"\n"


def go_time(timestamp: float | None) -> str:
    """Format seconds since the epoch like Go's `time.Time`, in UTC; None is Go's zero time."""
    if timestamp is None:
        return "0001-01-01 00:00:00 +0000 UTC"
    moment = datetime.fromtimestamp(timestamp, UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


class PreparedPage:
    """The data of one page, prepared only after a change. All methods may be called from any thread."""

    def __init__(self, clock: ctrlhost.Clock, prepare: Callable[[], bytes]) -> None:
        """Start empty and clean."""
        self._clock = clock
        self._prepare = prepare
        #: Whether the data changed since it was prepared.
        self.dirty = False
        #: The data, empty until they are first prepared, and when that was, in seconds since the epoch.
        self.content = (b"", clock.time())

    def flag(self) -> None:
        """Mark the page dirty."""
        self.dirty = True

    def clear(self) -> None:
        """Drop the content; the next refresh prepares it again if there was any."""
        self.dirty = self.dirty or bool(self.content[0])
        self.content = (b"", self._clock.time())

    def refresh(self) -> None:
        """Prepare a dirty page, cut at 8 MiB; if preparing fails, the page stays dirty."""
        if not self.dirty:
            return
        # Cleared first: a change during `prepare` must make the page dirty again.
        self.dirty = False
        try:
            self.content = (self._prepare()[:MAX_PAGE_BYTES], self._clock.time())
        except BaseException:
            self.flag()
            raise


class PreparedPages:
    """The prepared pages by path."""

    def __init__(self, clock: ctrlhost.Clock) -> None:
        """Start without pages."""
        self._clock = clock
        self._pages: dict[str, PreparedPage] = {}

    def add(self, path: str, prepare: Callable[[], bytes]) -> PreparedPage:
        """Register a page; raises `ValueError` for a path that is taken, or if `prepare` is None."""
        if path in self._pages:
            raise ValueError(f"prepared result exists for path: {path}")
        if prepare is None:
            raise ValueError("passed nil value for prepare function")
        page = self._pages[path] = PreparedPage(self._clock, prepare)
        return page

    def get(self, path: str) -> PreparedPage | None:
        """Return the page at a path, or None."""
        return self._pages.get(path)

    def clear(self) -> None:
        """Drop the content of all pages."""
        for page in self._pages.values():
            page.clear()

    def refresh(self) -> None:
        """Prepare every dirty page; raises the first failure after all pages were tried."""
        failures = []
        for page in self._pages.values():
            try:
                page.refresh()
            except Exception as error:  # noqa: BLE001 - raised below, after the other pages
                failures.append(error)
        if failures:
            raise failures[0]


def status_pages(
    pages: PreparedPages, leader: Callable[[], str | None] = lambda: None, *, index: bool = False
) -> ASGIApp:
    """Return the pages as an ASGI application, which may be mounted under any path; with `index`, `/` lists them.

    `leader` returns None while this replica leads, else the identity of the leader, possibly empty. The prepared pages
    answer 503 then, since only the leader knows what they show.

    Paths, status codes and headers are upstream's, which the provider relies on. There is no router, because it would
    answer HEAD, which upstream rejects with 405.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        root, method = scope.get("root_path", "").rstrip("/"), scope["method"]
        path = scope["path"].removeprefix(root)
        if index and path == "/" and method in ("GET", "HEAD"):
            paths = ("/health", "/version", MANAGED_HOSTNAMES, IGNORE_LIST, REMOVAL_BRAKE)
            response = _text("".join(f"{root}{listed}\n" for listed in paths).encode())
        else:
            response = _respond(path, method, pages, leader)
        await response(scope, receive, send)

    return application


def _respond(path: str, method: str, pages: PreparedPages, leader: Callable[[], str | None]) -> Response:
    if path == "/health":
        return _text(b"OK")
    page = pages.get(path)
    if page is None and path != "/version":
        return _text(b"404 page not found\n", status=404)
    if method != "GET":
        return Response(status_code=405)
    if page is None:
        return _text(json.dumps(_VERSION, separators=(",", ":")).encode() + b"\n")
    headers = {"Cache-Control": "no-cache, max-age=0"}
    data, prepared_at = page.content
    # Asked after the data were read, so that they are those of a leader.
    if (identity := leader()) is not None:
        text = f"standing by; the leader is {identity or 'not known'}\n"
        return _text(text.encode("utf-8", "replace"), status=503, headers=headers)
    if not data:
        return Response(status_code=204, headers=headers)
    return _text(data, headers={**headers, "Last-Modified": formatdate(prepared_at, usegmt=True)})


def _text(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status_code=status, headers=headers, media_type="text/plain; charset=utf-8")
