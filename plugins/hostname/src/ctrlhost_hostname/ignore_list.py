"""The ignore list: leases whose hostnames failed too often because a resource does not exist."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost_hostname.errors import go_type_name
from ctrlhost_hostname.pages import go_time, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    import ctrlhost
    from ctrlhost_hostname.lease import LeaseID


@dataclass
class _Entry:
    """The counted failures of one lease."""

    failure_count: int = 0
    failed_at: float = 0.0
    last_error: str = ""
    last_error_type: str = ""
    hostnames: set[str] = field(default_factory=set)
    # The version of the Manifest at the last failure; None if there was no Manifest.
    manifest: str | None = None


class IgnoreList:
    """Counts failures per lease. Only pruning, forgiveness and a restart reset a count; success does not.

    All methods may be called from any thread. `changed` is called after every change.
    """

    def __init__(
        self,
        clock: ctrlhost.Clock,
        *,
        failure_limit: int,
        entry_limit: int,
        age_limit: float,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Set the limits; `age_limit` is in seconds."""
        self._clock = clock
        self._failure_limit = max(failure_limit, 1)
        self._entry_limit = entry_limit
        self._age_limit = age_limit
        self._changed = changed
        self._lock = threading.Lock()
        self._entries: dict[LeaseID, _Entry] = {}

    def __len__(self) -> int:
        """Return the number of leases with a counted failure."""
        return len(self._entries)

    def record(self, lease: LeaseID, hostname: str, error: Exception, manifest: str | None = None) -> bool:
        """Count a failure and return whether the lease is flagged now; `manifest` is the version that was read.

        The count of a flagged lease does not grow: only a hostname that was in flight can still fail.
        """
        with self._lock:
            entry = self._entries.setdefault(lease, _Entry())
            if entry.failure_count < self._failure_limit:
                entry.failure_count += 1
                entry.failed_at = self._clock.time()
                entry.last_error, entry.last_error_type = str(error), go_type_name(error)
                entry.hostnames.add(hostname)
                entry.manifest = manifest
                self._changed()
            return entry.failure_count >= self._failure_limit

    def is_flagged(self, lease: LeaseID) -> bool:
        """Return whether the lease failed often enough to be ignored."""
        entry = self._entries.get(lease)
        return entry is not None and entry.failure_count >= self._failure_limit

    def reason(self, lease: LeaseID) -> str:
        """Return why a flagged lease is ignored."""
        entry = self._entries.get(lease, _Entry())
        return f"lease ignored after {entry.failure_count} failures: {entry.last_error}"

    def forgive(self, lease: LeaseID, manifest: str | None) -> bool:
        """Drop the lease's entry if its Manifest exists and changed since the last failure."""
        with self._lock:
            entry = self._entries.get(lease)
            if entry is None or manifest is None or entry.manifest == manifest:
                return False
            del self._entries[lease]
        self._changed()
        return True

    def prune(self) -> bool:
        """Drop expired entries, then the oldest, from a list over its limit; return whether any was dropped."""
        with self._lock:
            entries = self._entries
            if len(entries) <= self._entry_limit:
                return False
            oldest_kept = self._clock.time() - self._age_limit
            by_age = sorted(entries, key=lambda lease: (entries[lease].failed_at, str(lease)))
            kept = [lease for lease in by_age if entries[lease].failed_at >= oldest_kept]
            kept = kept[max(len(kept) - self._entry_limit, 0) :]
            self._entries = {lease: entries[lease] for lease in kept}
            dropped = len(kept) < len(entries)
        if dropped:
            self._changed()
        return dropped

    def flagged_count(self) -> int:
        """Return the number of ignored leases."""
        with self._lock:
            return sum(entry.failure_count >= self._failure_limit for entry in self._entries.values())

    def to_json(self) -> bytes:
        """Encode the list for `/ignore-list`."""
        with self._lock:
            return to_json(
                {
                    str(lease): {
                        "hostnames": sorted(entry.hostnames) or None,
                        "last-error": entry.last_error,
                        "last-error-type": entry.last_error_type,
                        "failed-at": go_time(entry.failed_at),
                        "failure-count": entry.failure_count,
                        "namespace": lease.namespace,
                    }
                    for lease, entry in self._entries.items()
                }
            )
