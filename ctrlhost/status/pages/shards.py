"""The tables of replicas that share keys: the members, and who owns which range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.controller.sentences import counted
from ctrlhost.server.page import Column, Section, head_cell, number_cell, table_row
from ctrlhost.status.pages.tables import state
from ctrlhost.status.pages.text import NONE, age, count

if TYPE_CHECKING:
    from ctrlhost.status import model

_MEMBERS = (
    Column("Member"),
    Column("State"),
    Column("Share", number=True),
    Column("Ranges", number=True),
    Column("Renewed", number=True),
)
_RANGES = (
    Column("Range"),
    Column("Owner"),
    Column("Claimant"),
    Column("Objects", number=True),
    Column("This replica"),
)


def shards(status: model.ShardsStatus | None) -> list[Section]:
    """Return the members, those that leave first, and the ranges of keys that they share, those that move first."""
    if status is None:
        return []
    members = []
    for member in sorted(status.members, key=lambda member: (not member.leaving, member.name)):
        cells = [
            head_cell(member.name),
            state("warn", "leaves") if member.leaving else state("good", "this replica" if member.mine else "member"),
            number_cell(f"{member.share:.0%}"),
            number_cell(count(member.ranges)),
            number_cell(age(member.renewed_seconds)),
        ]
        members.append(table_row(f"m-{member.name}", cells))
    ranges = []
    for row in status.ranges:
        name = f"{row.line} {row.start}"
        texts = [head_cell(name), row.owner or NONE, row.claimant or NONE, number_cell(count(row.weight)), row.here]
        ranges.append(table_row(f"s-{row.line}-{row.start}", texts))
    moving = sum(bool(row.claimant) for row in status.ranges)
    fold = counted(len(ranges), "range") + (f", {count(moving)} moving" if moving else "")
    tables = [Section("members", members, "Shards", _MEMBERS, fold=status.summary)] if members else []
    return [*tables, *([Section("shards", ranges, "Ranges", _RANGES, fold=fold)] if ranges else [])]
