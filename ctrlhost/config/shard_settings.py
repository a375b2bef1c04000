"""The settings of shards: several replicas that all work, each on a part of the keys."""

from __future__ import annotations

import re

import msgspec

from ctrlhost.duration import Duration

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LONGEST_NAME = 40
"""The Lease of a member has the name and 16 more characters, of which a label takes 63."""


class ShardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[shards]`: several replicas share the keys of controllers with `shard_by`."""

    enabled: bool = False
    """Work on a part of the keys of each controller with `shard_by`; a leader runs all others."""

    name: str = "ctrlhost"
    """The name of the fleet, with which the names of its Leases begin, beside those of leader election."""

    min_members: int = 1
    """While there are fewer members than this, each takes at most this part of the objects, and the rest waits."""

    handover_timeout: Duration = Duration("60s")
    """How long a replica that stops waits for the others to take its ranges, before `drain_timeout` begins."""

    require_server_filter: bool = False
    """Be ready only while the API server filters lists and watches by hash, which its feature gate
    `ShardedListAndWatch` makes it do; otherwise each replica receives all objects, and keeps its part."""

    def __post_init__(self) -> None:
        """Reject a name that is no name of a Lease, and a number of members that is none."""
        if self.min_members < 1:
            raise ValueError(f"`min_members` must be at least 1, got {self.min_members}")
        if not _NAME.fullmatch(self.name) or len(self.name) > LONGEST_NAME:
            raise ValueError(f"`name` must be a DNS label of at most {LONGEST_NAME} characters, got {self.name!r}")
