"""The page of one controller: plots, the parts of its queue, and its last runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from ctrlhost.server.html import tag
from ctrlhost.server.page import Column, Page, Row, Section, code_cell, head_cell, number_cell, table_row
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.overview import updated
from ctrlhost.status.pages.plots import Line, figure
from ctrlhost.status.pages.text import NONE, age, clock, count, key_link, rate, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.status import model

#: The parts of a queue with the heads of their columns; each part is a parameter with the cursor of its page.
PARTS = {
    "queued": (
        Column("Key"),
        Column("Priority", number=True),
        Column("Queued for", number=True),
        Column("Failures", number=True),
    ),
    "processing": (Column("Key"), Column("Running for", number=True), Column("Failures", number=True)),
    "delayed": (
        Column("Key"),
        Column("Priority", number=True),
        Column("Due in", number=True),
        Column("Failures", number=True),
    ),
    "failing": (Column("Key"), Column("Failures", number=True), Column("Next retry", number=True)),
}
RUNS = (
    Column("Start (UTC)"),
    Column("Key"),
    Column("Duration", number=True),
    Column("Result"),
    Column("Reconcile"),
)


class Shown(NamedTuple):
    """What is known of a controller; without a status it does not run, and `notice` says why."""

    name: str
    time: str
    notice: str
    #: That of the plugin.
    state: str
    status: model.ControllerStatus | None
    series: Mapping[str, Sequence[float | None]] | None
    parts: Mapping[str, model.QueuePage]
    runs: Sequence[model.Reconcile]
    #: Seconds that the series cover.
    span: float


def controller_page(content: Shown, query: Mapping[str, str]) -> Page:
    """Return the page; `query` has the cursors of the parts of the queue."""
    plugin = content.name.partition("/")[0]
    return Page(
        f"Controller {content.name}",
        [
            _notice(content),
            tables.controllers([content.status] if content.status is not None else [], {plugin: content.state}),
            _plots(content),
            *(_part(content, part, query) for part in PARTS),
            runs("Last reconciles", content.name, content.runs),
        ],
        trail=(("Host", "/"), (f"Plugin {plugin}", f"/status/plugins/{quote(plugin)}")),
    )


def _notice(content: Shown) -> Section:
    rows = [Row("notice", tag("p", tables.state("warn", content.notice), id="notice"))] if content.notice else []
    return Section("facts", [*rows, updated(content.time)])


def _plots(content: Shown) -> Section:
    series = content.series or {key: [None] for key in ("rate", "errors", "p50", "p99", "depth")}
    durations = [Line("p50", series["p50"]), Line("p99", series["p99"])]
    span = content.span
    return Section(
        "plots",
        [
            figure("plot-rate", "Runs per second", [Line("", series["rate"])], rate, span),
            figure("plot-errors", "Errors per second", [Line("", series["errors"])], rate, span),
            figure("plot-durations", "Duration", durations, seconds, span),
            figure("plot-depth", "Depth of the queue", [Line("", series["depth"])], _depth, span),
        ],
        "Last hour",
    )


def _depth(value: float | None) -> str:
    return NONE if value is None else count(value)


def _part(content: Shown, part: str, query: Mapping[str, str]) -> Section:
    page, columns = content.parts.get(part), PARTS[part]
    rows = [_key(content.name, part, item) for item in page.items] if page is not None else []
    title = f"{part.capitalize()} keys"
    rows = tables.unique(rows)
    beyond = part in query and page is not None and page.total > 0
    if not rows and not beyond:
        return Section(part, tables.nothing(part, columns), title, columns)
    if page is not None and (page.next is not None or part in query):
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
    return Section(part, rows, title, columns)


def _address(name: str, query: Mapping[str, str], part: str, cursor: str | None) -> str:
    cursors = {name: value for name, value in query.items() if name in PARTS and name != part}
    if cursor is not None:
        cursors[part] = cursor
    return f"/status/controllers/{quote(name)}" + (f"?{urlencode(cursors)}" if cursors else "")


def _key(controller: str, part: str, item: model.QueueItem) -> Row:
    failures = number_cell(count(item.failures))
    priority = number_cell(NONE if item.priority is None else item.priority)
    cells = {
        "queued": (priority, number_cell(age(item.age_seconds)), failures),
        "processing": (number_cell(age(item.age_seconds)), failures),
        "delayed": (priority, number_cell(seconds(item.due_seconds)), failures),
        "failing": (failures, number_cell(tables.retry(item.due_seconds))),
    }[part]
    return table_row(f"{part}-{item.key}", [head_cell(key_link(controller, item.key)), *cells])


def runs(title: str, controller: str, reconciles: Sequence[model.Reconcile]) -> Section:
    """Return runs that have ended, the newest first."""
    rows = []
    for run in reconciles:
        kind = "good" if run.result in ("success", "requeue_after") else "bad"
        result = [tables.state(kind, run.result), *([tag("span", run.error, class_="t")] if run.error else [])]
        cells = [
            code_cell(clock(run.time)),
            key_link(controller, run.key),
            number_cell(seconds(run.seconds)),
            tables.lines(result),
            code_cell(run.reconcile_id),
        ]
        rows.append(table_row(f"run-{run.reconcile_id}", cells))
    return Section("runs", tables.unique(rows) or tables.nothing("runs", RUNS), title, RUNS)
