"""The first view of `ctrlhost top`: the header, causes, controllers, webhooks and informers, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.cli.amounts import duration, percent, rate, since, size
from ctrlhost.cli.details import ControllerView, InformerView, causes_of
from ctrlhost.cli.rows import ALARM, BAD, PLAIN, Entry, Row, rows_of, wrapped
from ctrlhost.cli.states import (
    is_good,
    of_controller,
    of_informer,
    of_plugin,
    plugins_by_name,
    rank,
    without_controllers,
)
from ctrlhost.cli.table import Column, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.cli.running_host import Answer, RunningHost

_CONTROLLERS = (
    Column("CONTROLLER"),
    Column("RATE/s", right=True),
    Column("ERR/s", right=True),
    Column("P50", right=True, rank=0),
    Column("P99", right=True, rank=3),
    Column("ACTIVE", right=True, rank=2),
    Column("PENDING", right=True, rank=5),
    Column("OLDEST", right=True, rank=4),
    Column("DELAYED", right=True, rank=1),
    Column("RETRYING", right=True, rank=6),
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
)
_INFORMERS = (
    Column("INFORMER"),
    Column("OBJECTS", right=True),
    Column("BYTES", right=True),
    Column("LAST EVENT", right=True, rank=1),
    Column("USERS", right=True, rank=0),
)
_MEMBERS = (
    Column("MEMBER"),
    Column("SHARE", right=True),
    Column("RANGES", right=True),
    Column("RENEWED", right=True),
)
_SHARDS = (Column("RANGE"), Column("OWNER"), Column("CLAIMANT"))
#: How each order of the controllers sorts them: those with the largest number first, but names from A.
_ORDERS: dict[str, Callable[[Answer], Any]] = {
    "state": lambda _: 0,
    "name": lambda controller: controller["name"],
    "rate": lambda controller: -(controller["per_second"] or 0),
    "errors": lambda controller: -(controller["errors_per_second"] or 0),
    "p50": lambda controller: -(controller["p50"] or 0),
    "p99": lambda controller: -(controller["p99"] or 0),
    "active": lambda controller: -controller["active"],
    "pending": lambda controller: -controller["queue"]["depth"],
    "oldest": lambda controller: -controller["queue"]["oldest_seconds"],
    "delayed": lambda controller: -controller["queue"]["delayed"],
    "retrying": lambda controller: -controller["queue"]["retrying"],
}
#: By `state` the worst are first.
ORDERS = tuple(_ORDERS)
_GAP = "  "
#: The lines of `/readyz` that the header has, at most.
_NOT_READY = 3


def header(status: Answer, width: int | None, lost: str = "") -> list[Row]:
    """Return the state of the host in as many lines as it needs; `lost` says that the status is old, and why."""
    host, server = status["host"], status["apiserver"]
    verdict = "stopping" if host["state"] == "stopping" else "ready" if host["ready"] else "NOT READY"
    answered = duration(server["last_answer_seconds"])
    parts = [
        f"ctrlhost {host['version']}",
        "LOST" if lost else verdict,
        "dry run" if host["dry_run"] else "",
        f"cpu {percent(host['cpu_per_second'])}",
        f"rss {size(host['rss_bytes'])}",
        _role(status["leader"]),
        f"up {duration(since(host['started'], status['time']))}",
        f"api ok {answered}" if server["up"] else f"API DOWN {answered}",
    ]
    style = BAD if lost or verdict == "NOT READY" or not server["up"] else PLAIN
    rows = [Row(tuple(_filled([visible(part) for part in parts if part], width)), style)]
    if lost:
        rows.append(Row(wrapped(lost, width), BAD))
    return rows


def _filled(parts: list[str], width: int | None) -> Iterator[str]:
    """Yield lines of whole parts."""
    line = parts[0]
    for part in parts[1:]:
        if width is not None and len(line) + len(_GAP) + len(part) > width:
            yield line
            line = part
        else:
            line += _GAP + part
    yield line


def _role(leader: Answer) -> str:
    leases = leader["leases"]
    mine = [lease["name"] for lease in leases if lease["mine"]]
    if not leases:
        return "no lease yet" if leader["elected"] else ""
    if len(leases) > 1:
        return f"leads {len(mine)} of {len(leases)} leases"
    return f"leads {mine[0]}" if mine else f"standby of {leases[0]['holder'] or 'nobody'}"


class Overview:
    """The view of all: it asks for nothing but the status."""

    title = controller = key = ""

    def __init__(self, order: str = ORDERS[0]) -> None:
        """Sort the controllers by `order`."""
        self.order = order

    def sort(self) -> None:
        """Sort by the next column."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]

    def ask(self, host: RunningHost) -> Answer:  # noqa: ARG002 - as of each view
        """Return nothing: the status has all."""
        return {}

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:  # noqa: ARG002 - as above
        """Return what fails, then the tables."""
        return [
            *_problems(status, width),
            *causes_of(status["causes"], status["time"], width),
            *self._controllers(status, width),
            *_webhooks(status, width),
            *_shards(status, width),
            *_informers(status, width),
        ]

    def _controllers(self, status: Answer, width: int | None) -> list[Row]:
        plugins, now = plugins_by_name(status), status["time"]
        states = {
            controller["name"]: of_controller(controller, plugins.get(controller["name"].partition("/")[0]), now)
            for controller in status["controllers"]
        }
        others = {plugin["name"]: of_plugin(plugin) for plugin in without_controllers(status)}
        order, by_state = _ORDERS[self.order], self.order == ORDERS[0]
        ordered = sorted(
            status["controllers"],
            key=lambda row: (order(row), *_badness(row, states[row["name"]]), row["name"]),
        )
        rows = [(row["name"], _cells(row), states[row["name"]], ControllerView(row["name"])) for row in ordered]
        rest = [(name, [name, *["-"] * (len(_CONTROLLERS) - 1)], state, None) for name, state in others.items()]
        entries = [
            Entry(cells, state, PLAIN if is_good(state) else BAD, name, view)
            for name, cells, state, view in [*rows, *rest]
        ]
        if by_state:
            # A plugin that has failed has no controllers.
            entries.sort(key=lambda entry: rank(entry.text))
        return rows_of(_CONTROLLERS, "STATE", entries, width)


