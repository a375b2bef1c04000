"""`ctrlhost informers`: the informers of a running host, what they hold, and who uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from ctrlhost.cli.amounts import duration, size
from ctrlhost.cli.completing import complete_informer
from ctrlhost.cli.running_host import RunningHost, print_json, reading
from ctrlhost.cli.states import of_informer, rank
from ctrlhost.cli.table import Column, print_table, visible
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
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
@click.argument("informer", metavar="[ID]", required=False, shell_complete=complete_informer)
@reading
def command(informer: str | None, url: str | None, socket: Path | None, output: str) -> None:
    """List the informers of a running host, those that are not current first: what each one holds, and its users.

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
        print_table(_LIST, [_row(row) for row in sorted(rows, key=lambda row: rank(of_informer(row)))])
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
    click.echo(visible(informer))
    for name, fact in facts_of_informer(rows[at]):
        click.echo(f"  {name:<10}  {visible(fact)}")
    columns, users = users_of(rows[at])
    if users:
        click.echo()
        print_table(columns, users)


def _row(informer: Answer) -> list[Any]:
    return [
        informer["id"],
        f"{informer['objects']:,}",
        size(informer["bytes"]),
        duration(informer["last_event_seconds"]),
        len(informer["users"]),
        informer["cost"]["pending"],
        of_informer(informer),
    ]


def facts_of_informer(informer: Answer) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of what is known of an informer."""
    yield "resource", ".".join(filter(None, (informer["resource"], informer["group"]))) + f" ({informer['version']})"
    yield "selection", informer["selection"] or "all objects"
    yield "state", of_informer(informer)
    yield "objects", f"{informer['objects']:,}, {size(informer['bytes'])}"
    yield "last event", duration(informer["last_event_seconds"])
    yield "last byte", duration(informer["last_byte_seconds"])
    yield "watches", str(informer["watches"])


def users_of(informer: Answer) -> tuple[tuple[Column, ...], list[list[Any]]]:
    """Return the columns and the rows of an informer's users."""
    rows = [
        [
            user["controller"] or user["plugin"],
            duration(user["cost"]["cpu_seconds"]),
            duration(user["cost"]["handler_seconds"]),
            user["cost"]["pending"],
            user["reads"] or "whole objects",
        ]
        for user in informer["users"]
    ]
    return _USERS, rows
