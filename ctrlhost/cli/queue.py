"""`ctrlhost queue`: the queues of a running host, and the keys of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from ctrlhost.cli.amounts import duration
from ctrlhost.cli.running_host import RunningHost, parse_controller, print_json, reading
from ctrlhost.cli.table import Column, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

#: The parts of a queue that are disjoint.
_PARTS = ("processing", "queued", "delayed")
#: The keys that the host returns at once, at most.
_MOST = 1000
_QUEUES = (
    Column("CONTROLLER"),
    Column("DEPTH", right=True),
    Column("OLDEST", right=True),
    Column("PROCESSING", right=True),
    Column("DELAYED", right=True),
    Column("RETRY", right=True),
)
_KEYS = (
    Column("KEY"),
    Column("PART"),
    Column("PRIORITY", right=True),
    Column("AGE", right=True),
    Column("DUE", right=True),
    Column("FAILURES", right=True),
)
_FAILING = (
    Column("KEY"),
    Column("FAILURES", right=True),
    Column("NEXT RETRY", right=True),
    Column("LAST ERROR"),
    Column("RECONCILE"),
)


@click.command("queue")
@click.argument("controller", metavar="[PLUGIN/CONTROLLER]", required=False)
@click.option("--part", type=click.Choice([*_PARTS, "failing"]), help="Only this part of the keys.")
@click.option("--failing", is_flag=True, help="The keys whose last reconcile failed, with the error.")
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
    """List the queues of a running host: how many keys each one has, and for how long the oldest has waited.

    With a controller, list its keys, first those in work, then the queued ones in their order, then those that wait for
    a delay to end. With --output json that is one part, by default `queued`.

    With --failing and no controller, list the failing keys of all controllers, those with the most failures first. With
    --output json those are the ten under `failing`.
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
            return
        controllers = host.read(body)["controllers"]
        if part == "failing":
            _print_failing(host, [controller["name"] for controller in controllers], limit)
        else:
            print_table(_QUEUES, [_of_controller(controller) for controller in controllers])
        return
    path = f"/queues/{parse_controller(controller)}"
    query = {"limit": str(limit)} | ({} if after is None else {"after": after})
    if output == "json":
        print_json(host.get(f"{path}?{urlencode({'part': part or 'queued', **query})}"))
        return
    parts = _PARTS if part is None else (part,)
    pages = {name: host.read(host.get(f"{path}?{urlencode({'part': name, **query})}")) for name in parts}
    columns, row = (_FAILING, _failing) if part == "failing" else (_KEYS, _key)
    print_table(columns, [row(part_name, item) for part_name, page in pages.items() for item in page["items"]])
    for part_name, page in pages.items():
        if page["next"] is not None:
            click.echo(
                f"{page['total']:,} {part_name} in all; the next: --part {part_name} --after {page['next']}", err=True
            )


def _print_failing(host: RunningHost, controllers: list[str], limit: int) -> None:
    """Print the failing keys of all controllers, those with the most failures first."""
    query = urlencode({"part": "failing", "limit": _MOST})
    pages = {name: host.read(host.get(f"/queues/{parse_controller(name)}?{query}")) for name in controllers}
    items = [(name, item) for name, page in pages.items() for item in page["items"]]
    items.sort(key=lambda named: -named[1]["failures"])
    print_table((Column("CONTROLLER"), *_FAILING), [[name, *_failing("", item)] for name, item in items[:limit]])
    total = sum(page["total"] for page in pages.values())
    if total > limit:
        click.echo(f"{total:,} failing in all; name a controller for its others, or set --limit", err=True)


def _of_controller(controller: Answer) -> list[Any]:
    queue = controller["queue"]
    oldest = duration(queue["oldest_seconds"]) if queue["depth"] else "-"
    if not controller["leading"]:
        oldest = "standby"
    return [controller["name"], queue["depth"], oldest, queue["processing"], queue["delayed"], queue["retrying"]]


def _key(part: str, item: Answer) -> list[Any]:
    priority = "-" if item["priority"] is None else item["priority"]
    age, due = duration(item["age_seconds"]), duration(item["due_seconds"])
    return [item["key"], part, priority, age, due, item["failures"]]


def _failing(_part: str, item: Answer) -> list[Any]:
    retry = next_retry(item["due_seconds"])
    return [item["key"], item["failures"], retry, last_error(item), item.get("reconcile_id") or "-"]


def next_retry(seconds: float | None) -> str:
    """Return in how long a failing key is reconciled again; `given up` for None."""
    if seconds is None:
        return "given up"
    return "now" if seconds == 0 else duration(seconds)


def last_error(item: Answer, name: str = "error") -> str:
    """Return the error in the field `name` with its place; `-` if the host does not say."""
    place = f" ({item['place']})" if item.get("place") else ""
    return f"{item.get(name) or '-'}{place}"
