"""The page of one plugin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from ctrlhost.server.html import join, tag
from ctrlhost.server.page import Column, Page, Row, Section, head_cell, table_row
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.overview import updated
from ctrlhost.status.pages.problems import cause_section, problems
from ctrlhost.status.pages.text import count, seconds, since

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.status import model

_RIGHTS = (Column("Rule"), Column("State"))
#: How each word for the state of a plugin is.
_KINDS = {
    "failed": "bad",
    "failing": "bad",
    "running": "good",
    "standby": "quiet",
    "stopped": "quiet",
    "disabled": "quiet",
}


def plugin_page(
    status: model.Status,
    name: str,
    failing: Sequence[model.FailingKey],
    writes: Sequence[model.LastWrite],
    errors: Sequence[model.ErrorRow],
) -> Page | None:
    """Return the page of a plugin, with its most failing keys, last writes and errors; None for an unknown one."""
    own = next((plugin for plugin in status.plugins if plugin.name == name), None)
    if own is None:
        return None
    mine, now = f"{name}/", status.time
    informers = [row for row in status.informers if any(user.plugin == name for user in row.users)]
    causes = [cause for cause in status.causes if cause.controller.startswith(mine)]
    kind = _KINDS.get(own.condition, "warn")
    text = own.condition + (f": {own.outcomes.sentence}" if own.outcomes.sentence else "")
    if kind == "good" and (own.outcomes.sentence or own.missing_rights):
        kind = "warn"
    return Page(
        f"Plugin {name}",
        [
            Section("verdict", [tables.verdict(kind, text, ", ", since(own.since, now))]),
            *_problems(status, own, causes),
            *tables.controllers((row for row in status.controllers if row.name.startswith(mine)), now),
            *(replace(section, title="State") for section in tables.plugins([own], now)),
            *cause_section(causes, now),
            *tables.failing(failing),
            *tables.webhooks(status.webhooks, name),
            *tables.informers(informers),
            *tables.leases(status.leader, name),
            *_rights(own),
            *tables.last_writes(writes, now),
            *tables.errors(errors, now),
            _facts(own, status),
        ],
        trail=(("Host", "/"),),
        state=f"{tables.SIGNS[kind]} {text}",
    )


def _problems(status: model.Status, own: model.PluginStatus, causes: Sequence[model.Cause]) -> list[Section]:
    """Return what is wrong with the plugin and its controllers."""
    mine = f"{own.name}/"
    part = msgspec.structs.replace(
        status,
        plugins=[own],
        controllers=[row for row in status.controllers if row.name.startswith(mine)],
        causes=list(causes),
        outcomes=own.outcomes,
    )
    rows = [row for problem in problems(part) if problem.id not in ("server", "standby") for row in problem.cards]
    return [Section("problems", tables.unique(rows), items=True)] if rows else []


def _facts(plugin: model.PluginStatus, status: model.Status) -> Section:
    restarts = ", ".join(f"{number} {reason}" for reason, number in sorted(plugin.restart_reasons.items()))
    where = "in a process of its own" if plugin.isolated else "in the process of the host"
    facts: list[tuple[str, object]] = [
        ("version", f"Version {plugin.version or 'unknown'}, {where}."),
        ("cpu", f"Processor time: {seconds(plugin.cpu_seconds)} since the start of the host."),
        ("restarts", f"Restarts: {plugin.restarts}{f' ({restarts})' if restarts else ''}."),
        ("pages", join(("Pages: ", tables.page_links(plugin) or "none"))),
    ]
    rows = [Row(f"fact-{key}", tag("p", text, id=f"fact-{key}")) for key, text in facts]
    return Section("facts", [*rows, updated(status.time)])


def _rights(plugin: model.PluginStatus) -> list[Section]:
    missing = set(plugin.missing_rights)
    declared = [*plugin.missing_rights, *(rule for rule in plugin.rights if rule not in missing)]
    rows = [
        table_row(
            f"r-{number}",
            [
                head_cell(rule),
                tables.state("bad", "missing") if rule in missing else tables.state("good", "declared"),
            ],
        )
        for number, rule in enumerate(declared)
    ]
    note = "What the sources of the plugin need and what it declares; missing ones with the rule to add."
    fold = count(len(rows)) + (f", {count(len(missing))} missing" if missing else "")
    return [Section("rights", rows, "Rights", _RIGHTS, note, fold=fold)] if rows else []
