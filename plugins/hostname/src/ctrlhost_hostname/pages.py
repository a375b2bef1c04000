"""The status pages: JSON as Go encodes it, the data prepared for each page, and the HTTP responses."""

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
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send


ZERO_TIME = "0001-01-01 00:00:00 +0000 UTC"

_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"},
)


def to_json(entries: Mapping[str, Any]) -> bytes:
    """Encode compactly with sorted top-level keys, the characters of HTML escaped, and a newline at the end."""
    ordered = {key: entries[key] for key in sorted(entries, key=lambda key: key.encode("utf-8", "replace"))}
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    # Outside strings JSON has none of these characters, so the text can be translated as a whole.
    return text.translate(_ESCAPES).encode("utf-8", "replace") + b"\n"


def go_time(timestamp: float | None) -> str:
    """Write seconds since the epoch as Go's `time.Time` prints them, in UTC; None is Go's zero time."""
    if timestamp is None:
        return ZERO_TIME
    moment = datetime.fromtimestamp(timestamp, UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


LONGEST = 8 * 1024 * 1024


class Prepared(NamedTuple):
    """What a page serves; `prepared_at` is in seconds since the epoch. Empty bytes: nothing was prepared yet."""

    data: bytes
    prepared_at: float


class PreparedResult:
    """The data of one page. All methods may be called from any thread."""

    def __init__(self, clock: ctrlhost.Clock) -> None:
        """Start empty and clean."""
        self._clock = clock
        self._lock = threading.Lock()
        self._dirty = False
        self._prepared = Prepared(b"", clock.time())

    @property
    def dirty(self) -> bool:
        """Whether the data has to be prepared anew."""
        with self._lock:
            return self._dirty

    def flag(self) -> None:
        """Say that what the page shows has changed."""
        with self._lock:
            self._dirty = True

    def get(self) -> Prepared:
        """Give what was prepared last."""
        with self._lock:
            return self._prepared

    def set(self, data: bytes) -> None:
        """Store freshly prepared bytes, cut at 8 MiB, and be clean."""
        with self._lock:
            self._store(data)
            self._dirty = False

    def refresh(self, prepare: Callable[[], bytes]) -> bool:
        """Prepare if the page is dirty and say whether that was so; what `prepare` raises leaves the page dirty."""
        with self._lock:
            if not self._dirty:
                return False
            # Cleared first: a change while `prepare` runs must make the page dirty again.
            self._dirty = False
        try:
            data = prepare()
        except BaseException:
            self.flag()
            raise
        with self._lock:
            self._store(data)
        return True

    def _store(self, data: bytes) -> None:
        self._prepared = Prepared(data[:LONGEST], self._clock.time())


class PreparedPages:
    """The prepared results by path."""

    def __init__(self, clock: ctrlhost.Clock) -> None:
        """Start without pages."""
        self._clock = clock
        self._pages: dict[str, tuple[PreparedResult, Callable[[], bytes]]] = {}

    def add(self, path: str, prepare: Callable[[], bytes]) -> PreparedResult:
        """Register a page; `ValueError` for a path that is taken or a `prepare` that is None."""
        if path in self._pages:
            raise ValueError(f"prepared result exists for path: {path}")
        if prepare is None:
            raise ValueError("passed nil value for prepare function")
        result = PreparedResult(self._clock)
        self._pages[path] = (result, prepare)
        return result

    def get(self, path: str) -> PreparedResult | None:
        """Give the result of a path, None where there is none."""
        page = self._pages.get(path)
        return page[0] if page else None

    def refresh(self) -> None:
        """Prepare every dirty page. The first failure is raised once the other pages had their turn."""
        failure: Exception | None = None
        for result, prepare in self._pages.values():
            try:
                result.refresh(prepare)
            except Exception as error:  # noqa: BLE001 - raised below, after the other pages
                failure = failure or error
        if failure is not None:
            raise failure


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
