"""The status pages: Go's JSON, the prepared data, and the HTTP responses."""

from __future__ import annotations

import json
import platform
import threading
from datetime import UTC, datetime
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import Response

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

MANAGED_HOSTNAMES = "/managed-hostnames"
IGNORE_LIST = "/ignore-list"
REMOVAL_BRAKE = "/removal-brake"
MAX_PAGE_BYTES = 8 * 1024 * 1024
ZERO_TIME = "0001-01-01 00:00:00 +0000 UTC"

_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"},
)


def to_json(entries: Mapping[str, Any]) -> bytes:
    """Encode like Go, which reads it: compact, with sorted top-level keys, HTML escaped, and a final newline."""
    ordered = {key: entries[key] for key in sorted(entries, key=lambda key: key.encode("utf-8", "replace"))}
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    # JSON has none of these characters outside strings, so the whole text can be translated.
    return text.translate(_ESCAPES).encode("utf-8", "replace") + b"\n"


def go_time(timestamp: float | None) -> str:
    """Format seconds since the epoch like Go's `time.Time`, in UTC; None is Go's zero time."""
    if timestamp is None:
        return ZERO_TIME
    moment = datetime.fromtimestamp(timestamp, UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


class Prepared(NamedTuple):
    """The content of a page; `prepared_at` is in seconds since the epoch. Empty until it is first prepared."""

    data: bytes
    prepared_at: float


class PreparedPage:
    """The data of one page, prepared only after a change. All methods may be called from any thread."""

    def __init__(self, clock: ctrlhost.Clock, prepare: Callable[[], bytes]) -> None:
        """Start empty and clean."""
        self._clock = clock
        self._prepare = prepare
        self._lock = threading.Lock()
        self._dirty = False
        self._prepared = Prepared(b"", clock.time())

    @property
    def dirty(self) -> bool:
        """Whether the data changed since it was prepared."""
        with self._lock:
            return self._dirty

    def flag(self) -> None:
        """Mark the page dirty."""
        with self._lock:
            self._dirty = True

    def get(self) -> Prepared:
        """Return the last prepared content."""
        with self._lock:
            return self._prepared

    def clear(self) -> None:
        """Drop the content; the next refresh prepares it again if there was any."""
        with self._lock:
            self._dirty = self._dirty or bool(self._prepared.data)
            self._prepared = Prepared(b"", self._clock.time())

    def refresh(self) -> None:
        """Prepare a dirty page, cut at 8 MiB; if preparing fails, the page stays dirty."""
        with self._lock:
            if not self._dirty:
                return
            # Cleared first: a change during `prepare` must make the page dirty again.
            self._dirty = False
        try:
            data = self._prepare()
        except BaseException:
            self.flag()
            raise
        with self._lock:
            self._prepared = Prepared(data[:MAX_PAGE_BYTES], self._clock.time())


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
        failure: Exception | None = None
        for page in self._pages.values():
            try:
                page.refresh()
            except Exception as error:  # noqa: BLE001 - raised below, after the other pages
                failure = failure or error
        if failure is not None:
            raise failure


def status_pages(pages: PreparedPages, leader: Callable[[], str | None] = lambda: None) -> ASGIApp:
    """Return the pages as an ASGI application, which may be mounted under any path.

    `leader` returns None while this replica leads, else the identity of the leader, possibly empty. The prepared pages
    answer 503 then, since only the leader knows what they show.

    Paths, status codes and headers are upstream's, which the provider relies on. There is no router, because it would
    answer HEAD, which upstream rejects with 405.
    """
    version = version_document()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        await _respond(path, scope["method"], pages, version, leader)(scope, receive, send)

    return application


def with_index(application: ASGIApp) -> ASGIApp:
    """Return the application of the pages below the host's server, where `/` lists the pages.

    On the plugin's own address `/` is 404, as upstream's.
    """
    paths = ("/health", "/version", MANAGED_HOSTNAMES, IGNORE_LIST, REMOVAL_BRAKE)

    async def indexed(scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "").rstrip("/")
        if scope["type"] == "http" and scope["path"].removeprefix(root) == "/" and scope["method"] in ("GET", "HEAD"):
            listed = "".join(f"{root}{path}\n" for path in paths)
            await Response(listed, media_type="text/plain; charset=utf-8")(scope, receive, send)
        else:
            await application(scope, receive, send)

    return indexed


def version_document() -> bytes:
    """Encode the answer of `/version`, under upstream's keys."""
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
    path: str, method: str, pages: PreparedPages, version: bytes, leader: Callable[[], str | None]
) -> Response:
    if path == "/health":
        return _text(b"OK")
    page = pages.get(path)
    if page is None and path != "/version":
        return _text(b"404 page not found\n", status=404)
    if method != "GET":
        return Response(status_code=405)
    if page is None:
        return _text(version)
    headers = {"Cache-Control": "no-cache, max-age=0"}
    data, prepared_at = page.get()
    # Asked after the data were read, so that they are those of a leader.
    if (identity := leader()) is not None:
        text = f"standing by; the leader is {identity or 'not known'}\n"
        return _text(text.encode("utf-8", "replace"), status=503, headers=headers)
    if not data:
        return Response(status_code=204, headers=headers)
    return _text(data, headers={**headers, "Last-Modified": formatdate(prepared_at, usegmt=True)})


def _text(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status_code=status, headers=headers, media_type="text/plain; charset=utf-8")
