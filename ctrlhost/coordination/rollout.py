"""Controllers that only some members have, as while a new version rolls out: they run for the ranges of those alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.coordination.shard_map import line_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ctrlhost.coordination.shard_map import Incarnation, ShardMap


def partial(
    shards: ShardMap, members: Mapping[Incarnation, Collection[str]], shard_by: Mapping[str, str]
) -> dict[str, float]:
    """Return those of these controllers that some live members lack, with the part of the weight that has them, 0 to 1.

    `members` are the live members with the controllers that each has.
    """
    parts = {}
    for name, by in sorted(shard_by.items()):
        having = {member for member, controllers in members.items() if name in controllers}
        if len(having) < len(members):
            line = shards.lines.get(line_of(by), ())
            total = sum(entry.weight for entry in line)
            have = sum(entry.weight for entry in line if entry.owner in having)
            parts[name] = have / total if total else 0.0
    return parts
