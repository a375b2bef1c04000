"""The members of a fleet of shards, as one replica has seen their Leases: who lives, who is silent, who is over.

An incarnation is over when its Lease was released, or was fenced: it did not change for its duration, and was then
emptied by an update of that very version. Silence alone ends nothing, since a watch may be late.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.balance import Member
from ctrlhost.coordination.lease import API_VERSION, LeaderElectionRecord
from ctrlhost.coordination.shard_map import Incarnation
from ctrlhost.errors import CtrlhostError, NotFound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import LeaderElectionConfig

log = logging.getLogger("ctrlhost.shards")

#: The label with the name of the fleet, on the Leases of its members and on that of its map.
FLEET = "ctrlhost.dev/fleet"
#: The label of a member that leaves, and its value.
SHARDS, LEAVING = "ctrlhost.dev/shards", "leaving"
#: The annotation with the id of the map that a member has accepted.
MAP_ID = "ctrlhost.dev/map"
#: Seconds after which a Lease without a holder is deleted, and a deleted one is forgotten.
KEPT = 3600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A Lease as it was last seen."""

    lease: Mapping[str, Any]
    record: LeaderElectionRecord
    #: When its last change was seen, or its deletion, by this machine's clock.
    since: float

    @property
    def name(self) -> str:
        """The name of the Lease."""
        return str(self.lease["metadata"]["name"])

    @property
    def incarnation(self) -> Incarnation:
        """The incarnation that holds the Lease, or held it last."""
        metadata = self.lease["metadata"]
        return Incarnation(self.name, str(metadata.get("uid", "")), self.record.lease_transitions)

    @property
    def member(self) -> Member:
        """The member whose Lease it is."""
        labels = self.lease["metadata"].get("labels") or {}
        return Member(self.incarnation, labels.get(SHARDS) == LEAVING)

    @property
    def map_id(self) -> str:
        """The id of the map that the member has accepted; empty if there is none."""
        return str((self.lease["metadata"].get("annotations") or {}).get(MAP_ID, ""))

    def ends(self, incarnation: Incarnation) -> bool:
        """Return whether this state of its Lease shows that an incarnation is over; an older state shows nothing."""
        transitions = self.record.lease_transitions
        free = not self.record.holder_identity
        return transitions > incarnation.transitions or (free and transitions == incarnation.transitions)


