"""The plugin's page: what is published and how far it has come, as HTML and as JSON."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ingress-status</title>
<style>body{{font:15px/1.5 system-ui;margin:2rem}}td,th{{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}}
</style><h1>Addresses of Ingresses</h1><table>{rows}</table></html>"""


def page(report: Callable[[], dict[str, Any]]) -> ASGIApp:
    """Create the ASGI application; `report` returns its content."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].endswith(".json"):
            response = Response(json.dumps(report(), indent=2), media_type="application/json")
        else:
            rows = "".join(f"<tr><th>{html.escape(name)}<td>{_cell(value)}</tr>" for name, value in report().items())
            response = HTMLResponse(_PAGE.format(rows=rows))
        await response(scope, receive, send)

    return app


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "<br>".join(_cell(one) for one in value) or "none"
    if isinstance(value, dict):
        return "<br>".join(f"{html.escape(str(name))}: {_cell(one)}" for name, one in value.items())
    return html.escape(str(value))
