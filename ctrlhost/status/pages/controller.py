"""The page of one controller: the causes of its failures, its failing keys, its last runs, plots, and its queue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from ctrlhost.server.html import join, tag
from ctrlhost.server.page import Column, Page, Row, Section, code_cell, head_cell, number_cell, table_row, text_cell
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.overview import updated
from ctrlhost.status.pages.plots import Line, figure
from ctrlhost.status.pages.problems import card, cause_card
from ctrlhost.status.pages.text import (
    NONE,
    age,
    ago,
    code_lines,
    command,
    count,
    key_link,
    rate,
    seconds,
    since,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.status import model

#: The parts of a queue with the heads of their columns; each part is a parameter with the cursor of its page.
PARTS = {
    "failing": (
        Column("Key"),
        Column("Last error"),
        Column("Failures", number=True, minor=True),
        Column("Next retry", number=True),
        Column("Reconcile", minor=True),
    ),
    "processing": (Column("Key"), Column("Running for", number=True), Column("Failures", number=True)),
    "queued": (
        Column("Key"),
        Column("Priority", number=True),
        Column("Queued for", number=True),
        Column("Failures", number=True),
    ),
    "delayed": (
        Column("Key"),
        Column("Priority", number=True),
        Column("Due in", number=True),
        Column("Failures", number=True),
    ),
}
RUNS = (
    Column("Began"),
    Column("Key"),
    Column("Duration", number=True),
    Column("Result"),
    Column("Reconcile", minor=True),
)
#: The causes that are shown, with their tracebacks.
_CAUSES = 10
#: How each state of a controller is.
_KINDS = {"failing": "bad", "degraded": "warn", "waiting": "warn", "paused": "warn", "ok": "good", "standby": "quiet"}


class Shown(NamedTuple):
    """What is known of a controller; without a status it does not run, and `notice` says why."""

    name: str
    time: str
    notice: str
    status: model.ControllerStatus | None
    causes: Sequence[model.CauseDetail]
    series: Mapping[str, Sequence[float | None]] | None
    parts: Mapping[str, model.QueuePage]
    runs: Sequence[model.Reconcile]
    #: Seconds between two samples of the series.
    period: float


def controller_page(content: Shown, query: Mapping[str, str]) -> Page:
    """Return the page; `query` has the cursors of the parts of the queue."""
    plugin = content.name.partition("/")[0]
    kind, text, details = _state(content)
    empty = [part for part in PARTS if (page := content.parts.get(part)) is not None and not page.total]
    return Page(
        f"Controller {content.name}",
        [
            Section("verdict", [tables.verdict(kind, text), *details]),
            *_causes(content),
            _plots(content),
            *_part(content, "failing", query),
            *runs("Last runs", content.name, content.runs, content.time),
            *_numbers(content),
            *(section for part in PARTS if part != "failing" for section in _part(content, part, query)),
            _about(content, empty),
        ],
        trail=(("Host", "/"), (f"Plugin {plugin}", f"/status/plugins/{quote(plugin)}")),
        state=f"{tables.SIGNS[kind]} {text}",
    )


def _state(content: Shown) -> tuple[str, str, list[Row]]:
    """Return how the controller is: the class of the style, one line, and what else is said about it."""
    status = content.status
    if status is None:
        return "warn", content.notice, []
    kind, keys = _KINDS[status.state], status.outcomes
    parts: list[object] = []
    text = f"{status.state}: {keys.sentence}" if keys.sentence else status.state
    if keys.failing and keys.since is not None:
        kind = "warn" if kind == "good" else kind
        parts.append(join(("the oldest fails ", since(keys.since, content.time))))
    if status.paused:
        began = join((" ", since(status.paused_since, content.time))) if status.paused_since else ""
        parts.append(join((f"paused by {status.paused_by}", began, ": ", command(f"ctrlhost resume {content.name}"))))
    if status.waiting:
        parts.append(status.waiting)
    if status.state == "standby":
        parts.append("another replica leads: this one reconciles nothing")
    return kind, text, [Row(f"state-{at}", tag("p", part, id=f"state-{at}")) for at, part in enumerate(parts)]


def _causes(content: Shown) -> list[Section]:
    rows = []
    for detail in content.causes[:_CAUSES]:
        trace = tag("details", tag("summary", "Traceback of the example"), code_lines(detail.traceback))
        if detail.cause.keys:
            rows.append(cause_card(detail.cause, content.time, *([trace] if detail.traceback else ())))
    over = [
        card(
            f"cause-{detail.cause.id}",
            join((f"over: {detail.cause.error}, last ", ago(detail.cause.last, content.time))),
        )
        for detail in content.causes[:_CAUSES]
        if not detail.cause.keys
    ]
    return [Section("problems", [*rows, *over], items=True)] if rows or over else []


def _plots(content: Shown) -> Section:
    series = content.series or {key: [None] for key in ("rate", "errors", "p50", "p99", "depth")}
    durations = [Line("p50", series["p50"]), Line("p99", series["p99"])]
    period = content.period
    return Section(
        "plots",
        [
            figure("plot-rate", "Runs per second", [Line("", series["rate"])], rate, period),
            figure("plot-errors", "Errors per second", [Line("", series["errors"])], rate, period),
            figure("plot-durations", "Duration", durations, seconds, period),
            figure("plot-depth", "Depth of the queue", [Line("", series["depth"])], _depth, period),
        ],
        "Since the start, the last hour at most",
    )


def _depth(value: float | None) -> str:
    return NONE if value is None else count(value)


def _numbers(content: Shown) -> list[Section]:
    sections = tables.controllers([content.status] if content.status is not None else [], content.time)
    return [replace(section, title="Numbers") for section in sections]


def _part(content: Shown, part: str, query: Mapping[str, str]) -> list[Section]:
    page, columns = content.parts.get(part), PARTS[part]
    if page is None or not (page.items or (part in query and page.total)):
        return []
    rows = tables.unique([_key(content.name, part, item) for item in page.items])
    if page.next is not None or part in query:
        links = []
        if part in query:
            links.append(tag("a", "first", href=_address(content.name, query, part, None)))
        if page.next is not None:
            links.append(tag("a", "next", href=_address(content.name, query, part, page.next)))
        text = tag(
            "td",
            f"{count(len(page.items))} of {count(page.total)}: ",
            *links,
            colspan=len(columns),
            class_="quiet more",
        )
        rows.append(Row(f"{part}-more", tag("tr", text, id=f"{part}-more")))
    return [Section(part, rows, f"{part.capitalize()} keys", columns)]


def _address(name: str, query: Mapping[str, str], part: str, cursor: str | None) -> str:
    cursors = {name: value for name, value in query.items() if name in PARTS and name != part}
    if cursor is not None:
        cursors[part] = cursor
    return f"/status/controllers/{quote(name)}" + (f"?{urlencode(cursors)}" if cursors else "")


def _key(controller: str, part: str, item: model.QueueItem) -> Row:
    failures = number_cell(count(item.failures))
    priority = number_cell(NONE if item.priority is None else item.priority)
    cells: dict[str, tuple[object, ...]] = {
        "queued": (priority, number_cell(age(item.age_seconds)), failures),
        "processing": (number_cell(age(item.age_seconds)), failures),
        "delayed": (priority, number_cell(seconds(item.due_seconds)), failures),
        "failing": (
            text_cell(tables.error(item.error, item.place)),
            failures,
            number_cell(tables.retry(item.due_seconds)),
            code_cell(item.reconcile_id),
        ),
    }
    return table_row(f"{part}-{item.key}", [head_cell(key_link(controller, item.key)), *cells[part]])


def _about(content: Shown, empty: Sequence[str]) -> Section:
    """Return what there is none of, in one line, and the time."""
    names = f"{', '.join(empty[:-1])} or {empty[-1]}" if len(empty) > 1 else "".join(empty)
    rows = [Row("none", tag("p", f"No key is {names}.", id="none", class_="quiet"))] if empty else []
    if content.status is not None and not content.runs:
        rows.append(Row("no-runs", tag("p", "It has not run yet.", id="no-runs", class_="quiet")))
    return Section("about", [*rows, updated(content.time)])


def runs(
    title: str, controller: str, reconciles: Sequence[model.Reconcile], now: str, *, with_key: bool = True
) -> list[Section]:
    """Return runs that have ended, the newest first, as a section; none without any."""
    rows = []
    for run in reconciles:
        kind = "good" if run.result in ("success", "requeue_after") else "bad"
        result = [tables.state(kind, run.result), *([tag("span", run.error, class_="t")] if run.error else [])]
        cells = [
            ago(run.time, now),
            *([key_link(controller, run.key)] if with_key else ()),
            number_cell(seconds(run.seconds)),
            tables.lines(result),
            code_cell(run.reconcile_id),
        ]
        rows.append(table_row(f"run-{run.reconcile_id}", cells))
    columns = RUNS if with_key else tuple(column for column in RUNS if column.name != "Key")
    return [Section("runs", tables.unique(rows), title, columns)] if rows else []
