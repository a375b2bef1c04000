"""`ctrlhost finalizers`: which objects have finalizers, and how to take one off."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ctrlhost.cli.messages import FAILURE
from ctrlhost.cli.table import Column, table, visible

if TYPE_CHECKING:
    from ctrlhost.authoring.held_objects import HeldObject

_COLUMNS = [Column("FINALIZER"), Column("KIND"), Column("OBJECT"), Column("HOLDER"), Column("DELETED SINCE")]


@click.command("finalizers")
@click.argument("kinds", metavar="APIVERSION/KIND…", nargs=-1, required=True)
@click.option("--release", "name", metavar="NAME", help="Take this finalizer off the listed objects.")
@click.option("--namespace", metavar="NAME", help="Only objects of this namespace.")
@click.option("--deleted", is_flag=True, help="Only objects that are being deleted.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Kubeconfig (default: $KUBECONFIG, the pod's service account, ~/.kube/config)."
)
@click.option("--context", metavar="NAME", help="Kubeconfig context (default: current).")
def command(
    kinds: tuple[str, ...],
    name: str | None,
    namespace: str | None,
    deleted: bool,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """List objects by finalizer, with the client that has set it, and since when it holds their deletion.

    No plugin runs for it. With --release the finalizer is taken off, and nobody cleans up what it stood for: use it
    when no operator does any more.
    """
    from ctrlhost.authoring.held_objects import held_objects, release
    from ctrlhost.client import Client
    from ctrlhost.errors import CtrlhostError
    from ctrlhost.models.kinds import kind_of

    try:
        references = [kind_of(kind) for kind in kinds]
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    client = Client.load(kubeconfig, context)
    try:
        held = [entry for kind in references for entry in held_objects(client, kind, namespace)]
        held = [entry for entry in held if (entry.deleted_since or not deleted) and name in (None, entry.finalizer)]
        if name is None:
            _print(held)
            return 0
        failed = False
        for entry in held:
            try:
                released = release(client, entry)
            except CtrlhostError as error:
                failed = True
                click.echo(f"error: {visible(_object(entry))}: {visible(error.message)}", err=True)
            else:
                if released:
                    click.echo(f"released {visible(_object(entry))}")
        if not held:
            click.echo(f"no object has the finalizer {visible(name)}", err=True)
        return FAILURE if failed else 0
    finally:
        client.close()


def _print(held: list[HeldObject]) -> None:
    rows = [
        (entry.finalizer, entry.kind, _key(entry), entry.holder or "-", _age(entry.deleted_since))
        for entry in sorted(held, key=lambda entry: (entry.finalizer, entry.kind, entry.namespace, entry.name))
    ]
    for line in table(_COLUMNS, rows):
        click.echo(line)


def _key(held: HeldObject) -> str:
    return f"{held.namespace}/{held.name}" if held.namespace else held.name


def _object(held: HeldObject) -> str:
    return f"{held.kind} {_key(held)}"


def _age(since: str) -> str:
    from ctrlhost.cli.amounts import duration

    if not since:
        return "-"
    seconds = time.time() - datetime.fromisoformat(since).timestamp()
    return f"{since}, {duration(max(0.0, seconds))} ago"
