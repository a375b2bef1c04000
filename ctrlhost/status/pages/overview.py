"""The page `/`: the whole host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.server.html import join, tag
from ctrlhost.server.page import TIME_ROW, Page, Row, Section
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.problems import cause_section, problems, worst
from ctrlhost.status.pages.shards import shards
from ctrlhost.status.pages.text import age, ago, clock, rate, since

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.status import model
    from ctrlhost.status.pages.problems import Problem


def overview(status: model.Status) -> Page:
    """Return the page."""
    server, known = status.apiserver, problems(status)
    kind, text = worst(status, known)
    return Page(
        f"ctrlhost on {status.host.name}",
        [
            _verdict(status, kind, text),
            *_cards(known),
            *tables.plugins(status.plugins, status.time),
            *tables.controllers(status.controllers, status.time),
            *cause_section(status.causes, status.time),
            *tables.failing(status.failing),
            *tables.webhooks(status.webhooks),
            *tables.informers(status.informers),
            *tables.leases(status.leader),
            *shards(status.shards),
            *tables.writes(server),
            *tables.last_writes(server.last_writes, status.time),
            *tables.errors(status.errors, status.time),
            _about(status),
        ],
        state=f"{tables.SIGNS[kind]} {text}",
    )


def _verdict(status: model.Status, kind: str, text: str) -> Section:
    """Return how the host is, and since when keys fail; what it leads, and whether the API server answers."""
    first = status.outcomes.since
    began = join((", ", since(first, status.time))) if status.outcomes.sentence and first else ""
    dry = ["dry run: nothing is written"] if status.host.dry_run else []
    state = join([*dry, _leading(status.leader), _server(status.apiserver)], " \N{MIDDLE DOT} ")
    return Section("verdict", [tables.verdict(kind, text, began), Row("state", tag("p", state, id="state"))])


def _cards(known: Sequence[Problem]) -> list[Section]:
    rows = [row for problem in known for row in problem.cards]
    return [Section("problems", tables.unique(rows), items=True)] if rows else []


def _about(status: model.Status) -> Section:
    host, server = status.host, status.apiserver
    about = [
        f"ctrlhost {host.version}",
        f"Python {host.python}",
        f"process {host.pid}",
        join(("started ", ago(host.started, status.time))),
        f"settings {host.config.file}" if host.config.file else "no settings file",
        *([f"API server {server.url}"] if server.url else []),
        f"requests {rate(server.requests_per_second)}/s",
        f"throttled for {server.throttled_seconds:.1f} s",
    ]
    text = join(about, " \N{MIDDLE DOT} ")
    return Section("about", [Row("about", tag("p", text, id="about", class_="quiet")), updated(status.time)])


def updated(time: str) -> Row:
    """Return when the page was current, which changes with each rendering."""
    return Row(TIME_ROW, tag("p", f"As of {clock(time)}. All times are UTC.", id=TIME_ROW, class_="quiet"))


def _leading(leader: model.LeaderStatus) -> str:
    if not leader.leases:
        return "leader election without a lease yet" if leader.elected else "no leader election"
    led = [lease.name for lease in leader.leases if lease.mine]
    others = [f"{lease.holder or 'nobody'} leads {lease.name}" for lease in leader.leases if not lease.mine]
    return "; ".join([f"leads {', '.join(led)}", *others] if led else others)


def _server(server: model.ApiServerStatus) -> str:
    if not server.up:
        return "API server down"
    return (
        f"API server ok, last answer {age(server.last_answer_seconds)} ago"
        if server.last_answer_seconds is not None
        else "API server ok"
    )
