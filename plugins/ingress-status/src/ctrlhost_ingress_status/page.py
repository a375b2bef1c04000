"""The page of the plugin: what is published and how far it has come, for people and as JSON."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ingress-status</title>
<style>body{{font:15px/1.5 system-ui;margin:2rem}}td,th{{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}}
</style><h1>Addresses of Ingresses</h1><table>{rows}</table></html>"""


def page(report: Callable[[], dict[str, Any]]) -> App:
    """Make the ASGI application; `report` gives what it shows."""

    async def app(
        scope: Message, _receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            return
        shown = report()
        if scope["path"].endswith(".json"):
            kind, body = b"application/json", json.dumps(shown, indent=2)
        else:
            kind, body = b"text/html; charset=utf-8", _html(shown)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body.encode()})

    return app


def _html(shown: dict[str, Any]) -> str:
    rows = "".join(f"<tr><th>{html.escape(name)}<td>{_cell(value)}</tr>" for name, value in shown.items())
    return _PAGE.format(rows=rows)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "<br>".join(_cell(one) for one in value) or "none"
    if isinstance(value, dict):
        return "<br>".join(f"{html.escape(str(name))}: {_cell(one)}" for name, one in value.items())
    return html.escape(str(value))
