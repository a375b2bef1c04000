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
    from collections.abc import Collection, Mapping

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import LeaderElectionConfig

log = logging.getLogger("ctrlhost.shards")

#: The label with the name of the fleet, on the Leases of its members and on that of its map.
FLEET = "ctrlhost.dev/fleet"
#: On the Lease of a member, the label of one that leaves; on that of the map, the annotation with its text.
SHARDS, LEAVING = "ctrlhost.dev/shards", "leaving"
#: The annotation with the id of the map that a member has accepted.
MAP_ID = "ctrlhost.dev/map"
#: The annotation with the names of the sharded controllers that a member has, separated by commas.
CONTROLLERS = "ctrlhost.dev/controllers"
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
        return self._annotation(MAP_ID)

    @property
    def controllers(self) -> list[str]:
        """The sharded controllers that the member has."""
        return self._annotation(CONTROLLERS).split(",")

    def _annotation(self, name: str) -> str:
        return str((self.lease["metadata"].get("annotations") or {}).get(name, ""))

    def ends(self, incarnation: Incarnation) -> bool:
        """Return whether this state of its Lease shows that an incarnation is over; an older state shows nothing."""
        transitions = self.record.lease_transitions
        free = not self.record.holder_identity
        return transitions > incarnation.transitions or (free and transitions == incarnation.transitions)


