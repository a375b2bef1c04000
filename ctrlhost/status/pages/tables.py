"""The tables that several pages have, the worst rows first; one without rows is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ctrlhost.controller.sentences import counted
from ctrlhost.server.html import Html, breakable, html, join, tag
from ctrlhost.server.page import Column, Row, Section, code_cell, head_cell, number_cell, table_row, text_cell
from ctrlhost.status.amounts import size
from ctrlhost.status.pages.plots import sparkline
from ctrlhost.status.pages.text import (
    NONE,
    age,
    ago,
    controller_link,
    count,
    key_link,
    plugin_link,
    rate,
    seconds,
    since,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.status import model

SIGNS = {
    "good": "\N{BLACK CIRCLE}",
    "warn": "\N{BLACK UP-POINTING TRIANGLE}",
    "bad": "\N{HEAVY MULTIPLICATION X}",
    "quiet": NONE,
}
#: How a plugin or a controller is by the one word for its state, the worst first; other words are warnings.
_STATES = {
    "failed": "bad",
    "failing": "bad",
    "degraded": "warn",
    "waiting": "warn",
    "paused": "warn",
    "running": "good",
    "ok": "good",
    "standby": "quiet",
    "stopped": "quiet",
    "disabled": "quiet",
}
_ORDER = list(_STATES)
#: States in which the pages of a plugin answer.
_ANSWERS = frozenset({"running", "waiting", "syncing"})
#: States of an informer that need nothing.
_CURRENT = frozenset({"watching"})
#: The names that a closed section has beside its title.
_NAMED = 4


def state(kind: str, text: str) -> Html:
    """Return a state with a sign, so that its colour is not all that tells it from others."""
    return tag("span", f"{SIGNS.get(kind, NONE)} {text}", class_=f"{kind} nb")


def word(text: str) -> Html:
    """Return the one word for the state of a plugin or a controller."""
    return state(_STATES.get(text, "warn"), text)


def verdict(kind: str, text: str, *more: object) -> Row:
    """Return how what the page shows is."""
    content = (tag("span", f"{SIGNS[kind]} ", aria_hidden="true"), text, *more)
    return Row("verdict", tag("p", *content, id="verdict", class_=kind))


def _table(name: str, title: str, columns: tuple[Column, ...], rows: list[Row], note: str = "") -> list[Section]:
    """Return an open section; none without rows."""
    return [Section(name, rows, title, columns, note)] if rows else []


def _closed(
    name: str, title: str, columns: tuple[Column, ...], rows: list[Row], note: str = "", fold: str = ""
) -> list[Section]:
    """Return a section that is closed at first; none without rows."""
    return [Section(name, rows, title, columns, note, fold=fold or count(len(rows)))] if rows else []


def _rank(text: str) -> int:
    return _ORDER.index(text) if text in _ORDER else _ORDER.index("waiting")


def _is_well(text: str) -> bool:
    return _STATES.get(text) in ("good", "quiet")


def _apart(name: str, title: str, columns: tuple[Column, ...], rows: Sequence[tuple[str, str, Row]]) -> list[Section]:
    """Return rows, with their name and word, the worst first; those that are well in a closed section of one line."""
    ordered = sorted(rows, key=lambda row: _rank(row[1]))
    well = [row for row in ordered if _is_well(row[1])]
    words = {text: sum(row[1] == text for row in well) for text in dict.fromkeys(row[1] for row in well)}
    names = ", ".join(row[0] for row in well[:_NAMED]) + (", \N{HORIZONTAL ELLIPSIS}" if len(well) > _NAMED else "")
    fold = f"{', '.join(f'{number:,} {text}' for text, number in words.items())}: {names}"
    others = [row[2] for row in ordered if not _is_well(row[1])]
    rest = f"Other {title.lower()}" if others else title
    return [
        *_table(name, title, columns, others),
        *_closed(f"{name}-well", rest, columns, [row[2] for row in well], fold=fold),
    ]


_PLUGINS = (
    Column("Plugin"),
    Column("State"),
    Column("Reason"),
    Column("Since"),
    Column("CPU", number=True, note="processor seconds per second", minor=True),
    Column("Restarts", number=True, minor=True),
    Column("Pages", minor=True),
)


def plugins(statuses: Iterable[model.PluginStatus], now: str) -> list[Section]:
    """Return the plugins, with their state and why they are degraded."""
    rows = []
    for row in statuses:
        # The rights say why it waits, in fewer words.
        rights = [f"{counted(len(row.missing_rights), 'right')} missing"] if row.missing_rights else []
        reasons: list[object] = [*(rights or ([row.reason] if row.reason else []))]
        for degraded in row.degraded:
            began = since(degraded.since, now)
            # Causes say more about errors.
            why = row.outcomes.sentence if degraded.reason == "errors" and row.outcomes.sentence else degraded.message
            reasons.append(join((tag("b", degraded.reason), " ", began, ": ", why)))
        cells = [
            head_cell(plugin_link(row.name)),
            word(row.condition),
            lines(reasons, wide=True),
            ago(row.since, now),
            number_cell(rate(row.cpu_per_second)),
            number_cell(count(row.restarts)),
            page_links(row),
        ]
        # One that lacks rights is not well, whatever it does.
        shown = "degraded" if row.missing_rights and _is_well(row.condition) else row.condition
        rows.append((row.name, shown, table_row(f"p-{row.name}", cells)))
    return _apart("plugins", "Plugins", _PLUGINS, rows)


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
    Column("Keys that fail"),
    Column("Runs/s", number=True, note="over the last minute"),
    Column("Errors/s", number=True, note="over the last minute", minor=True),
    Column("p50", number=True, minor=True),
    Column("p99", number=True, minor=True),
    Column("Active", number=True, note="of the workers", minor=True),
    Column("Longest", number=True, note="the oldest reconcile that runs", minor=True),
    Column("Depth", number=True, note="keys that need work"),
    Column("Oldest", number=True, note="the key that is queued for longest", minor=True),
    Column("Last hour", note="runs per second", minor=True),
)


def controllers(statuses: Iterable[model.ControllerStatus], now: str) -> list[Section]:
    """Return the controllers, with their rates over the last minute, and their queues."""
    rows = []
    for row in sorted(statuses, key=lambda row: -row.outcomes.failing):
        queue, keys = row.queue, row.outcomes
        parts: list[object] = [word(row.state)]
        if row.state == "paused":
            parts.append(
                join((f"by {row.paused_by}", *((" ", ago(row.paused_since, now)) if row.paused_since else ())))
            )
        cells = [
            head_cell(controller_link(row.name)),
            lines(parts) if len(parts) > 1 else parts[0],
            f"{count(keys.failing)} of {count(keys.keys)}" if keys.failing else NONE,
            number_cell(rate(row.per_second)),
            number_cell(rate(row.errors_per_second)),
            number_cell(seconds(row.p50)),
            number_cell(seconds(row.p99)),
            number_cell(f"{row.active}/{row.workers}"),
            number_cell(age(row.oldest_running_seconds) if row.active else NONE),
            number_cell(count(queue.depth)),
            number_cell(age(queue.oldest_seconds) if queue.depth and row.leading else NONE),
            sparkline(row.recent_per_second),
        ]
        # One of which keys fail is not well, however few they are.
        shown = "degraded" if keys.failing and row.state == "ok" else row.state
        rows.append((row.name, shown, table_row(f"c-{row.name}", cells)))
    return _apart("controllers", "Controllers", _CONTROLLERS, rows)


_FAILING = (
    Column("Key"),
    Column("Controller"),
    Column("Failures", number=True),
    Column("Next retry", number=True),
    Column("Last error"),
    Column("Reconcile", minor=True),
)


def failing(keys: Iterable[model.FailingKey]) -> list[Section]:
    """Return the keys with the most failures."""
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
    return _closed("failing", "Keys with the most failures", _FAILING, unique(rows))


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
    Column("In flight", number=True, minor=True),
    Column("p50", number=True, note="of the last 1,000", minor=True),
    Column("p99", number=True, note="of the last 1,000"),
    Column("Timeout", number=True, minor=True),
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
    if any(row.overdue for row in statuses):
        return _table("webhooks", "Webhooks", _WEBHOOKS, rows)
    return _closed("webhooks", "Webhooks", _WEBHOOKS, rows)


_INFORMERS = (
    Column("Informer"),
    Column("Selection", minor=True),
    Column("State"),
    Column("Objects", number=True),
    Column("Bytes", number=True),
    Column("Last event", number=True),
    Column("Users, what each reads, and what it costs"),
)


def informers(statuses: Iterable[model.InformerRow]) -> list[Section]:
    """Return the informers, with what each of their users reads, and what its functions cost."""
    rows, behind = [], 0
    for row in sorted(statuses, key=lambda row: row.state in _CURRENT):
        kind = "good" if row.state in _CURRENT else "warn"
        behind += kind == "warn"
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
    fold = f"{count(len(rows) - behind)} current" + (f", {count(behind)} not" if behind else "")
    return _closed("informers", "Informers", _INFORMERS, rows, note, fold)


def _user(user: model.User) -> Html:
    name = controller_link(user.controller) if user.controller else plugin_link(user.plugin)
    cost = user.cost
    reads = join((" (", breakable(user.reads), ")")) if user.reads else ""
    spent = f": {cost.cpu_seconds:.2f} s, handlers {cost.handler_seconds:.2f} s, {count(cost.pending)} pending"
    return join((name, reads, spent))


_LEASES = (Column("Lease"), Column("Role"), Column("Holder"), Column("Renewed", number=True), Column("Plugins"))


def leases(leader: model.LeaderStatus, plugin: str | None = None) -> list[Section]:
    """Return the leases, or that of one plugin; those of other replicas first."""
    rows = []
    chosen = [lease for lease in leader.leases if plugin is None or plugin in lease.plugins]
    for lease in sorted(chosen, key=lambda lease: lease.mine):
        cells = [
            head_cell(lease.name),
            state("good", "leads") if lease.mine else state("quiet", "standby"),
            lease.holder or NONE,
            number_cell(age(lease.renewed_seconds)),
            ", ".join(lease.plugins),
        ]
        rows.append(table_row(f"l-{lease.name}", cells))
    mine = sum(lease.mine for lease in chosen)
    return _closed("leases", "Leases", _LEASES, rows, fold=f"leads {count(mine)} of {count(len(chosen))}")


_WRITES = (
    Column("Verb"),
    Column("Resource"),
    Column("Code"),
    Column("Per second", number=True),
    Column("Total", number=True),
)
_LAST_WRITES = (
    Column("Time"),
    Column("Verb"),
    Column("Object"),
    Column("Code"),
    Column("By"),
    Column("For the key"),
    Column("Reconcile", minor=True),
)


def writes(server: model.ApiServerStatus) -> list[Section]:
    """Return how often the host writes what, with which outcome, refused writes first."""
    rows = []
    for write in sorted(server.writes, key=lambda write: write.code.startswith("2")):
        cells = [
            head_cell(write.verb),
            write.resource,
            code(write.code),
            number_cell(rate(write.per_second)),
            number_cell(count(write.total)),
        ]
        rows.append(table_row(f"w-{write.verb}/{write.resource}/{write.code}", cells))
    return _closed("writes", "Writes to the API server", _WRITES, rows,
                   fold=count(sum(write.total for write in server.writes)))  # fmt: skip


def last_writes(writes: Iterable[model.LastWrite], now: str) -> list[Section]:
    """Return the last writes."""
    rows = []
    for row in writes:
        target = "/".join(part for part in (row.namespace, row.name) if part)
        # Events are about a key, but written for a plugin.
        run = "/" in row.controller
        cells = [
            ago(row.time, now),
            row.verb,
            f"{row.resource} {target}".strip(),
            code(row.code),
            row.controller or NONE,
            key_link(row.controller, row.key) if row.key and run else row.key or NONE,
            code_cell(row.reconcile_id),
        ]
        rows.append(table_row(f"lw-{row.time[11:]}-{row.reconcile_id}", cells))
    return _closed("last-writes", "Last writes", _LAST_WRITES, unique(rows))


def code(text: str) -> Html:
    """Return the outcome of a write."""
    return state("good" if text.startswith("2") else "bad", text)


#: The errors that are shown: the causes have the rest.
_LAST_ERRORS = 10
_ERRORS = (
    Column("Time"),
    Column("Key"),
    Column("Plugin", minor=True),
    Column("Reconcile", minor=True),
    Column("Error"),
)


def errors(entries: Sequence[model.ErrorRow], now: str) -> list[Section]:
    """Return the last errors, by which a run of the log is found."""
    rows = []
    for row in entries[:_LAST_ERRORS]:
        cells = [
            ago(row.time, now),
            key_link(row.controller, row.key) if row.key else NONE,
            row.plugin,
            code_cell(row.reconcile_id),
            text_cell(error(row.message, row.place)),
        ]
        rows.append(table_row(f"e-{row.time[11:]}-{row.reconcile_id}", cells))
    return _closed("errors", "Last errors", _ERRORS, unique(rows))


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
