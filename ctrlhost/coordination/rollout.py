"""Controllers that only some members have, as while a new version rolls out: they run for the ranges of those alone."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from ctrlhost.coordination.shard_map import line_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ctrlhost.coordination.shard_map import Incarnation, ShardMap


def partial(
    shards: ShardMap, members: Mapping[Incarnation, Collection[str]], shard_by: Mapping[str, str]
) -> dict[str, float]:
    """Return those of these controllers that some live members lack, with the part of the weight that has them, 0 to 1.

    `members` are the live members with the controllers that each has. One without any on a line reports no weight of
    its ranges there: each counts as one of the others.
    """
    parts = {}
    for name, by in sorted(shard_by.items()):
        having = {member for member, controllers in members.items() if name in controllers}
        if len(having) < len(members):
            line = shards.lines.get(line_of(by), ())
            known = [entry.weight for entry in line if entry.weight]
            have = sum(entry.weight for entry in line if entry.owner in having)
            lack = sum(entry.weight or mean(known) for entry in line if entry.owner not in having) if known else 0
            parts[name] = have / (have + lack) if have else 0.0
    return parts