class Fleet:
    """What a replica knows of the members' Leases. Callable from any thread; `relist`, `fence`, `clean` send requests.

    `seen` and `removed` are for a watch of the Leases with the label `FLEET=NAME`.
    """

    def __init__(
        self, client: Client, namespace: str, name: str, clock: Clock, config: LeaderElectionConfig, own: str
    ) -> None:
        """Know nobody. `config` has the times of this replica; `own` is its Lease, which it never fences."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._own = own
        self._clock = clock
        self._config = config
        self._lock = threading.Lock()
        #: By uid.
        self._seen: dict[str, Seen] = {}
        #: By uid: what was deleted, with its last state, or None if this replica never saw it; and since when.
        self._deleted: dict[str, tuple[Seen | None, float]] = {}
        #: The uids that `over` was asked about and that no watch has shown, or not any more.
        self._unknown: set[str] = set()

    def seen(self, lease: Mapping[str, Any]) -> None:
        """Take note of a member's Lease. Silence begins anew with each version, but not with one seen before."""
        metadata = lease["metadata"]
        uid = str(metadata.get("uid", ""))
        if not self._is_member(lease):
            return
        with self._lock:
            before = self._seen.get(uid)
            if uid in self._deleted or (before and not newer(lease, before.lease)):
                return
            self._unknown.discard(uid)
            self._seen[uid] = Seen(lease, LeaderElectionRecord.of(lease), self._clock.now())

    def removed(self, lease: Mapping[str, Any]) -> None:
        """Take note that the watch does not show a Lease any more: it was deleted, or has lost its label.

        `relist` finds out which.
        """
        if self._is_member(lease):
            uid = str(lease["metadata"].get("uid", ""))
            with self._lock:
                if uid not in self._deleted:
                    self._unknown.add(uid)

    def _is_member(self, lease: Mapping[str, Any]) -> bool:
        """Return whether it is not the Lease of the map, nor of another fleet, whose name may begin in the same way."""
        before, prefix, suffix = str(lease["metadata"]["name"]).partition(member_name(self._name, ""))
        return bool(prefix and not before and "-" not in suffix)

    @property
    def incomplete(self) -> bool:
        """Whether a Lease is not shown by the watch: `relist` finds out whether it is gone."""
        with self._lock:
            return bool(self._unknown)

    def relist(self) -> None:
        """Read all Leases from the API server's store. CtrlhostError if that fails.

        Those that were seen, or that `over` was asked about, before that, and that are not there, are gone. The list
        goes by names: a Lease may have lost its label, and still be held.
        """
        with self._lock:
            before = self._unknown | self._seen.keys()
        leases = list(self._client.list(API_VERSION, "Lease", self._namespace, timeout=self._config.request_timeout))
        for lease in leases:
            self.seen(lease)
        gone = before - {str(lease["metadata"].get("uid", "")) for lease in leases}
        with self._lock:
            self._unknown -= before - gone
            for uid in gone:
                self._forget(uid)

    def _gone(self, seen: Seen) -> None:
        """Take note that a Lease does not exist any more, by a write or a consistent read."""
        with self._lock:
            self._forget(seen.incarnation.uid)

    def _forget(self, uid: str) -> None:
        """Keep since when a Lease is known to be gone; the caller has the lock."""
        self._deleted.setdefault(uid, (self._seen.pop(uid, None), self._clock.now()))
        self._unknown.discard(uid)

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
            return self._clock.now() >= since + self._duration(last)

    def lives(self, incarnation: Incarnation) -> bool:
        """Return whether an incarnation holds its Lease, as last seen."""
        with self._lock:
            seen = self._seen.get(incarnation.uid)
        return seen is not None and bool(seen.record.holder_identity) and seen.incarnation == incarnation

    def contradicts(self, named: Collection[Incarnation]) -> str:
        """Return which of these incarnations was never there, by its Lease as last seen; empty for none.

        Of use right after `relist`: the Lease of an incarnation that a map names was written before the map.
        """
        with self._lock:
            for incarnation in named:
                seen = self._seen.get(incarnation.uid)
                if seen is not None and seen.record.lease_transitions < incarnation.transitions:
                    return f"lease {seen.name} has fewer transitions than the map has of it, as after an edit by hand"
        return ""

    def leaves(self, incarnation: Incarnation) -> bool:
        """Return whether the Lease of an incarnation, as last seen, says that its member leaves."""
        with self._lock:
            seen = self._seen.get(incarnation.uid) or self._deleted.get(incarnation.uid, (None, 0.0))[0]
        return seen is not None and seen.member.leaving

    def _duration(self, last: Seen | None) -> float:
        """Return how long the holder of a Lease that is gone may act; its last state seen may be of an earlier one."""
        own = self._config.lease_duration
        return own if last is None else max(own, last.record.lease_duration)

    def members(self) -> list[Member]:
        """Return the members whose Leases have a holder, by name."""
        return sorted(seen.member for seen in self.held())

    def held(self) -> list[Seen]:
        """Return the Leases that have a holder, by name."""
        return sorted((seen for seen in self._all() if seen.record.holder_identity), key=lambda seen: seen.name)

    def accepted(self, map_id: str) -> bool:
        """Return whether nobody acts by a map with another id; of use right after `relist`.

        Each Lease with a holder shows this id, and those that are gone without showing it are so for their duration.
        """
        if not all(seen.map_id == map_id for seen in self.held()):
            return False
        with self._lock:
            gone = [(last, since) for last, since in self._deleted.values() if last is None or last.map_id != map_id]
        now = self._clock.now()
        return all(now >= since + self._duration(last) for last, since in gone)

    def silent(self) -> list[Seen]:
        """Return the Leases of others with a holder that have not changed for their duration."""
        now = self._clock.now()
        others = [seen for seen in self.held() if seen.name != self._own]
        return [seen for seen in others if now >= seen.since + self._silence(seen)]

    def _silence(self, seen: Seen) -> float:
        """Return for how long a holder may act without a change; that of this replica if its Lease does not say."""
        return seen.record.lease_duration or self._config.lease_duration

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
        if lasted < self._silence(seen):
            return False
        emptied = {**seen.lease, "spec": seen.record.released(self._clock.time()).spec()}
        try:
            self.seen(self._client.replace(emptied, timeout=self._config.request_timeout))
        except CtrlhostError as error:
            log.info("lease %s is silent, but was not fenced: %s", seen.name, error)
            self._look_again(seen)
            return False
        log.warning("fenced lease %s: its holder did not renew it for %d s", seen.name, self._silence(seen))
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
            self._gone(seen)

    def _look_again(self, seen: Seen) -> None:
        """Read a Lease that a watch should have shown: it is not silent, or gone."""
        metadata = seen.lease["metadata"]
        try:
            lease = self._client.get(
                API_VERSION, "Lease", seen.name, metadata["namespace"], timeout=self._config.request_timeout
            )
        except NotFound:
            self._gone(seen)
        except CtrlhostError as error:
            log.debug("lease %s: %s", seen.name, error)
        else:
            if lease["metadata"]["uid"] != metadata["uid"]:
                self._gone(seen)
            self.seen(lease)


def member_name(fleet: str, suffix: str) -> str:
    """Return the name of the Lease of a member."""
    return f"{fleet}-member-{suffix}"


def newer(lease: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether this state of a Lease is later than another one; a watch may be behind a read."""
    version, known = (str(each["metadata"].get("resourceVersion", "")) for each in (lease, before))
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version != known
