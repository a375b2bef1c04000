"""The Lease that carries the shard map, which nobody holds: read, watched, and written by compare-and-swap."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.fleet import FLEET, SHARDS, newer
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.coordination.shard_map import MalformedMap, NewerMap, OversizedMap, parse
from ctrlhost.errors import AlreadyExists, Conflict, CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client import Client
    from ctrlhost.coordination.shard_map import ShardMap

log = logging.getLogger("ctrlhost.shards")


class MapStore:
    """The map of one fleet, as this replica last read or wrote it.

    `seen` and `removed` are for a watch, on any thread; one thread does all else.
    """

    def __init__(self, client: Client, namespace: str, fleet: str, timeout: float) -> None:
        """Know nothing. Requests end after `timeout` seconds."""
        self.name = f"{fleet}-shards"
        #: The newest map; None before the first.
        self.shards: ShardMap | None = None
        #: Whether a consistent read is needed: first, after a conflict or a lost answer, or when the watch says so.
        self.stale = True
        #: Whether that read showed no map, a malformed one, or one from before the newest.
        self.lost = False
        #: The number of writes that somebody else's came before.
        self.conflicts = 0
        self._client = client
        self._namespace = namespace
        self._fleet = fleet
        self._timeout = timeout
        self._lease: Mapping[str, Any] | None = None
        self._watched: Mapping[str, Any] | None = None
        #: Whether the last write was too long, which is logged once.
        self._oversized = False

    def seen(self, lease: Mapping[str, Any]) -> None:
        """Take note of a change that the watch shows; the next `refresh` accepts it or reads. Ignore other Leases."""
        if lease["metadata"]["name"] == self.name:
            self._watched = lease

    def removed(self, lease: Mapping[str, Any]) -> None:
        """Take note of the deletion of the map. Ignore other Leases."""
        if lease["metadata"]["name"] == self.name:
            self.stale = True

    def refresh(self) -> None:
        """Accept what the watch has shown if it is a later epoch of the same map, else read.

        CtrlhostError if the API server did not answer, NewerMap if a later version of ctrlhost wrote the map.
        """
        watched, self._watched = self._watched, None
        if watched is not None and not self.stale:
            try:
                shards = parse(_text(watched))
            except MalformedMap:
                self.stale = True
            except NewerMap:
                self.stale = True
                raise
            else:
                before = self.shards
                if before is None or shards.id != before.id:
                    self.stale = True
                elif shards.epoch > before.epoch:
                    self._lease, self.shards, self.lost = watched, shards, False
                elif shards.epoch < before.epoch and self._lease is not None and newer(watched, self._lease):
                    self.stale = True
        if self.stale:
            self._read()

    def _read(self) -> None:
        self._lease = self._client.find(API_VERSION, "Lease", self.name, self._namespace, timeout=self._timeout)
        self.lost = True
        try:
            if self._lease is not None:
                shards = parse(_text(self._lease))
                before = self.shards
                if before is None or shards.id != before.id or shards.epoch >= before.epoch:
                    self.shards, self.lost = shards, False
                else:
                    log.warning(
                        "lease %s/%s has epoch %d of the shard map after epoch %d: it was restored; it counts as lost",
                        self._namespace, self.name, shards.epoch, before.epoch,
                    )  # fmt: skip
        except NewerMap:
            raise
        except MalformedMap as error:
            log.warning("lease %s/%s: %s; it counts as lost", self._namespace, self.name, error)
        self.stale = False

    def write(self, shards: ShardMap) -> bool:
        """Write a later epoch, or a map in place of a lost one, over the version last read; return whether it is there.

        After a conflict, or without an answer, the map is stale. One that would be too long is not written. Never
        raises.
        """
        lease: dict[str, Any] = dict(
            self._lease or {"apiVersion": API_VERSION, "kind": "Lease", "metadata": {}, "spec": {}}
        )
        metadata = {**lease["metadata"], "name": self.name, "namespace": self._namespace}
        metadata["labels"] = {**(metadata.get("labels") or {}), FLEET: self._fleet}
        try:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), SHARDS: shards.text()}
            send = self._client.replace if self._lease else self._client.create
            self._lease = send({**lease, "metadata": metadata}, timeout=self._timeout)
        except OversizedMap as error:
            if not self._oversized:
                log.error("lease %s/%s: %s", self._namespace, self.name, error)
            self._oversized = True
            return False
        except CtrlhostError as error:
            if isinstance(error, Conflict | AlreadyExists):
                self.conflicts += 1
            log.debug("lease %s/%s was not written: %s", self._namespace, self.name, error)
            self.stale = True
            return False
        self.shards, self.lost, self._oversized = shards, False, False
        return True

    def discard(self, reason: str) -> None:
        """Treat the map as lost."""
        log.warning("lease %s/%s: %s; it counts as lost", self._namespace, self.name, reason)
        self.lost = True


def _text(lease: Mapping[str, Any]) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(SHARDS, ""))
