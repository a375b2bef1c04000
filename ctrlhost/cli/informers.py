"""`ctrlhost informers`: the informers of a running host, what they hold, and who uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from ctrlhost.cli.amounts import duration, size
from ctrlhost.cli.running_host import RunningHost, print_json, reading
from ctrlhost.cli.table import Column, print_table, visible
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

_LIST = (
    Column("ID"),
    Column("OBJECTS", right=True),
    Column("BYTES", right=True),
    Column("LAST EVENT", right=True),
    Column("USERS", right=True),
    Column("PENDING", right=True),
    Column("STATE"),
)
_USERS = (
    Column("USER"),
    Column("CPU", right=True),
    Column("HANDLERS", right=True),
    Column("PENDING", right=True),
    Column("READS"),
)


class _Rows(msgspec.Struct):
    """The informers of a status, as they came."""

    informers: list[msgspec.Raw]


@click.command("informers")
@click.argument("informer", metavar="[ID]", required=False)
@reading
def command(informer: str | None, url: str | None, socket: Path | None, output: str) -> None:
    """List the informers of a running host: what each one holds, how many use it, and its state.

    With an ID, print one of them with its users: what each one reads, the processor time of its functions, the time in
    its handlers, and the notifications that wait for these.
    """
    host = RunningHost(url, socket)
    body = host.get("/status")
    rows: list[Answer] = host.read(body)["informers"]
    if informer is None:
        if output == "json":
            print_json(body)
            return
        print_table(_LIST, [_row(row) for row in rows])
        return
    ids = [row["id"] for row in rows]
    if informer not in ids:
        from ctrlhost.status.problem import unknown

        problem = unknown("informer", informer, ids)
        raise ConfigError(visible(problem.error), hint=problem.hint)
    at = ids.index(informer)
    if output == "json":
        print_json(bytes(msgspec.json.decode(body, type=_Rows).informers[at]))
        return
    _print_one(rows[at])


def state_of(informer: Answer) -> str:
    """Return the state of an informer, with the reason if there is one."""
    return f"{informer['state']}: {informer['reason']}" if informer["reason"] else str(informer["state"])


def _row(informer: Answer) -> list[Any]:
    return [
        informer["id"],
        f"{informer['objects']:,}",
        size(informer["bytes"]),
        duration(informer["last_event_seconds"]),
        len(informer["users"]),
        informer["cost"]["pending"],
        state_of(informer),
    ]


def _print_one(informer: Answer) -> None:
    facts = {
        "resource": ".".join(filter(None, (informer["resource"], informer["group"]))) + f" ({informer['version']})",
        "selection": informer["selection"] or "all objects",
        "state": state_of(informer),
        "objects": f"{informer['objects']:,}, {size(informer['bytes'])}",
        "last event": duration(informer["last_event_seconds"]),
        "last byte": duration(informer["last_byte_seconds"]),
        "watches": informer["watches"],
    }
    click.echo(visible(informer["id"]))
    for name, fact in facts.items():
        click.echo(f"  {name:<10}  {visible(fact)}")
    users = [
        [
            user["controller"] or user["plugin"],
            duration(user["cost"]["cpu_seconds"]),
            duration(user["cost"]["handler_seconds"]),
            user["cost"]["pending"],
            user["reads"] or "whole objects",
        ]
        for user in informer["users"]
    ]
    if users:
        click.echo()
        print_table(_USERS, users)
