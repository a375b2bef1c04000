"""`ctrlhost shards`: the shard map of a fleet, without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.table import Column, print_table

if TYPE_CHECKING:
    from ctrlhost.coordination.fleet import Seen
    from ctrlhost.coordination.shard_map import Incarnation, ShardMap

_MEMBERS = (
    Column("MEMBER"),
    Column("SHARE", right=True),
    Column("RANGES", right=True),
    Column("RENEWED"),
    Column("STATE"),
    Column("HOLDER"),
)
_RANGES = (Column("LINE"), Column("START"), Column("OWNER"), Column("CLAIMANT"), Column("OBJECTS", right=True))


@click.command("shards")
@click.option("--name", default="ctrlhost", show_default=True, help="Name of the fleet: the setting `shards.name`.")
@click.option("--namespace", metavar="NAME", help="Namespace of its Leases (default: that of the kubeconfig).")
@click.option("--ranges", is_flag=True, help="List the ranges, too.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Kubeconfig (default: $KUBECONFIG, the pod's service account, ~/.kube/config)."
)
@click.option("--context", metavar="NAME", help="Kubeconfig context (default: current).")
def command(name: str, namespace: str | None, ranges: bool, kubeconfig: str | None, context: str | None) -> None:
    """Print the members of a fleet and what each owns, as its Leases say; no host need run.

    Exit code 1 without a shard map.
    """
    from ctrlhost.client import Client
    from ctrlhost.coordination.fleet import FLEET, SHARDS
    from ctrlhost.coordination.fleet import Seen as SeenLease
    from ctrlhost.coordination.lease import API_VERSION, LeaderElectionRecord
    from ctrlhost.coordination.shard_map import MalformedMap, NewerMap, parse

    client = Client.load(kubeconfig, context)
    try:
        where = namespace or client.namespace
        leases = {
            lease["metadata"]["name"]: lease
            for lease in client.list(API_VERSION, "Lease", where, label_selector=f"{FLEET}={name}")
        }
    finally:
        client.close()
    stored = leases.pop(f"{name}-shards", None)
    if stored is None:
        raise click.ClickException(
            f"no Lease {where}/{name}-shards: no host of this fleet has run with --shards in this namespace "
            "(hint: `--namespace` says where the pods are, `--name` is the setting `shards.name`)"
        )
    try:
        shards = parse((stored["metadata"].get("annotations") or {}).get(SHARDS, ""))
    except NewerMap as error:
        raise click.ClickException(f"Lease {where}/{name}-shards: {error}") from error
    except MalformedMap as error:
        raise click.ClickException(
            f"Lease {where}/{name}-shards: {error} (hint: the replicas replace it; check that one runs)"
        ) from error
    click.echo(f"map {shards.id}, epoch {shards.epoch}")
    for controller, by in sorted(shards.shard_by.items()):
        click.echo(f"{controller} by {by}")
    seen = [SeenLease(lease, LeaderElectionRecord.of(lease), 0.0) for _, lease in sorted(leases.items())]
    print_table(_MEMBERS, [_member(each, shards) for each in seen])
    if ranges:
        rows = [
            (line, f"{entry.start:016x}", _name(entry.owner), _name(entry.claimant), entry.weight)
            for line, entries in sorted(shards.lines.items())
            for entry in entries
        ]
        print_table(_RANGES, rows)


def _member(seen: Seen, shards: ShardMap) -> tuple[object, ...]:
    entries = [entry for line in shards.lines.values() for entry in line]
    owned = [entry for entry in entries if entry.owner == seen.incarnation]
    total = sum(entry.weight for entry in entries)
    share = sum(entry.weight for entry in owned) / total if total else 0.0
    holder = seen.record.holder_identity
    state = "over" if not holder else "leaving" if seen.member.leaving else "member"
    return seen.name, f"{share:.0%}", len(owned), seen.record.renew_time or "", state, holder


def _name(incarnation: Incarnation | None) -> str:
    return incarnation.lease if incarnation is not None else ""
