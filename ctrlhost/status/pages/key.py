"""The page of one key: why it is not being reconciled."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ctrlhost.server.html import tag
from ctrlhost.server.page import Page, Row, Section
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.controller import runs
from ctrlhost.status.pages.overview import updated
from ctrlhost.status.pages.text import clock, seconds

if TYPE_CHECKING:
    from ctrlhost.status import model

_BAD = frozenset({"plugin not running", "backing off", "gave up"})
_GOOD = frozenset({"processing", "queued", "delayed", "done"})


def key_page(controller: str, key: str, status: model.KeyStatus, time: str) -> Page:
    """Return the page."""
    plugin = controller.partition("/")[0]
    return Page(
        f"Key {key}",
        [
            _verdict(status),
            _facts(status, time),
            runs("Reconciles of the key", controller, status.reconciles),
            tables.last_writes(status.writes),
        ],
        trail=(
            ("Host", "/"),
            (f"Plugin {plugin}", f"/status/plugins/{quote(plugin)}"),
            (f"Controller {controller}", f"/status/controllers/{quote(controller)}"),
        ),
    )


def _verdict(status: model.KeyStatus) -> Section:
    kind = "bad" if status.verdict in _BAD else "good" if status.verdict in _GOOD else "warn"
    parts: list[str] = [status.verdict]
    if status.since is not None:
        parts.append(f"since {clock(status.since)}")
    if status.due_seconds:
        parts.append(f"due in {seconds(status.due_seconds)}")
    if status.position is not None:
        parts.append(f"position {status.position}")
    return Section("verdict", [Row("verdict", tag("p", ", ".join(parts), id="verdict", class_=kind))])


def _facts(status: model.KeyStatus, time: str) -> Section:
    rows = [Row(f"fact-{at}", tag("p", fact, id=f"fact-{at}")) for at, fact in enumerate(status.facts)]
    return Section("facts", [*rows, updated(time)])
