"""What `/debug/shards` and the status show: the map, and what this replica does with its ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.ownership import spans
from ctrlhost.status import model

if TYPE_CHECKING:
    from ctrlhost.coordination.shard_map import Incarnation
    from ctrlhost.host.shards import HostShards


def shard_report(host: HostShards) -> dict[str, Any]:
    """Return the members, and each range with its owner, claimant and weight; those here with state and runs."""
    shards, phases = host.store.shards, host.ownership.phases()
    report: dict[str, Any] = {
        "member": host.membership.name,
        "problem": host.shards.unready(),
        "members": [{"name": member.incarnation.lease, "leaving": member.leaving} for member in host.fleet.members()],
        "map": None,
    }
    if shards is None:
        return report
    ranges = []
    for span, place in spans(shards):
        entry = shards.lines[span.line][place]
        row: dict[str, Any] = {
            "line": span.line,
            "start": f"{span.start:016x}",
            "owner": _name(entry.owner),
            "claimant": _name(entry.claimant),
            "weight": entry.weight,
        }
        if (phase := phases.get(span)) is not None:
            row["state"] = phase.value
            row["runs"] = sorted(f"{run.place:016x}" for run in host.ownership.running(span))
            row["keys"] = sorted(str(key) for key in host.running_keys(span))
        ranges.append(row)
    report["map"] = {"id": shards.id, "epoch": shards.epoch, "shard_by": dict(shards.shard_by), "ranges": ranges}
    return report


def shards_status(host: HostShards) -> model.ShardsStatus:
    """Return the part of this replica, the members, and each range with owner and claimant; those that move first."""
    report = shard_report(host)
    ranges = [
        model.ShardRange(row["line"], row["start"], row["owner"], row["claimant"], row["weight"], row.get("state", ""))
        for row in (report["map"] or {"ranges": []})["ranges"]
    ]
    return model.ShardsStatus(host.summary(), _members(host), sorted(ranges, key=lambda row: not row.claimant))


def _members(host: HostShards) -> list[model.ShardMember]:
    shards, now = host.store.shards, host.clock.now()
    entries = [entry for line in shards.lines.values() for entry in line] if shards is not None else []
    total = sum(entry.weight for entry in entries)
    members = []
    for seen in host.fleet.held():
        owned = [entry.weight for entry in entries if entry.owner == seen.incarnation]
        share = sum(owned) / total if total else 0.0
        mine = seen.name == host.membership.name
        members.append(
            model.ShardMember(seen.name, share, len(owned), max(now - seen.since, 0.0), seen.member.leaving, mine)
        )
    return members


def _name(incarnation: Incarnation | None) -> str:
    return incarnation.lease if incarnation is not None else ""
