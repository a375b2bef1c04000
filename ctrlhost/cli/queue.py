"""`ctrlhost queue`: the queues of a running host, and the keys of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from ctrlhost.cli.amounts import duration
from ctrlhost.cli.completing import complete_controller
from ctrlhost.cli.failures import CAUSES, FAILING_KEYS, cause_cells, cause_text, key_cells, last_error
from ctrlhost.cli.messages import print_hint
from ctrlhost.cli.running_host import RunningHost, parse_controller, print_json, reading
from ctrlhost.cli.states import of_controller, plugins_by_name, rank
from ctrlhost.cli.table import Column, print_table, visible

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

#: The parts of a queue that are disjoint.
_PARTS = ("processing", "queued", "delayed")
#: The keys that the host returns at once, at most.
_MOST = 1000
_QUEUES = (
    Column("CONTROLLER"),
    Column("PENDING", right=True),
    Column("OLDEST", right=True),
    Column("PROCESSING", right=True),
    Column("DELAYED", right=True),
    Column("RETRYING", right=True),
    Column("STATE"),
)
_KEYS = (
    Column("KEY"),
    Column("PART"),
    Column("PRIORITY", right=True),
    Column("AGE", right=True),
    Column("DUE", right=True),
    Column("FAILURES", right=True),
)


@click.command("queue")
@click.argument("controller", metavar="[PLUGIN/CONTROLLER]", required=False, shell_complete=complete_controller)
@click.option("--part", type=click.Choice([*_PARTS, "failing"]), help="Only this part of the keys.")
@click.option("--failing", is_flag=True, help="The causes for which keys fail, and these keys with their errors.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Keys of a part at most.")
@click.option("--after", metavar="CURSOR", help="Continue where the output before has ended.")
@reading
def command(
    controller: str | None,
    part: str | None,
    failing: bool,
    limit: int,
    after: str | None,
    url: str | None,
    socket: Path | None,
    output: str,
) -> None:
    """List the queues of a running host, those of failing controllers first: how many keys each one has.

    With a controller, list its keys, first those in work, then the queued ones in their order, then those that wait for
    a delay to end. With --output json that is one part, by default `queued`.

    With --failing, list the causes for which keys fail, then these keys, those with the most failures first; without a
    controller those of all. With --output json those are the ten under `failing`.
    """
    if failing:
        if part not in (None, "failing"):
            raise click.UsageError("--failing and --part are mutually exclusive")
        part = "failing"
    if controller is None and (part not in (None, "failing") or after is not None):
        raise click.UsageError("--after, and --part of anything but failing keys, need a controller")
    if after is not None and part is None and output == "table":
        raise click.UsageError("--after needs --part: each part has cursors of its own")
    host = RunningHost(url, socket)
    if controller is None:
        body = host.get("/status")
        if output == "json":
            print_json(body)
        elif part == "failing":
            _print_failing(host, host.read(body), limit)
        else:
            _print_queues(host.read(body))
        return
    path = f"/queues/{parse_controller(controller)}"
    query = {"limit": str(limit)} | ({} if after is None else {"after": after})
    if output == "json":
        print_json(host.get(f"{path}?{urlencode({'part': part or 'queued', **query})}"))
        return
    parts = _PARTS if part is None else (part,)
    pages = {name: host.read(host.get(f"{path}?{urlencode({'part': name, **query})}")) for name in parts}
    if part == "failing":
        status = host.status()
        outcomes = next((row["outcomes"] for row in status["controllers"] if row["name"] == controller), None)
        causes = [cause for cause in status["causes"] if cause["controller"] == controller]
        _print_causes(outcomes, causes, status["time"])
        _print_keys([("", item) for item in pages[part]["items"]], named=False)
    else:
        print_table(_KEYS, [_key(name, item) for name, page in pages.items() for item in page["items"]])
    for part_name, page in pages.items():
        if page["next"] is not None:
            click.echo(
                f"{page['total']:,} {part_name} in all; the next: --part {part_name} --after {page['next']}", err=True
            )


def _print_queues(status: Answer) -> None:
    plugins, now = plugins_by_name(status), status["time"]
    rows = [
        [*_of_queue(controller), of_controller(controller, plugins.get(controller["name"].partition("/")[0]), now)]
        for controller in status["controllers"]
    ]
    print_table(_QUEUES, sorted(rows, key=lambda row: rank(str(row[-1]))))


def _of_queue(controller: Answer) -> list[Any]:
    queue = controller["queue"]
    oldest = duration(queue["oldest_seconds"]) if queue["depth"] else "-"
    if not controller["leading"]:
        oldest = "standby"
    return [controller["name"], queue["depth"], oldest, queue["processing"], queue["delayed"], queue["retrying"]]


def _print_failing(host: RunningHost, status: Answer, limit: int) -> None:
    """Print the causes, and the failing keys of all controllers, those with the most failures first."""
    _print_causes(status["outcomes"], status["causes"], status["time"])
    query = urlencode({"part": "failing", "limit": _MOST})
    names = [row["name"] for row in status["controllers"] if row["outcomes"]["failing"]]
    pages = {name: host.read(host.get(f"/queues/{parse_controller(name)}?{query}")) for name in names}
    items = [(name, item) for name, page in pages.items() for item in page["items"]]
    items.sort(key=lambda named: -named[1]["failures"])
    _print_keys(items[:limit], named=True)
    total = sum(page["total"] for page in pages.values())
    if total > limit:
        click.echo(f"{total:,} failing in all; name a controller for its others, or set --limit", err=True)


def _print_causes(outcomes: Answer | None, causes: list[Answer], now: str) -> None:
    """Print how many keys fail, and for which causes."""
    click.echo(visible((outcomes or {}).get("sentence") or "no key fails"))
    if causes := [cause for cause in causes if cause["keys"]]:
        click.echo()
        print_table((*CAUSES, Column("CAUSE")), [[*cause_cells(cause, now), cause_text(cause)] for cause in causes])


def _print_keys(items: list[tuple[str, Answer]], *, named: bool) -> None:
    """Print failing keys, if there are any, and the command that shows more; `named` with their controllers."""
    if not items:
        return
    columns = (*FAILING_KEYS, Column("LAST ERROR"))
    rows = [[*key_cells(item), last_error(item)] for _, item in items]
    click.echo()
    if named:
        print_table(
            (Column("CONTROLLER"), *columns), [[name, *row] for (name, _), row in zip(items, rows, strict=True)]
        )
    else:
        print_table(columns, rows)
    print_hint("`ctrlhost explain-key PLUGIN/CONTROLLER KEY` prints the traceback")


def _key(part: str, item: Answer) -> list[Any]:
    priority = "-" if item["priority"] is None else item["priority"]
    age, due = duration(item["age_seconds"]), duration(item["due_seconds"])
    return [item["key"], part, priority, age, due, item["failures"]]
