"""The tables that several pages have."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ctrlhost.server.html import Html, breakable, html, join, tag
from ctrlhost.server.page import Column, Row, Section, code_cell, head_cell, number_cell, table_row, text_cell
from ctrlhost.status.amounts import size
from ctrlhost.status.pages.plots import sparkline
from ctrlhost.status.pages.text import (
    NONE,
    age,
    clock,
    controller_link,
    count,
    key_link,
    plugin_link,
    rate,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctrlhost.status import model

#: How a plugin is by its state, as a class and a sign.
_STATES = {"running": "good", "disabled": "quiet", "stopped": "quiet", "failing": "bad", "failed": "bad"}
_SIGNS = {"good": "\N{BLACK CIRCLE}", "warn": "\N{BLACK UP-POINTING TRIANGLE}", "bad": "\N{HEAVY MULTIPLICATION X}"}
#: States in which the pages of a plugin answer.
_ANSWERS = frozenset({"running", "waiting", "syncing"})
#: States of an informer that need nothing.
_CURRENT = frozenset({"watching"})


def state(kind: str, text: str) -> Html:
    """Return a state with a sign, so that its colour is not all that tells it from others."""
    return tag("span", f"{_SIGNS.get(kind, NONE)} {text}", class_=f"{kind} nb")


def nothing(name: str, columns: Sequence[Column], text: str = "none") -> list[Row]:
    """Return the row of an empty table."""
    row_id = f"{name}-none"
    return [Row(row_id, tag("tr", tag("td", text, colspan=len(columns), class_="quiet"), id=row_id))]


def _section(name: str, title: str, columns: tuple[Column, ...], rows: list[Row], note: str = "") -> Section:
    return Section(name, rows or nothing(name, columns), title, columns, note)


_PLUGINS = (
    Column("Plugin"),
    Column("State"),
    Column("Reason"),
    Column("Since (UTC)"),
    Column("CPU", number=True, note="processor seconds per second"),
    Column("Restarts", number=True),
    Column("Pages"),
)


def plugins(statuses: Iterable[model.PluginStatus]) -> Section:
    """Return the plugins, with their state and why they are degraded."""
    rows = []
    for row in statuses:
        kind = _STATES.get(row.state, "warn")
        parts = [state("warn" if kind == "good" and row.degraded else kind, row.state)]
        reasons: list[object] = [row.reason] if row.reason else []
        for degraded in row.degraded:
            parts.append(state("warn", f"degraded: {degraded.reason}"))
            since = f" since {clock(degraded.since)}: "
            reasons.append(join((tag("b", degraded.reason), since, degraded.message)))
        reasons += [f"missing right: {rule}" for rule in row.missing_rights]
        cells = [
            head_cell(plugin_link(row.name)),
            lines(parts),
            lines(reasons, wide=True),
            code_cell(clock(row.since)),
            number_cell(rate(row.cpu_per_second)),
            number_cell(count(row.restarts)),
            page_links(row),
        ]
        rows.append(table_row(f"p-{row.name}", cells))
    return _section("plugins", "Plugins", _PLUGINS, rows)


def page_links(plugin: model.PluginStatus) -> Html:
    """Return links to the pages of a plugin; only their addresses while it does not run."""
    if plugin.state not in _ANSWERS:
        return join(plugin.pages, " ")
    return join((tag("a", page, href=quote(page)) for page in plugin.pages), " ")


def lines(parts: Sequence[object], *, wide: bool = False) -> Html:
    """Return the parts below each other."""
    return Html("".join(tag("div", part, class_="t" if wide else None) for part in parts))


_CONTROLLERS = (
    Column("Controller"),
    Column("State"),
    Column("Runs/s", number=True, note="over the last minute"),
    Column("Errors/s", number=True, note="over the last minute"),
    Column("p50", number=True),
    Column("p99", number=True),
    Column("Active", number=True, note="of the workers"),
    Column("Longest", number=True, note="the oldest reconcile that runs"),
    Column("Depth", number=True, note="keys that need work"),
    Column("Oldest", number=True, note="the key that is queued for longest"),
    Column("Delayed", number=True),
    Column("Retrying", number=True, note="keys that have failed and are tried again"),
    Column("Last hour", note="runs per second"),
)


def controllers(statuses: Iterable[model.ControllerStatus], states: Mapping[str, str]) -> Section:
    """Return the controllers, with their rates over the last minute, and their queues; `states` are of the plugins."""
    rows = []
    for row in statuses:
        queue, failing = row.queue, bool(row.errors_per_second)
        plugin = states.get(row.name.partition("/")[0], "running")
        if plugin not in ("running", "waiting"):
            label = state(_STATES.get(plugin, "warn"), plugin)
        elif row.waiting:
            label = state("warn", "waiting")
        elif row.paused:
            since = f" since {clock(row.paused_since)}" if row.paused_since else ""
            label = lines((state("warn", "paused"), f"by {row.paused_by}{since}"))
        elif not row.leading:
            label = state("quiet", "standby")
        elif plugin == "waiting" and not row.workers:
            label = state("warn", plugin)
        else:
            label = state("bad", "errors") if failing else state("good", "ok")
        cells = [
            head_cell(controller_link(row.name)),
            label,
            number_cell(rate(row.per_second)),
            number_cell(rate(row.errors_per_second)),
            number_cell(seconds(row.p50)),
            number_cell(seconds(row.p99)),
            number_cell(f"{row.active}/{row.workers}"),
            number_cell(age(row.oldest_running_seconds) if row.active else NONE),
            number_cell(count(queue.depth)),
            number_cell(age(queue.oldest_seconds) if queue.depth and row.leading else NONE),
            *(number_cell(count(value)) for value in (queue.delayed, queue.retrying)),
            sparkline(row.recent_per_second),
        ]
        rows.append(table_row(f"c-{row.name}", cells))
    return _section("controllers", "Controllers and their queues", _CONTROLLERS, rows)


_FAILING = (
    Column("Key"),
    Column("Controller"),
    Column("Failures", number=True),
    Column("Next retry", number=True),
    Column("Last error"),
    Column("Reconcile"),
)


def failing(keys: Iterable[model.FailingKey]) -> Section:
    """Return the most failing keys."""
    rows = []
    for row in keys:
        cells = [
            head_cell(key_link(row.controller, row.key)),
            controller_link(row.controller),
            number_cell(count(row.failures)),
            number_cell(retry(row.next_retry_seconds)),
            text_cell(error(row.error, row.place)),
            code_cell(row.reconcile_id),
        ]
        rows.append(table_row(f"f-{row.controller}/{row.key}", cells))
    return _section("failing", "Most failing keys", _FAILING, unique(rows))


def retry(value: float | None) -> str:
    """Return when a failing key runs again."""
    if value is None:
        return "gave up"
    return seconds(value) if value else "now"


def error(text: str, place: str) -> str:
    """Return an error with its place."""
    return f"{text} ({place})" if place else text


_WEBHOOKS = (
    Column("Webhook"),
    Column("Plugin"),
    Column("State"),
    Column("Requests/s", number=True, note="over the last minute"),
    Column("Requests", number=True),
    Column("Errors", number=True, note="the failure policy decides"),
    Column("Denied", number=True),
    Column("In flight", number=True),
    Column("p50", number=True, note="of the last 1,000"),
    Column("p99", number=True, note="of the last 1,000"),
    Column("Timeout", number=True),
)


def webhooks(statuses: Sequence[model.WebhookStatus], plugin: str | None = None) -> list[Section]:
    """Return the webhooks of all plugins, or of one, as a section; none without any."""
    rows = []
    for row in statuses:
        if plugin not in (None, row.plugin):
            continue
        cells = [
            head_cell(breakable(row.path)),
            plugin_link(row.plugin),
            state("bad", f"{row.overdue} stuck") if row.overdue else state("good", "ok"),
            number_cell(rate(row.per_second)),
            *(number_cell(count(value)) for value in (row.total, row.errors, row.denied, row.in_flight)),
            *(number_cell(seconds(value)) for value in (row.p50, row.p99, row.timeout_seconds)),
        ]
        rows.append(table_row(f"wh-{row.path}", cells))
    return [Section("webhooks", rows, "Webhooks", _WEBHOOKS)] if rows else []


_INFORMERS = (
    Column("Informer"),
    Column("Selection"),
    Column("State"),
    Column("Objects", number=True),
    Column("Bytes", number=True),
    Column("Last event", number=True),
    Column("Users, what each reads, and what it costs"),
)


def informers(statuses: Iterable[model.InformerRow]) -> Section:
    """Return the informers, with what each of their users reads, and what its functions cost."""
    rows = []
    for row in statuses:
        kind = "good" if row.state in _CURRENT else "warn"
        name = f"{row.resource}.{row.group}" if row.group else row.resource
        parts: list[object] = [state(kind, row.state)]
        if row.reason:
            parts.append(tag("span", row.reason, class_="t"))
        cells = [
            head_cell(breakable(name)),
            breakable(row.selection or "all"),
            lines(parts),
            number_cell(count(row.objects)),
            number_cell(size(row.bytes)),
            number_cell(age(row.last_event_seconds)),
            text_cell(lines([_user(user) for user in row.users])),
        ]
        rows.append(table_row(f"i-{row.id}", cells))
    note = "Python seconds since the start in maps, predicates and indexes, and in handlers; pending notifications."
    return _section("informers", "Informers", _INFORMERS, rows, note)


def _user(user: model.User) -> Html:
    name = controller_link(user.controller) if user.controller else plugin_link(user.plugin)
    cost = user.cost
    reads = join((" (", breakable(user.reads), ")")) if user.reads else ""
    spent = f": {cost.cpu_seconds:.2f} s, handlers {cost.handler_seconds:.2f} s, {count(cost.pending)} pending"
    return join((name, reads, spent))


_LEASES = (Column("Lease"), Column("Role"), Column("Holder"), Column("Renewed", number=True), Column("Plugins"))


def leases(leader: model.LeaderStatus, plugin: str | None = None) -> Section:
    """Return the leases, or that of one plugin."""
    rows = []
    for lease in leader.leases:
        if plugin is not None and plugin not in lease.plugins:
            continue
        cells = [
            head_cell(lease.name),
            state("good", "leads") if lease.mine else state("quiet", "standby"),
            lease.holder or NONE,
            number_cell(age(lease.renewed_seconds)),
            ", ".join(lease.plugins),
        ]
        rows.append(table_row(f"l-{lease.name}", cells))
    if not rows:
        text = "none" if leader.elected else "no leader election: this replica does all work"
        rows = nothing("leases", _LEASES, text)
    return Section("leases", rows, "Leases", _LEASES)


_WRITES = (
    Column("Verb"),
    Column("Resource"),
    Column("Code"),
    Column("Per second", number=True),
    Column("Total", number=True),
)
_LAST_WRITES = (
    Column("Time (UTC)"),
    Column("Verb"),
    Column("Object"),
    Column("Code"),
    Column("By"),
    Column("For the key"),
    Column("Reconcile"),
)


def writes(server: model.ApiServerStatus) -> Section:
    """Return how often the host writes what, with which outcome."""
    rows = []
    for write in server.writes:
        cells = [
            head_cell(write.verb),
            write.resource,
            code(write.code),
            number_cell(rate(write.per_second)),
            number_cell(count(write.total)),
        ]
        rows.append(table_row(f"w-{write.verb}/{write.resource}/{write.code}", cells))
    return _section("writes", "Writes to the API server", _WRITES, rows)


def last_writes(writes: Iterable[model.LastWrite]) -> Section:
    """Return the last writes."""
    rows = []
    for row in writes:
        target = "/".join(part for part in (row.namespace, row.name) if part)
        cells = [
            code_cell(clock(row.time)),
            row.verb,
            f"{row.resource} {target}".strip(),
            code(row.code),
            row.controller or NONE,
            key_link(row.controller, row.key) if row.key else NONE,
            code_cell(row.reconcile_id),
        ]
        rows.append(table_row(f"lw-{row.time[11:]}-{row.reconcile_id}", cells))
    return _section("last-writes", "Last writes", _LAST_WRITES, unique(rows))


def code(text: str) -> Html:
    """Return the outcome of a write."""
    return state("good" if text.startswith("2") else "bad", text)


_ERRORS = (Column("Time (UTC)"), Column("Key"), Column("Plugin"), Column("Reconcile"), Column("Error"))


def errors(entries: Iterable[model.ErrorRow]) -> Section:
    """Return the last errors."""
    rows = []
    for row in entries:
        cells = [
            code_cell(clock(row.time)),
            key_link(row.controller, row.key) if row.key else NONE,
            row.plugin,
            code_cell(row.reconcile_id),
            text_cell(error(row.message, row.place)),
        ]
        rows.append(table_row(f"e-{row.time[11:]}-{row.reconcile_id}", cells))
    return _section("errors", "Last errors", _ERRORS, unique(rows))


def unique(rows: list[Row]) -> list[Row]:
    """Return the rows, those with the id of an earlier one with another id."""
    known: dict[str, Row] = {}
    for row in rows:
        new = row
        while new.id in known:
            row_id = html(new.id)
            new = Row(f"{new.id}+", new.html.replace(f'id="{row_id}"', f'id="{row_id}+"', 1))
        known[new.id] = new
    return list(known.values())
