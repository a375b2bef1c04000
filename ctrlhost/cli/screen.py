"""What `ctrlhost top` shows of a status: lines of text, cut to a width and a height or whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.cli.amounts import clock_time, duration, percent, rate, since, size
from ctrlhost.cli.informers import state_of
from ctrlhost.cli.queue import last_error, next_retry
from ctrlhost.cli.table import Column, table, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.cli.running_host import Answer

_CONTROLLERS = (
    Column("CONTROLLER"),
    Column("RATE/s", right=True),
    Column("ERR/s", right=True),
    Column("P50", right=True, rank=0),
    Column("P99", right=True, rank=3),
    Column("ACTIVE", right=True, rank=2),
    Column("DEPTH", right=True),
    Column("OLDEST", right=True, rank=4),
    Column("DELAYED", right=True, rank=1),
    Column("RETRY", right=True, rank=5),
    Column("STATE"),
)
_WEBHOOKS = (
    Column("WEBHOOK"),
    Column("RATE/s", right=True),
    Column("TOTAL", right=True, rank=1),
    Column("ERRORS", right=True),
    Column("DENIED", right=True, rank=3),
    Column("ACTIVE", right=True, rank=2),
    Column("P50", right=True, rank=0),
    Column("P99", right=True, rank=4),
    Column("STATE"),
)
_INFORMERS = (
    Column("INFORMER"),
    Column("OBJECTS", right=True),
    Column("BYTES", right=True),
    Column("LAST EVENT", right=True, rank=1),
    Column("USERS", right=True, rank=0),
    Column("STATE"),
)
_FAILING = (
    Column("FAILING KEY"),
    Column("CONTROLLER", rank=1),
    Column("FAILURES", right=True),
    Column("NEXT RETRY", right=True),
    Column("RECONCILE", rank=0),
    Column("LAST ERROR"),
)
_ERRORS = (
    Column("ERROR AT"),
    Column("CONTROLLER", rank=1),
    Column("KEY"),
    Column("RECONCILE", rank=0),
    Column("ERROR"),
)
#: How each order of the controllers sorts them: those with the largest number first, but names from A.
_ORDERS: dict[str, Callable[[Answer], Any]] = {
    "name": lambda controller: controller["name"],
    "rate": lambda controller: -(controller["per_second"] or 0),
    "errors": lambda controller: -(controller["errors_per_second"] or 0),
    "p50": lambda controller: -(controller["p50"] or 0),
    "p99": lambda controller: -(controller["p99"] or 0),
    "active": lambda controller: -controller["active"],
    "depth": lambda controller: -controller["queue"]["depth"],
    "oldest": lambda controller: -controller["queue"]["oldest_seconds"],
    "delayed": lambda controller: -controller["queue"]["delayed"],
    "retry": lambda controller: -controller["queue"]["retrying"],
}
ORDERS = tuple(_ORDERS)
#: Styles of `rich` that repeat what the text says.
PLAIN, HEADING, BAD, FAINT = "", "bold", "red", "dim"
_GOOD = ("ok", "watching")
#: Reasons of a degraded plugin that each of its controllers shows by itself.
_SEEN = ("paused", "waiting")


@dataclass(slots=True)
class View:
    """What the user has chosen to see."""

    order: str = "name"
    filter: str = ""
    #: Whether the text of the filter is being typed.
    typing: bool = False
    errors: bool = False

    def sort(self) -> None:
        """Sort by the next column."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and its style."""

    text: str
    style: str = PLAIN


def whole(status: Answer, view: View) -> list[str]:
    """Return the header and all tables, whole."""
    controllers, others = _controllers(status, view, None), _others(status, view, None)
    return [header(status), *(line.text for line in [*controllers, *others])]