class Fleet:
    """What a replica knows of the members' Leases. Callable from any thread; only `fence` and `clean` send requests.

    `seen` and `removed` are for a watch that selects `FLEET=NAME`, `listed` is for a consistent list of the same.
    """

    def __init__(self, client: Client, clock: Clock, config: LeaderElectionConfig, own: str) -> None:
        """Know nobody. `config` has the times of this replica; `own` is its Lease, which it never fences."""
        self._client = client
        self._own = own
        self._clock = clock
        self._config = config
        self._lock = threading.Lock()
        #: By uid.
        self._seen: dict[str, Seen] = {}
        #: By uid: what was deleted, with its last state, or None if this replica never saw it; and since when.
        self._deleted: dict[str, tuple[Seen | None, float]] = {}
        #: The uids that `over` was asked about and that no watch has shown.
        self._unknown: set[str] = set()

    def seen(self, lease: Mapping[str, Any]) -> None:
        """Take note of a Lease. Silence begins anew with each version, and not with a version seen before."""
        metadata = lease["metadata"]
        uid = str(metadata.get("uid", ""))
        with self._lock:
            before = self._seen.get(uid)
            if uid in self._deleted or (before and not _newer(lease, before.lease)):
                return
            self._unknown.discard(uid)
            self._seen[uid] = Seen(lease, LeaderElectionRecord.of(lease), self._clock.now())

    def removed(self, lease: Mapping[str, Any]) -> None:
        """Take note of the deletion of a Lease: its last incarnation is over after its duration."""
        uid = str(lease["metadata"].get("uid", ""))
        with self._lock:
            self._deleted.setdefault(uid, (self._seen.pop(uid, None), self._clock.now()))

    def unknown(self) -> frozenset[str]:
        """Return the uids that `over` was asked about and that were never seen: a consistent list is needed."""
        with self._lock:
            return frozenset(self._unknown)

    def listed(self, leases: Iterable[Mapping[str, Any]], unknown: Collection[str]) -> None:
        """Take note of a consistent list, sent after `unknown` was read: which of those Leases are gone."""
        leases = list(leases)
        for lease in leases:
            self.seen(lease)
        gone = set(unknown) - {str(lease["metadata"].get("uid", "")) for lease in leases}
        with self._lock:
            for uid in gone & self._unknown:
                self._deleted.setdefault(uid, (None, self._clock.now()))
            self._unknown -= gone

    def over(self, incarnation: Incarnation) -> bool:
        """Return whether an incarnation is over, as far as this replica knows."""
        with self._lock:
            if seen := self._seen.get(incarnation.uid):
                return seen.ends(incarnation)
            if incarnation.uid not in self._deleted:
                self._unknown.add(incarnation.uid)
                return False
            last, since = self._deleted[incarnation.uid]
            if last is not None and last.ends(incarnation):
                return True
            duration = last.record.lease_duration if last is not None else self._config.lease_duration
            return self._clock.now() >= since + duration

    def members(self) -> list[Member]:
        """Return the members whose Leases have a holder, by name."""
        return sorted(seen.member for seen in self._all() if seen.record.holder_identity)

    def accepted(self, map_id: str) -> bool:
        """Return whether each Lease with a holder shows the id of this map; of use right after `listed`."""
        return all(seen.map_id == map_id for seen in self._all() if seen.record.holder_identity)

    def silent(self) -> list[Seen]:
        """Return the Leases of others with a holder that have not changed for their duration."""
        now = self._clock.now()
        held = [seen for seen in self._all() if seen.record.holder_identity and seen.name != self._own]
        return [seen for seen in held if now >= seen.since + seen.record.lease_duration]

    def left(self, named: Collection[Incarnation]) -> list[Seen]:
        """Return the Leases that have had no holder for an hour and that the map does not name."""
        before, uids = self._clock.now() - KEPT, {incarnation.uid for incarnation in named}
        free = [seen for seen in self._all() if not seen.record.holder_identity and seen.since <= before]
        return [seen for seen in free if seen.incarnation.uid not in uids]

    def _all(self) -> list[Seen]:
        with self._lock:
            old = self._clock.now() - KEPT
            self._deleted = {uid: entry for uid, entry in self._deleted.items() if entry[1] > old}
            return list(self._seen.values())

    def fence(self, seen: Seen, lasted: float) -> bool:
        """Empty a silent Lease, whose holder must not act any more; return whether its incarnation is over now.

        Nothing is sent before this replica's own term has `lasted` for the duration of that Lease, in seconds: if the
        API server was away, the holder needs as long as this replica to renew. Never raises.
        """
        if lasted < seen.record.lease_duration:
            return False
        emptied = {**seen.lease, "spec": seen.record.released(self._clock.time()).spec()}
        try:
            self.seen(self._client.replace(emptied, timeout=self._config.request_timeout))
        except CtrlhostError as error:
            log.info("lease %s is silent, but was not fenced: %s", seen.name, error)
            self._look_again(seen)
            return False
        log.warning("fenced lease %s: its holder did not renew it for %d s", seen.name, seen.record.lease_duration)
        return True

    def clean(self, seen: Seen) -> None:
        """Delete a Lease that `left` returned, unless it has changed. Never raises."""
        metadata = seen.lease["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        try:
            self._client.delete(
                API_VERSION,
                "Lease",
                seen.name,
                metadata["namespace"],
                preconditions=preconditions,
                timeout=self._config.request_timeout,
            )
        except CtrlhostError as error:
            log.debug("lease %s was not deleted: %s", seen.name, error)
            self._look_again(seen)
        else:
            self.removed(seen.lease)

    def _look_again(self, seen: Seen) -> None:
        """Read a Lease that a watch should have shown: it is not silent, or gone."""
        metadata = seen.lease["metadata"]
        try:
            lease = self._client.get(
                API_VERSION, "Lease", seen.name, metadata["namespace"], timeout=self._config.request_timeout
            )
        except NotFound:
            self.removed(seen.lease)
        except CtrlhostError as error:
            log.debug("lease %s: %s", seen.name, error)
        else:
            if lease["metadata"]["uid"] != metadata["uid"]:
                self.removed(seen.lease)
            self.seen(lease)


def _newer(lease: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether a Lease is newer than an earlier look at it; a watch may be behind a read."""
    version, known = (str(each["metadata"].get("resourceVersion", "")) for each in (lease, before))
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version != known
