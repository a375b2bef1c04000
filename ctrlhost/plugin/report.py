"""Pages that show what a plugin reports, as an HTML table or as JSON."""

from __future__ import annotations

import html
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from ctrlhost.cache import ListView

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

Content = Mapping[str, Any] | Iterable[Any]
"""One record as a mapping, or rows as mappings or `msgspec.Struct`s with the same fields."""

Report = Callable[[], Content | Awaitable[Content]]
"""Returns the content; an `async def` is awaited."""

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui;margin:2rem}}td,th{{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}}
</style><h1>{title}</h1><table>{rows}</table></html>"""


def report_page(title: str, report: Report, leader: Callable[[], str | None]) -> ASGIApp:
    """Return the ASGI application; `leader` returns whom to ask instead: None for nobody, "" if it is not known."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await _respond(Request(scope), title, report, leader)
            await response(scope, receive, send)

    return app


async def _respond(request: Request, title: str, report: Report, leader: Callable[[], str | None]) -> Response:
    if request.method not in ("GET", "HEAD"):
        return PlainTextResponse("only GET is allowed\n", 405, {"Allow": "GET, HEAD"})
    reported = report()
    rows_or_record = await reported if inspect.isawaitable(reported) else reported
    content = msgspec.to_builtins(_plain(rows_or_record), str_keys=True, enc_hook=_encodable)
    # Checked after the report, so that a leader made the report.
    if (identity := leader()) is not None:
        return PlainTextResponse(f"standing by; the leader is {identity or 'not known'}\n", 503)
    accept = request.headers.get("accept", "")
    if request.query_params.get("format") == "json" or ("application/json" in accept and "text/html" not in accept):
        return Response(msgspec.json.format(msgspec.json.encode(content), indent=2), media_type="application/json")
    rows = _record(content) if isinstance(content, dict) else _table(content)
    return HTMLResponse(_PAGE.format(title=html.escape(title), rows=rows))


def _plain(content: Any) -> Any:
    """Return iterators as lists, which can be converted."""
    return content if isinstance(content, Mapping) else list(content)


def _encodable(value: Any) -> Any:
    """Return a mapping or a list of a cached object, at any depth, as a dict or list; other unknown types as text."""
    if isinstance(value, ListView):
        return value.to_list()
    return dict(value) if isinstance(value, Mapping) else str(value)


def _record(record: dict[str, Any]) -> str:
    return "".join(f"<tr><th>{html.escape(name)}<td>{_cell(value)}</tr>" for name, value in record.items())


def _table(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}" for name in names)
    lines = sorted("".join(f"<td>{_cell(row.get(name, ''))}" for name in names) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<tr>{head}</tr>{body}" if rows else "<tr><td>nothing to report</tr>"


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "<br>".join(_cell(item) for item in value) or "none"
    if isinstance(value, dict):
        return "<br>".join(f"{html.escape(str(name))}: {_cell(item)}" for name, item in value.items())
    return html.escape(str(value))
