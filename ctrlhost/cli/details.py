"""The views that `ctrlhost top` opens: a controller, a cause, a key and an informer."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ctrlhost.cli.amounts import duration, plural, rate, since
from ctrlhost.cli.explain_key import facts_of_key, traceback_of
from ctrlhost.cli.failures import CAUSES, FAILING_KEYS, cause_cells, cause_text, key_cells, last_error
from ctrlhost.cli.informers import facts_of_informer, users_of
from ctrlhost.cli.rows import BAD, FAINT, HEADING, PLAIN, Entry, Row, facts_of, lines_of, rows_of
from ctrlhost.cli.running_host import parse_controller
from ctrlhost.cli.states import of_controller, plugins_by_name
from ctrlhost.cli.table import Column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.cli.running_host import Answer, RunningHost

#: The failing and the other keys that a view lists, at most.
_FAILING, _OTHERS = 200, 50
_KEYS = (
    Column("KEY"),
    Column("PRIORITY", right=True, rank=0),
    Column("AGE", right=True),
    Column("DUE", right=True),
    Column("FAILURES", right=True, rank=1),
)
_NO_KEY = "no key fails"


class ControllerView:
    """A controller: its state, causes, failing keys and queue."""

    key = ""

    def __init__(self, controller: str) -> None:
        """Show the controller `PLUGIN/NAME`."""
        self.controller = controller

    @property
    def title(self) -> str:
        """The name of the controller."""
        return self.controller

    def ask(self, host: RunningHost) -> Answer:
        """Ask for the keys in each part of the queue."""
        path = f"/queues/{parse_controller(self.controller)}"
        limits = {"failing": _FAILING, "processing": _OTHERS, "queued": _OTHERS, "delayed": _OTHERS}
        return {
            part: host.read(host.get(f"{path}?{urlencode({'part': part, 'limit': limit})}"))
            for part, limit in limits.items()
        }

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:
        """Return facts, causes, failing keys, and those in the queue."""
        controller = next((row for row in status["controllers"] if row["name"] == self.controller), None)
        facts = [] if controller is None else list(_facts(controller, status))
        causes = [cause for cause in status["causes"] if cause["controller"] == self.controller]
        return [
            *facts_of(facts, width),
            *causes_of(causes, status["time"], width),
            *_failing(self.controller, answer["failing"], width),
            *(row for part in ("processing", "queued", "delayed") for row in self._keys(part, answer[part], width)),
        ]

    def _keys(self, part: str, page: Answer, width: int | None) -> list[Row]:
        if not page["items"]:
            return []
        entries = []
        for item in page["items"]:
            priority = "-" if item["priority"] is None else item["priority"]
            times = [duration(item["age_seconds"]), duration(item["due_seconds"])]
            cells = [item["key"], priority, *times, f"{item['failures']:,}"]
            name = f"{part} {item['key']}"
            entries.append(Entry(cells, part, PLAIN, name, KeyView(self.controller, item["key"])))
        return [*rows_of(_KEYS, "PART", entries, width), *_rest(page, part)]


class CauseView:
    """A cause: what it is, the traceback of an example, and its keys."""

    key = ""

    def __init__(self, controller: str, cause: str, title: str) -> None:
        """Show the cause with this id of the controller `PLUGIN/NAME`."""
        self.controller = controller
        self.cause = cause
        self.title = f"{controller}: {title}"

    def ask(self, host: RunningHost) -> Answer:
        """Ask for the tracebacks of the controller's causes, and the keys of this one."""
        controller = parse_controller(self.controller)
        query = urlencode({"part": "failing", "limit": _FAILING, "cause": self.cause})
        page = host.read(host.get(f"/causes/{controller}"))
        details = [detail for detail in page["items"] if detail["cause"]["id"] == self.cause]
        return {"detail": details[0] if details else None, "keys": host.read(host.get(f"/queues/{controller}?{query}"))}

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:
        """Return facts, the traceback and the keys."""
        detail = answer["detail"]
        if detail is None:
            return [Row(("this cause is over: no key has failed for it in the last 10 minutes",), FAINT)]
        cause, now = detail["cause"], status["time"]
        facts = {
            "cause": cause_text(cause),
            "keys": f"{plural(cause['keys'], 'key')} failing now",
            "failures": f"{cause['failures']:,}, {rate(cause['per_second'])} per second in the last minute",
            "first": f"{duration(since(cause['first'], now))} ago",
            "last": f"{duration(since(cause['last'], now))} ago, of {cause['key']} ({cause['reconcile_id']})",
            "error": cause["error"],
        }
        rows = facts_of(facts.items(), width)
        if detail["traceback"]:
            rows += [Row((f"TRACEBACK of {cause['key']}",), HEADING), *lines_of(detail["traceback"], width)]
        return [*rows, *_failing(self.controller, answer["keys"], width)]


