"""The page `/`: the whole host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.server.html import join, tag
from ctrlhost.server.page import TIME_ROW, Page, Row, Section
from ctrlhost.status.pages import tables
from ctrlhost.status.pages.text import age, clock, rate

if TYPE_CHECKING:
    from ctrlhost.status import model

#: States of a plugin that are worse than degraded.
_BROKEN = ("failed", "failing")
#: The lines of `/readyz` that the verdict names.
_NAMED = 3


def overview(status: model.Status) -> Page:
    """Return the page."""
    server = status.apiserver
    return Page(
        f"ctrlhost on {status.host.name}",
        [
            verdict(status),
            tables.plugins(status.plugins),
            tables.controllers(status.controllers, {plugin.name: plugin.state for plugin in status.plugins}),
            tables.failing(status.failing),
            *tables.webhooks(status.webhooks),
            tables.informers(status.informers),
            tables.leases(status.leader),
            tables.writes(server),
            tables.last_writes(server.last_writes),
            tables.errors(status.errors),
        ],
    )


def verdict(status: model.Status) -> Section:
    """Return how the host is, the worst first, and about it."""
    kind, text = _worst(status)
    host, server = status.host, status.apiserver
    parts = [text, *(["dry run: nothing is written"] if host.dry_run else []), _leading(status.leader), _server(server)]
    sign = {"good": "\N{BLACK CIRCLE}", "warn": "\N{BLACK UP-POINTING TRIANGLE}"}.get(
        kind, "\N{HEAVY MULTIPLICATION X}"
    )
    about = [
        f"ctrlhost {host.version}",
        f"Python {host.python}",
        f"process {host.pid}",
        f"started {clock(host.started)}",
        f"settings {host.config.file}" if host.config.file else "no settings file",
        *([f"API server {server.url}"] if server.url else []),
        f"requests {rate(server.requests_per_second)}/s",
        f"throttled for {server.throttled_seconds:.1f} s",
    ]
    return Section(
        "verdict",
        [
            Row("verdict", tag("p", f"{sign} ", join(parts, " · "), id="verdict", class_=kind)),
            Row("about", tag("p", join(about, " · "), id="about", class_="quiet")),
            updated(status.time),
        ],
    )


def updated(time: str) -> Row:
    """Return when the page was current, which changes with each rendering."""
    return Row(TIME_ROW, tag("p", f"As of {clock(time)}. All times are UTC.", id=TIME_ROW, class_="quiet"))


def _worst(status: model.Status) -> tuple[str, str]:
    """Return the worst that is true of the host, as a class and a text."""
    host = status.host
    if host.state == "stopping":
        return "bad", "stopping"
    if not status.apiserver.up:
        return "bad", f"API server does not answer: {status.apiserver.reason}"
    if not host.ready:
        named = "; ".join(
            line.removeprefix("[-]").replace(" failed: failed: ", " failed: ") for line in host.not_ready[:_NAMED]
        )
        more = len(host.not_ready) - _NAMED
        return "bad", f"not ready: {named}{f'; {more} more' if more > 0 else ''}"
    broken = [f"{plugin.name} {plugin.state}: {plugin.reason}" for plugin in status.plugins if plugin.state in _BROKEN]
    if broken:
        return "bad", f"ready, but {'; '.join(broken)}"
    degraded = [
        f"{plugin.name} ({', '.join(reason.reason for reason in plugin.degraded)})"
        for plugin in status.plugins
        if plugin.degraded
    ]
    if degraded:
        return "warn", f"ready, degraded: {'; '.join(degraded)}"
    waiting = [plugin.name for plugin in status.plugins if plugin.state == "waiting"]
    if waiting:
        return "warn", f"ready, waiting: {', '.join(waiting)}"
    return "good", "ready"


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
