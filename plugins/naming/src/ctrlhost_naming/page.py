"""The page of the plugin: the findings of all CRDs, as HTML and as JSON."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ctrlhost import Clock
    from ctrlhost_naming.differences import Difference, Ledger
    from ctrlhost_naming.index import NameIndex

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>naming</title>
<style>body{{font:15px/1.5 system-ui;margin:2rem}}td,th{{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}}
</style><h1>Names of CustomResourceDefinitions</h1><p>mode {mode}, {count} CRDs, {found} with a finding</p>
<table><tr><th>CRD<th>finding<th>for<th>names</tr>{rows}</table></html>"""


def page(mode: str, index: NameIndex, ledger: Ledger, clock: Clock) -> ASGIApp:
    """Return the ASGI application."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        now = clock.now()
        differences = ledger.report(now)
        if scope["path"].endswith(".json"):
            entries = [_entry(one, now) for one in differences]
            response = Response(json.dumps(entries, indent=2), media_type="application/json")
        else:
            response = HTMLResponse(_html(mode, len(index), differences, now))
        await response(scope, receive, send)

    return app


def _entry(difference: Difference, now: float) -> dict[str, Any]:
    return {
        "crd": difference.crd,
        "kind": difference.kind.value,
        "seconds": round(now - difference.since, 1),
        "blocked": [
            {"field": one.field.label, "name": one.name, "owners": list(one.owners)} for one in difference.blocked
        ],
        "cycle": list(difference.cycle),
    }


def _html(mode: str, count: int, differences: list[Difference], now: float) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(one.crd)}<td>{one.kind.value}<td>{now - one.since:.0f} s"
        f"<td>{'<br>'.join(html.escape(str(name)) for name in one.blocked)}</tr>"
        for one in differences
    )
    return _PAGE.format(mode=html.escape(mode), count=count, found=len(differences), rows=rows)
