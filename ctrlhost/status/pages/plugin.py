"""The page of one plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.server.html import join, tag
from ctrlhost.server.page import Column, Page, Row, Section, head_cell, table_row
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.overview import updated
from ctrlhost.status.pages.text import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.status import model

_RIGHTS = (Column("Rule"), Column("State"))


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
    mine = f"{name}/"
    informers = [row for row in status.informers if any(user.plugin == name for user in row.users)]
    return Page(
        f"Plugin {name}",
        [
            _facts(own, status),
            tables.plugins([own]),
            tables.controllers(
                (controller for controller in status.controllers if controller.name.startswith(mine)),
                {name: own.state},
            ),
            tables.failing(failing),
            *tables.webhooks(status.webhooks, name),
            tables.informers(informers),
            tables.leases(status.leader, name),
            _rights(own),
            tables.last_writes(writes),
            tables.errors(errors),
        ],
        trail=(("Host", "/"),),
    )


def _facts(plugin: model.PluginStatus, status: model.Status) -> Section:
    restarts = ", ".join(f"{count} {reason}" for reason, count in sorted(plugin.restart_reasons.items()))
    where = "in a process of its own" if plugin.isolated else "in the process of the host"
    facts: list[tuple[str, object]] = [
        ("version", f"Version {plugin.version or 'unknown'}, {where}."),
        ("cpu", f"Processor time: {seconds(plugin.cpu_seconds)} since the start of the host."),
        ("restarts", f"Restarts: {plugin.restarts}{f' ({restarts})' if restarts else ''}."),
        ("pages", join(("Pages: ", tables.page_links(plugin) or "none"))),
    ]
    rows = [Row(f"fact-{key}", tag("p", text, id=f"fact-{key}")) for key, text in facts]
    return Section("facts", [*rows, updated(status.time)])


def _rights(plugin: model.PluginStatus) -> Section:
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
    return Section("rights", rows or tables.nothing("rights", _RIGHTS), "Rights", _RIGHTS, note)
