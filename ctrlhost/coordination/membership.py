"""This replica's membership in a fleet of shards: a Lease of its own, which it holds while it is a member."""

from __future__ import annotations

import os
import secrets
import socket
import uuid
from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.elector import LeaderElector
from ctrlhost.coordination.fleet import CONTROLLERS, FLEET, LEAVING, MAP_ID, SHARDS, member_name
from ctrlhost.coordination.lease import LeaderElectionRecord, LeaseLock
from ctrlhost.coordination.shard_map import Incarnation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import LeaderElectionConfig
    from ctrlhost.coordination.term import Term


class Membership:
    """The member of one start of this replica. Nobody else is a candidate for its Lease. Callable from any thread."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        fleet: str,
        clock: Clock,
        config: LeaderElectionConfig,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare without a request. `changed` is called on the elector's thread: a term begins, goes on or ends."""
        self.name = member_name(fleet, secrets.token_hex(4))
        identity = f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"
        self._lock = LeaseLock(client, namespace, self.name, identity, {FLEET: fleet, SHARDS: None})
        self._clock = clock
        self._changed = changed
        self._began: float | None = None
        self.elector = LeaderElector(
            self._lock, clock, config, on_started_leading=self._begin, on_stopped_leading=self._end, on_renewed=changed
        )
        self.tenure = self.elector.tenure

    @property
    def incarnation(self) -> Incarnation | None:
        """The incarnation of the current term, or of the last one; None before the first.

        A term that lapsed and went on has the same: nobody can have been let in.
        """
        held = self._lock.held
        return None if held is None else Incarnation(self.name, *held)

    def standing(self) -> tuple[Incarnation, Term] | None:
        """Return the incarnation and its current term, of one moment; None while this replica is no member.

        The elector's thread may begin another incarnation meanwhile, whose term must not extend what this one had.
        """
        before = self.tenure.current
        me = self.incarnation
        after = self.tenure.current
        if me is None or before.number != after.number or self.tenure.lost() or self.tenure.term != after.number:
            return None
        return me, after

    @property
    def lasted(self) -> float:
        """How long the current term has lasted without a break, in seconds; 0 without one."""
        began = self._began
        return self._clock.now() - began if began is not None and self.tenure.term is not None else 0.0

    @property
    def leaving(self) -> bool:
        """Whether this member says that it leaves."""
        return self._lock.labels.get(SHARDS) == LEAVING

    def seen(self, lease: Mapping[str, Any]) -> None:
        """Take note of a Lease that a watch shows: if somebody else has taken this member's, renew it at once."""
        if lease["metadata"]["name"] != self.name:
            return
        record, held = LeaderElectionRecord.of(lease), self._lock.held
        current = str(lease["metadata"].get("uid", "")), record.lease_transitions
        if record.holder_identity != self._lock.identity or (held is not None and current != held):
            self.elector.wake()

    def removed(self, lease: Mapping[str, Any]) -> None:
        """Take note that a Lease was deleted, or has lost its label: if it is this member's, renew it at once."""
        if lease["metadata"]["name"] == self.name:
            self.elector.wake()

    def leave(self, leaves: bool = True) -> None:
        """Announce that this member leaves, or with False that it stays, by a renewal that is sent at once."""
        self._lock.labels = {**self._lock.labels, SHARDS: LEAVING if leaves else None}
        self.elector.wake()

    def accept(self, map_id: str) -> None:
        """Announce that no run of an earlier map is left here, by a renewal that is sent at once."""
        self._annotate(MAP_ID, map_id)

    def declare(self, controllers: Collection[str]) -> None:
        """Announce the sharded controllers that this replica has, by a renewal that is sent at once."""
        self._annotate(CONTROLLERS, ",".join(sorted(controllers)))

    def _annotate(self, name: str, text: str) -> None:
        if self._lock.annotations.get(name) != text:
            self._lock.annotations = {**self._lock.annotations, name: text}
            self.elector.wake()

    def _begin(self) -> None:
        self._began = self._clock.now()

    def _end(self) -> None:
        self._began = None
        self._changed()
