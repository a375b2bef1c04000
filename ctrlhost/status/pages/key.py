"""The page of one key: why it is not being reconciled, its last error, what was done, and what to type."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctrlhost.server.html import join, tag
from ctrlhost.server.page import Column, Page, Row, Section, head_cell, number_cell, table_row, text_cell
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.controller import runs
from ctrlhost.status.pages.overview import updated
from ctrlhost.status.pages.text import ago, code_lines, command, count, seconds, since

if TYPE_CHECKING:
    from ctrlhost.status import model

_BAD = frozenset({"plugin not running", "backing off", "gave up"})
_GOOD = frozenset({"processing", "queued", "delayed", "done"})
_CONDITIONS = (Column("Condition"), Column("Status"), Column("Reason"), Column("Message"), Column("Since"))
_EVENTS = (Column("Event"), Column("Reason"), Column("Message"), Column("Times", number=True), Column("Last"))


def key_page(controller: str, key: str, status: model.KeyStatus, time: str) -> Page:
    """Return the page."""
    plugin = controller.partition("/")[0]
    kind = "bad" if status.verdict in _BAD else "good" if status.verdict in _GOOD else "warn"
    if kind == "good" and status.failing is not None:
        kind = "warn"
    return Page(
        f"Key {key}",
        [
            _verdict(status, kind, time),
            *_error(status.failing, time),
            _commands(controller, key, status),
            *runs("Last runs of the key", controller, status.reconciles, time, with_key=False),
            *_conditions(status, time),
            *_events(status, time),
            *tables.last_writes(status.writes, time),
            Section("about", [updated(time)]),
        ],
        trail=(
            ("Host", "/"),
            (f"Plugin {plugin}", f"/status/plugins/{quote(plugin)}"),
            (f"Controller {controller}", f"/status/controllers/{quote(controller)}"),
        ),
        state=f"{tables.SIGNS[kind]} {status.verdict}",
    )


def _verdict(status: model.KeyStatus, kind: str, time: str) -> Section:
    parts: list[object] = [status.verdict]
    if status.since is not None:
        parts.append(since(status.since, time))
    if status.due_seconds:
        parts.append(f"next run in {seconds(status.due_seconds)}")
    if status.position is not None:
        parts.append(f"position {count(status.position)}")
    # The error has a section of its own, and the retry is in the line.
    told = status.facts if status.failing is None or status.verdict != "backing off" else []
    facts = [Row(f"fact-{at}", tag("p", fact, id=f"fact-{at}")) for at, fact in enumerate(told)]
    return Section("verdict", [tables.verdict(kind, join(parts, ", ")), *facts])


def _error(failing: model.KeyFailure | None, time: str) -> list[Section]:
    """Return the last error of a key that fails, with its traceback."""
    if failing is None:
        return []
    times = join(("fails ", since(failing.since, time), ", last ", ago(failing.last, time),
                  f", {count(failing.failures)} in a row, reconcile {failing.reconcile_id}"))  # fmt: skip
    line = tag("strong", tables.error(failing.error, failing.place), class_="bad")
    trace = [Row("trace", tag("div", code_lines(failing.traceback), id="trace"))] if failing.traceback else []
    rows = [Row("error", tag("p", line, id="error")), Row("failing", tag("p", times, id="failing")), *trace]
    return [Section("error", rows, "Last error")]


def _commands(controller: str, key: str, status: model.KeyStatus) -> Section:
    name = shlex.quote(key)
    texts = [f"ctrlhost explain-key {controller} {name}", f"ctrlhost enqueue {controller} {name}"]
    if status.object is not None and status.object.resource:
        namespace, _, own = key.rpartition("/")
        where = f" --namespace {shlex.quote(namespace)}" if namespace else ""
        texts.insert(0, f"kubectl describe {status.object.resource} {shlex.quote(own)}{where}")
    rows = [Row(f"command-{at}", tag("li", command(text), id=f"command-{at}")) for at, text in enumerate(texts)]
    return Section("commands", rows, "Commands", items=True)


def _conditions(status: model.KeyStatus, time: str) -> list[Section]:
    rows = []
    for condition in status.object.conditions if status.object is not None else ():
        cells: list[object] = [
            head_cell(condition.type),
            condition.status,
            condition.reason,
            text_cell(condition.message),
            _when(condition.since, time),
        ]
        rows.append(table_row(f"condition-{condition.type}", cells))
    return [Section("conditions", tables.unique(rows), "Conditions of the object", _CONDITIONS)] if rows else []


def _when(moment: str, now: str) -> str:
    """Return how long ago a moment is; the text itself if a plugin wrote something else there."""
    try:
        return ago(moment, now)
    except (TypeError, ValueError):
        return moment


def _events(status: model.KeyStatus, time: str) -> list[Section]:
    rows = []
    for event in status.object.events if status.object is not None else ():
        kind = "bad" if event.type == "Warning" else "good"
        cells: list[object] = [
            head_cell(tables.state(kind, event.type)),
            event.reason,
            text_cell(event.note),
            number_cell(count(event.count)),
            ago(event.last, time),
        ]
        rows.append(table_row(f"event-{event.reason}", cells))
    note = "Those that this host has recorded in the last minutes; kubectl describe shows all."
    return [Section("events", tables.unique(rows), "Events of the object", _EVENTS, note)] if rows else []
