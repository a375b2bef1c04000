"""The map of managed hostnames: what is connected where, and since when."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.encoding import go_time, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_hostname.lease import LeaseID


@dataclass(frozen=True)
class ManagedHostname:
    """One connected hostname; `last_update` is in seconds since the epoch, None for a route that was found at start."""

    lease: LeaseID
    service_name: str
    external_port: int
    last_update: float | None = None


class ManagedHostnames:
    """The connected hostnames of this process.

    All methods may be called from any thread. `changed` is called, without the lock, after every change.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """Start empty."""
        self._changed = changed
        self._lock = threading.Lock()
        self._entries: dict[str, ManagedHostname] = {}

    def __len__(self) -> int:
        """Count the connected hostnames."""
        with self._lock:
            return len(self._entries)

    def get(self, hostname: str) -> ManagedHostname | None:
        """Give the entry of a hostname."""
        with self._lock:
            return self._entries.get(hostname)

    def rebuild(self, entries: dict[str, ManagedHostname]) -> None:
        """Make `entries` the whole content."""
        with self._lock:
            self._entries = dict(entries)
        self._changed()

    def set(self, hostname: str, entry: ManagedHostname) -> None:
        """Enter a connected hostname."""
        with self._lock:
            self._entries[hostname] = entry
        self._changed()

    def drop(self, hostname: str) -> bool:
        """Remove a hostname, whichever lease holds it, and say whether it was there."""
        with self._lock:
            if self._entries.pop(hostname, None) is None:
                return False
        self._changed()
        return True

    def to_json(self) -> bytes:
        """Encode the map as `/managed-hostnames` shows it."""
        with self._lock:
            shown: dict[str, Any] = {
                hostname: {
                    "LeaseID": entry.lease.as_json(),
                    "Namespace": entry.lease.namespace,
                    "ExternalPort": entry.external_port,
                    "ServiceName": entry.service_name,
                    "LastUpdate": go_time(entry.last_update),
                }
                for hostname, entry in self._entries.items()
            }
        return to_json(shown)
