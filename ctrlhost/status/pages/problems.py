"""What is wrong with a host, the worst first: a line, what it is about, and the command that shows or mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.controller.sentences import cause_line, counted, grant
from ctrlhost.server.html import Html, join, tag
from ctrlhost.server.page import Row, Section, element_row
from ctrlhost.status.pages.text import ago, command, controller_link, count, key_link, plugin_link, rate, seconds, since

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost.status import model

#: Causes with a card of their own; the others are in a list that is closed.
SHOWN = 3
#: The causes in that list.
_OTHERS = 4
#: The lines of `/readyz` that the verdict names.
_NAMED = 3
#: Mean seconds of a request from which on the API server counts as slow.
SLOW = 1.0
#: Reasons of a degraded plugin that other problems say more about.
_SAID = frozenset({"errors", "waiting", "forbidden", "paused"})
#: What the reason of a plugin has that waits for a kind.
_UNSERVED = ("no kind", "does not serve")
#: States of a plugin that are worse than degraded.
_BROKEN = ("failed", "failing")
#: How bad each kind is.
_KINDS = ("bad", "warn", "quiet", "good")


class Problem(NamedTuple):
    """Something that is wrong; `kind` is how bad, as a class of the style."""

    id: str
    kind: str
    #: What the verdict says.
    headline: str
    #: The cards below the verdict.
    cards: Sequence[Row] = ()


def problems(status: model.Status) -> list[Problem]:
    """Return what is wrong with the host, the worst first."""
    known = [*_of_host(status), *_of_plugins(status)]
    return sorted(known, key=lambda problem: _KINDS.index(problem.kind))


def worst(status: model.Status, known: Sequence[Problem]) -> tuple[str, str]:
    """Return how the host is, as a class of the style and one line."""
    host = status.host
    if host.state == "stopping":
        return "bad", "stopping: running reconciles end, and no further one begins"
    if not known:
        running = counted(sum(row.leading for row in status.controllers), "controller")
        return ("good", f"ready: {running}, nothing fails") if host.ready else ("bad", _not_ready(host))
    headlines = "; ".join(problem.headline for problem in known[:_NAMED])
    more = f"; {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    if host.ready:
        return known[0].kind, f"{headlines}{more}"
    told = any(problem.id.startswith(("server", "plugin", "rights", "waiting")) for problem in known)
    return "bad", f"{'not ready' if told else _not_ready(host)}: {headlines}{more}"


def _not_ready(host: model.HostStatus) -> str:
    named = "; ".join(
        line.removeprefix("[-]").replace(" failed: failed: ", " failed: ") for line in host.not_ready[:_NAMED]
    )
    more = len(host.not_ready) - _NAMED
    return f"not ready: {named}{f'; {more} more' if more > 0 else ''}"


def _of_host(status: model.Status) -> Iterator[Problem]:
    server, fails = status.apiserver, status.outcomes.sentence
    if not server.up:
        text = f"API server does not answer: {server.reason}"
        hint = "the watches are interrupted, and what is shown of objects may be old"
        yield Problem("server", "bad", text, [card("server", hint, command("kubectl get --raw /readyz"))])
    elif server.seconds_per_request is not None and server.seconds_per_request >= SLOW:
        text = f"API server is slow: {seconds(server.seconds_per_request)} per request"
        waiting = sum(row.queue.depth for row in status.controllers if row.leading)
        details = f"mean of the last minute; {counted(waiting, 'key')} queued"
        yield Problem("server", "warn", text, [card("server", details, command("kubectl get --raw /readyz?verbose"))])
    if fails:
        kind = "bad" if any(row.severity != "ok" for row in status.controllers) else "warn"
        rows = [cause_card(cause, status.time) for cause in status.causes if cause.keys][:SHOWN]
        yield Problem("keys", kind, fails, rows)
    if (leader := standby(status)) is not None:
        yield Problem("standby", "quiet", f"standby: this replica does nothing; {leader.holder or 'nobody'} leads",
                      [card("standby", "The page of the leader:", command(_forward(leader)))])  # fmt: skip
    for row in status.controllers:
        if row.paused:
            began = join((" ", since(row.paused_since, status.time))) if row.paused_since else ""
            text = join((controller_link(row.name), f" is paused by {row.paused_by}", began))
            yield Problem(f"paused-{row.name}", "warn", f"{row.name} is paused",
                          [card(f"paused-{row.name}", text, command(f"ctrlhost resume {row.name}"))])  # fmt: skip


def standby(status: model.Status) -> model.LeaseStatus | None:
    """Return the lease of the replica that works while this one does nothing; None if this one does something."""
    leases = status.leader.leases
    idle = leases and not any(lease.mine for lease in leases) and not any(row.leading for row in status.controllers)
    return leases[0] if idle else None


def _forward(lease: model.LeaseStatus) -> str:
    namespace, pod = lease.name.rpartition("/")[0], lease.holder.rpartition("_")[0] or "POD"
    return f"kubectl port-forward{f' --namespace {namespace}' if namespace else ''} pod/{pod} 8485"


def _of_plugins(status: model.Status) -> Iterator[Problem]:
    yield from _rights(status)
    for plugin in status.plugins:
        link, name = plugin_link(plugin.name), plugin.name
        if plugin.state in _BROKEN:
            text = join((link, f" is {plugin.state} ", since(plugin.since, status.time), f": {plugin.reason}"))
            check = command(f"ctrlhost check --plugins={name}")
            yield Problem(f"plugin-{name}", "bad", f"{name} {plugin.state}: {plugin.reason}",
                          [card(f"plugin-{name}", text, check)])  # fmt: skip
        if plugin.state == "waiting" and not plugin.missing_rights:
            text = join((link, " waits ", since(plugin.since, status.time), f": {plugin.reason}"))
            show = command(
                "kubectl api-resources" if any(word in plugin.reason for word in _UNSERVED) else "ctrlhost plugins"
            )
            yield Problem(f"waiting-{name}", "warn", f"{name} is waiting", [card(f"waiting-{name}", text, show)])
        for degraded in plugin.degraded:
            if degraded.reason in _SAID or plugin.state in _BROKEN:
                continue
            text = join((link, f" is degraded, {degraded.reason}, ", since(degraded.since, status.time)))
            row = card(f"degraded-{name}-{degraded.reason}", text, degraded.message, command("ctrlhost plugins"))
            yield Problem(f"degraded-{name}", "warn", f"{name} degraded: {degraded.reason}", [row])


def _rights(status: model.Status) -> Iterator[Problem]:
    """Return the rights that plugins lack, which one command grants."""
    lacking = [plugin for plugin in status.plugins if plugin.missing_rights]
    if not lacking:
        return
    names = [plugin.name for plugin in status.plugins if plugin.state != "disabled"]
    number = sum(len(plugin.missing_rights) for plugin in lacking)
    text = f"{counted(number, 'right')} missing for {', '.join(plugin.name for plugin in lacking)}"
    doing = join(
        (
            join((plugin_link(plugin.name), f" is {plugin.state} ", since(plugin.since, status.time)))
            for plugin in lacking
        ),
        ", ",
    )
    rules = (tag("div", f"{plugin.name}: {rule}") for plugin in lacking for rule in plugin.missing_rights)
    which = tag("details", tag("summary", "Which rights"), *rules)
    apply = command(grant(names))
    yield Problem("rights", "bad", text, [card("rights", join((doing, "; the manifests grant them:")), apply, which)])


def card(row_id: str, *parts: object, kind: str = "") -> Row:
    """Return an item of a list with parts below each other."""
    content = Html("".join(tag("div", part) for part in parts))
    return element_row("li", f"problem-{row_id}", content, kind)


def cause_card(cause: model.Cause, now: str, *more: object) -> Row:
    """Return what is known of a cause: how many keys fail for it, an example, since when, and what to type."""
    example = join((controller_link(cause.controller), ", such as ", key_link(cause.controller, cause.key)))
    times = join(
        ("first ", ago(cause.first, now), ", last ", ago(cause.last, now), f", {rate(cause.per_second)} failures/s")
    )
    show = f"ctrlhost queue {cause.controller} --failing"
    if cause.keys == 1 and cause.key:
        show = f"ctrlhost explain-key {cause.controller} {cause.key}"
    title = f"{cause.type} at {cause.place}" if cause.place else cause.type
    line = tag("strong", cause_line(title, cause.text, cause.keys))
    return card(f"cause-{cause.id}", line, example, times, command(show), *more)


def cause_section(causes: Iterable[model.Cause], now: str) -> list[Section]:
    """Return the causes that have no card, in a list that is closed, as a section; none without any."""
    others = [cause for cause in causes if cause.keys][SHOWN:]
    rows = [cause_card(cause, now) for cause in others[:_OTHERS]]
    if len(others) > _OTHERS:
        rows.append(card("causes", f"{count(len(others) - _OTHERS)} more", command("ctrlhost queue --failing")))
    return [Section("causes", rows, "More causes", items=True, fold=count(len(others)))] if rows else []