def screen(status: Answer, view: View, width: int, height: int, lost: str = "") -> list[Line]:
    """Return at most `height` lines that fit `width`; `lost` says that the status is old, and why."""
    top, keys = header(status), _keys(view)
    if len(top) + 2 + len(keys) <= width:
        lines = [Line(f"{top}{keys.rjust(width - len(top))}", HEADING)]
    else:
        lines = [Line(top, HEADING), Line(keys, FAINT)]
    if lost:
        lines.append(Line(f"connection lost, trying again: {lost}", BAD))
    lines += [Line(visible(line), BAD) for line in status["host"]["not_ready"][:2]]
    room = max(height - len(lines), 2)
    first, second = (_failing, _errors) if view.errors else (_controllers, _others)
    upper, lower = first(status, view, width), second(status, view, width)
    # The lower table has at least a third of the room if it needs it.
    kept = max(room - len(lower), room - room // 3)
    upper = _cut(upper, kept)
    lines += upper + _cut(lower, room - len(upper))
    return [Line(line.text[:width], line.style) for line in lines[:height]]


def header(status: Answer) -> str:
    """Return the line with the state of the host."""
    host, server = status["host"], status["apiserver"]
    verdict = "stopping" if host["state"] == "stopping" else "ready" if host["ready"] else "NOT READY"
    answered = duration(server["last_answer_seconds"])
    parts = [
        f"ctrlhost {host['version']}",
        verdict,
        "dry run" if host["dry_run"] else "",
        _role(status["leader"]),
        f"up {duration(since(host['started'], status['time']))}",
        f"api ok {answered}" if server["up"] else f"API DOWN {answered}",
        f"cpu {percent(host.get('cpu_per_second'))}",
        f"rss {size(host.get('rss_bytes'))}",
    ]
    return visible("  ".join(filter(None, parts)))


def _role(leader: Answer) -> str:
    leases = leader["leases"]
    mine = [lease["name"] for lease in leases if lease["mine"]]
    if not leases:
        return "no lease yet" if leader["elected"] else ""
    if len(leases) > 1:
        return f"leads {len(mine)} of {len(leases)} leases"
    return f"leads {mine[0]}" if mine else f"standby of {leases[0]['holder'] or 'nobody'}"


def _keys(view: View) -> str:
    prompt = f"[/]filter: {visible(view.filter)}" if view.filter or view.typing else "[/]filter"
    if view.typing:
        return f"{prompt}_  (Enter: done, Escape: none)"
    return f"[s]ort: {view.order}  {prompt}  {'[e]rrors: back' if view.errors else '[e]rrors'}  [q]uit"


def _cut(lines: list[Line], room: int) -> list[Line]:
    """Return at most `room` lines, the last of which says how many are missing."""
    if len(lines) <= room:
        return lines
    if room < 2:
        return lines[: max(room, 0)]
    return [*lines[: room - 1], Line(f"… {len(lines) - room + 1} more", FAINT)]


def _styled(lines: Sequence[str], bad: Sequence[bool]) -> list[Line]:
    styles = (HEADING, *(BAD if is_bad else PLAIN for is_bad in bad))
    return [Line(text, style) for text, style in zip(lines, styles, strict=True)]


def _matching(view: View, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    wanted = view.filter.lower()
    return [row for row in rows if not wanted or any(wanted in visible(cell).lower() for cell in row)]


def _controllers(status: Answer, view: View, width: int | None) -> list[Line]:
    plugins = {plugin["name"]: plugin for plugin in status["plugins"]}
    ordered = sorted(sorted(status["controllers"], key=_ORDERS["name"]), key=_ORDERS[view.order])
    rows: list[Sequence[Any]] = [
        _controller(controller, plugins.get(controller["name"].partition("/")[0])) for controller in ordered
    ]
    having = {controller["name"].partition("/")[0] for controller in ordered}
    rows += [[name, *["-"] * 9, _of_plugin(plugin)] for name, plugin in plugins.items() if name not in having]
    matching = _matching(view, rows)
    return _styled(table(_CONTROLLERS, matching, width), [row[-1] not in _GOOD for row in matching])


def _controller(controller: Answer, plugin: Answer | None) -> list[Any]:
    queue = controller["queue"]
    return [
        controller["name"],
        rate(controller["per_second"]),
        rate(controller["errors_per_second"]),
        duration(controller["p50"]),
        duration(controller["p99"]),
        f"{controller['active']}/{controller['workers']}",
        f"{queue['depth']:,}",
        duration(queue["oldest_seconds"]) if queue["depth"] and controller["leading"] else "-",
        f"{queue['delayed']:,}",
        f"{queue['retrying']:,}",
        _state(controller, plugin),
    ]


def _state(controller: Answer, plugin: Answer | None) -> str:
    """Return the most important of what keeps a controller from its work; `ok` for nothing."""
    state = plugin["state"] if plugin is not None else "running"
    if plugin is not None and state not in ("running", "waiting"):
        return _of_plugin(plugin)
    if controller.get("waiting"):
        return f"waiting: {controller['waiting']}"
    if controller["paused"]:
        return f"paused by {controller['paused_by']}" if controller.get("paused_by") else "paused"
    if not controller["leading"]:
        return "standby"
    if plugin is not None and state == "waiting" and not controller["workers"]:
        return _of_plugin(plugin)
    for degraded in plugin["degraded"] if plugin is not None else ():
        if degraded["reason"] not in _SEEN and _concerns(degraded["message"], controller["name"]):
            # The state is narrow: the number of failures shows in other columns.
            said, failed, error = degraded["message"].partition(f" runs of {controller['name']} failed; ")
            return f"degraded: {degraded['reason']}: {error if failed else said}"
    return "ok"


def _concerns(message: str, controller: str) -> bool:
    """Return whether the message is about this controller, or names none of its plugin."""
    plugin = controller.partition("/")[0]
    words = [word.strip(",:;") for word in message.split()]
    named = [word for word in words if word.startswith(f"{plugin}/")]
    return not named or controller in named


def _of_plugin(plugin: Answer) -> str:
    if plugin["state"] == "running":
        return "ok"
    return f"{plugin['state']}: {plugin['reason']}" if plugin["reason"] else str(plugin["state"])


def _others(status: Answer, view: View, width: int | None) -> list[Line]:
    """Return the webhooks, if there are any, and the informers."""
    return [*_webhooks(status, view, width), *_informers(status, view, width)]


def _webhooks(status: Answer, view: View, width: int | None) -> list[Line]:
    rows = _matching(view, [_webhook(webhook) for webhook in status.get("webhooks", ())])
    return _styled(table(_WEBHOOKS, rows, width), [row[-1] not in _GOOD for row in rows]) if rows else []


def _webhook(webhook: Answer) -> list[Any]:
    return [
        webhook["path"],
        rate(webhook["per_second"]),
        f"{webhook['total']:,}",
        f"{webhook['errors']:,}",
        f"{webhook['denied']:,}",
        webhook["in_flight"],
        duration(webhook["p50"]),
        duration(webhook["p99"]),
        f"{webhook['overdue']} stuck" if webhook["overdue"] else "ok",
    ]


def _informers(status: Answer, view: View, width: int | None) -> list[Line]:
    rows = _matching(
        view,
        [_informer(informer) for informer in sorted(status["informers"], key=lambda informer: informer["resource"])],
    )
    return _styled(table(_INFORMERS, rows, width), [row[-1] not in _GOOD for row in rows])


def _informer(informer: Answer) -> list[Any]:
    resource = ".".join(filter(None, (informer["resource"], informer["group"])))
    return [
        " ".join(filter(None, (resource, informer["selection"]))),
        f"{informer['objects']:,}",
        size(informer["bytes"]),
        duration(informer["last_event_seconds"]),
        len(informer["users"]),
        state_of(informer),
    ]


def _failing(status: Answer, view: View, width: int) -> list[Line]:
    rows = [
        [
            key["key"],
            key["controller"],
            key["failures"],
            next_retry(key["next_retry_seconds"]),
            key["reconcile_id"],
            last_error(key),
        ]
        for key in status["failing"]
    ]
    matching = _matching(view, rows)
    return _styled(table(_FAILING, matching, width), [True] * len(matching))


def _errors(status: Answer, view: View, width: int) -> list[Line]:
    rows = [
        [
            clock_time(error["time"]),
            error["controller"],
            error["key"],
            error["reconcile_id"],
            last_error(error, "message"),
        ]
        for error in status["errors"]
    ]
    matching = _matching(view, rows)
    return _styled(table(_ERRORS, matching, width), [True] * len(matching))