def _problems(status: Answer, width: int | None) -> Iterator[Row]:
    if sentence := status["outcomes"]["sentence"]:
        yield Row(wrapped(sentence, width), ALARM)
    lines = status["host"]["not_ready"]
    for line in lines[:_NOT_READY]:
        yield Row(wrapped(line, width), ALARM)
    if len(lines) > _NOT_READY:
        yield Row((f"… {len(lines) - _NOT_READY} more lines of `/readyz?verbose`",), ALARM)


def _badness(controller: Answer, state: str) -> tuple[int, int]:
    return rank(state), -controller["outcomes"]["failing"]


def _cells(controller: Answer) -> list[Any]:
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
    ]


def _webhooks(status: Answer, width: int | None) -> list[Row]:
    entries = []
    for webhook in sorted(status["webhooks"], key=lambda webhook: -webhook["overdue"]):
        state = f"{webhook['overdue']} stuck" if webhook["overdue"] else "ok"
        cells = [
            webhook["path"],
            rate(webhook["per_second"]),
            f"{webhook['total']:,}",
            f"{webhook['errors']:,}",
            f"{webhook['denied']:,}",
            webhook["in_flight"],
            duration(webhook["p50"]),
            duration(webhook["p99"]),
        ]
        entries.append(Entry(cells, state, BAD if webhook["overdue"] else PLAIN, webhook["path"]))
    return rows_of(_WEBHOOKS, "STATE", entries, width) if entries else []


def _shards(status: Answer, width: int | None) -> Iterator[Row]:
    """Yield the part of this replica in the keys that replicas share, the members, and the ranges that move now."""
    if (shards := status.get("shards")) is None:
        return
    yield Row(wrapped(f"shards: {shards['summary']}", width))
    members = [
        Entry(
            (row["name"], percent(row["share"]), str(row["ranges"]), duration(row["renewed_seconds"])),
            "leaves" if row["leaving"] else "this replica" if row["mine"] else "member",
            BAD if row["leaving"] else PLAIN,
        )
        for row in sorted(shards["members"], key=lambda row: (not row["leaving"], row["name"]))
    ]
    if members:
        yield from rows_of(_MEMBERS, "STATE", members, width)
    moving = [row for row in shards["ranges"] if row["claimant"]]
    entries = [
        Entry((f"{row['line']} {row['start']}", row["owner"] or "nobody", row["claimant"]), row["here"] or "elsewhere")
        for row in moving
    ]
    if entries:
        yield from rows_of(_SHARDS, "HERE", entries, width)


def _informers(status: Answer, width: int | None) -> list[Row]:
    entries = []
    for informer in sorted(status["informers"], key=lambda row: (rank(of_informer(row)), row["resource"], row["id"])):
        state = of_informer(informer)
        resource = ".".join(filter(None, (informer["resource"], informer["group"])))
        cells = [
            " ".join(filter(None, (resource, informer["selection"]))),
            f"{informer['objects']:,}",
            size(informer["bytes"]),
            duration(informer["last_event_seconds"]),
            len(informer["users"]),
        ]
        style = PLAIN if is_good(state) else BAD
        entries.append(Entry(cells, state, style, informer["id"], InformerView(informer["id"])))
    return rows_of(_INFORMERS, "STATE", entries, width)