class KeyView:
    """A key: why it is not reconciled, its last runs, and the traceback of its last failure."""

    def __init__(self, controller: str, key: str) -> None:
        """Show a key of the controller `PLUGIN/NAME`."""
        self.controller = controller
        self.key = key

    @property
    def title(self) -> str:
        """The names of the controller and the key."""
        return f"{self.controller} {self.key}"

    def ask(self, host: RunningHost) -> Answer:
        """Ask why the key is not reconciled."""
        return host.read(host.get(f"/keys/{parse_controller(self.controller)}?{urlencode({'key': self.key})}"))

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:
        """Return what `ctrlhost explain-key` prints."""
        rows = facts_of(facts_of_key(self.controller, self.key, answer, status["time"]), width)
        if text := traceback_of(answer):
            rows += [Row(("TRACEBACK of the last failure",), HEADING), *lines_of(text, width)]
        return rows


class InformerView:
    """An informer and its users."""

    controller = key = ""

    def __init__(self, informer: str) -> None:
        """Show the informer with this id."""
        self.title = informer

    def ask(self, host: RunningHost) -> Answer:  # noqa: ARG002 - as of each view
        """Return nothing: the status has all."""
        return {}

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:  # noqa: ARG002 - as above
        """Return what `ctrlhost informers ID` prints."""
        informer = next((row for row in status["informers"] if row["id"] == self.title), None)
        if informer is None:
            return [Row(("this informer is gone",), FAINT)]
        columns, cells = users_of(informer)
        *numbers, text = columns
        entries = [
            Entry(row[:-1], row[-1], PLAIN, str(row[0]), ControllerView(str(row[0])) if "/" in str(row[0]) else None)
            for row in cells
        ]
        users = rows_of(numbers, text.title, entries, width) if entries else []
        return [*facts_of(facts_of_informer(informer), width), *users]


def _facts(controller: Answer, status: Answer) -> Iterator[tuple[str, str]]:
    plugin, queue = plugins_by_name(status).get(controller["name"].partition("/")[0]), controller["queue"]
    yield "state", of_controller(controller, plugin, status["time"])
    if oldest := controller["outcomes"]["since"]:
        yield "failing", f"since {duration(since(oldest, status['time']))}"
    runs = f"{rate(controller['per_second'])} runs, {rate(controller['errors_per_second'])} errors per second"
    yield (
        "rate",
        f"{runs}; half of the runs within {duration(controller['p50'])}, 99 % within {duration(controller['p99'])}",
    )
    yield "workers", f"{controller['active']} of {controller['workers']} at work"
    counts = {"pending": queue["depth"], "delayed": queue["delayed"], "retrying": queue["retrying"]}
    yield "queue", ", ".join(f"{count:,} {name}" for name, count in counts.items())


def causes_of(causes: Sequence[Answer], now: str, width: int | None) -> list[Row]:
    """Return the causes for which keys fail; nothing without any."""
    entries = [
        Entry(
            cause_cells(cause, now),
            cause_text(cause),
            BAD if cause["keys"] else PLAIN,
            cause["id"],
            CauseView(cause["controller"], cause["id"], cause_text(cause)),
        )
        for cause in causes
    ]
    return rows_of(CAUSES, "CAUSE", entries, width) if entries else []


def _failing(controller: str, page: Answer, width: int | None) -> list[Row]:
    if not page["items"]:
        return [Row((_NO_KEY,), FAINT)]
    entries = [
        Entry(key_cells(item), last_error(item), BAD, item["key"], KeyView(controller, item["key"]))
        for item in page["items"]
    ]
    return [*rows_of(FAILING_KEYS, "LAST ERROR", entries, width), *_rest(page, "failing")]


def _rest(page: Answer, part: str) -> list[Row]:
    missing = page["total"] - len(page["items"])
    return [Row((f"… {missing:,} more {part}; `ctrlhost queue` lists all",), FAINT)] if missing > 0 else []
