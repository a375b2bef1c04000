"""The state of the controller in one host: connected hostnames, ignore list, pages, and past reports."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.brake import RemovalBrake
from ctrlhost_hostname.claims import read_claim
from ctrlhost_hostname.errors import InvalidClaimError, InvalidConnectionError
from ctrlhost_hostname.ignore_list import IgnoreList
from ctrlhost_hostname.lease import LabelError
from ctrlhost_hostname.metrics import HostnameMetrics
from ctrlhost_hostname.once import OncePerVersion
from ctrlhost_hostname.pages import IGNORE_LIST, MANAGED_HOSTNAMES, REMOVAL_BRAKE, PreparedPages, go_time, to_json
from ctrlhost_hostname.routes import removable_owner
from ctrlhost_hostname.stalled import StalledHosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import ctrlhost
    from ctrlhost_hostname.lease import LeaseID
    from ctrlhost_hostname.settings import HostnameSettings


@dataclass(frozen=True)
class ManagedHostname:
    """One connected hostname; `last_update` is in seconds since the epoch, None for a route found at start."""

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
        """Return the number of connected hostnames."""
        with self._lock:
            return len(self._entries)

    def get(self, hostname: str) -> ManagedHostname | None:
        """Return the entry of a hostname, or None."""
        with self._lock:
            return self._entries.get(hostname)

    def rebuild(self, entries: dict[str, ManagedHostname]) -> None:
        """Replace the whole content."""
        with self._lock:
            self._entries = dict(entries)
        self._changed()

    def set(self, hostname: str, entry: ManagedHostname) -> None:
        """Set the entry of a hostname."""
        with self._lock:
            self._entries[hostname] = entry
        self._changed()

    def drop(self, hostname: str) -> bool:
        """Remove a hostname, whichever lease holds it, and return whether it was present."""
        with self._lock:
            if self._entries.pop(hostname, None) is None:
                return False
        self._changed()
        return True

    def to_json(self) -> bytes:
        """Encode the map for `/managed-hostnames`."""
        with self._lock:
            entries: dict[str, Any] = {
                hostname: {
                    "LeaseID": entry.lease.as_json(),
                    "Namespace": entry.lease.namespace,
                    "ExternalPort": entry.external_port,
                    "ServiceName": entry.service_name,
                    "LastUpdate": go_time(entry.last_update),
                }
                for hostname, entry in self._entries.items()
            }
        return to_json(entries)


class OperatorState:
    """The plugin's state in one host, for use from any thread."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Start with an empty map, an empty ignore list and pages without data."""
        settings: HostnameSettings = plugin.settings
        self.settings = settings
        self.routes = settings.routes()
        self.clock = plugin.clock
        self.log = plugin.log
        self.pages = PreparedPages(plugin.clock)
        managed_page = self.pages.add(MANAGED_HOSTNAMES, lambda: self.hostnames.to_json())  # noqa: PLW0108 - set below
        ignore_page = self.pages.add(IGNORE_LIST, lambda: self.ignore_list.to_json())  # noqa: PLW0108 - set below
        brake_page = self.pages.add(REMOVAL_BRAKE, lambda: self.brake.to_json())  # noqa: PLW0108 - set below
        self.hostnames = ManagedHostnames(managed_page.flag)
        self.brake = RemovalBrake(plugin.clock, settings.removal_brake_percent, brake_page.flag)
        self.ignore_list = IgnoreList(
            plugin.clock,
            failure_limit=settings.event_failure_limit,
            entry_limit=settings.ignore_list_entry_limit,
            age_limit=settings.seconds("ignore_list_age_limit"),
            changed=ignore_page.flag,
        )
        self.metrics = HostnameMetrics(
            plugin.metrics,
            managed=lambda: len(self.hostnames),
            ignored=lambda: len(self.ignore_list),
            flagged=self.ignore_list.flagged_count,
            held=self.brake.held,
        )
        self.invalid = OncePerVersion()
        self.kept = OncePerVersion()
        self.stalled = StalledHosts(plugin.clock)
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._any_claim = False
        self._error_logged = False
        self._orphans: dict[str, float] = {}
        self._conflicts: dict[str, tuple[str, ...]] = {}

    def rebuild(self, routes: Iterable[ctrlhost.Object], hosts: Iterable[ctrlhost.Object]) -> None:
        """Rebuild the map from the live routes and note which hostnames are claimed; both caches must have synced.

        A route that the controller cannot have written is reported and left out.
        """
        for host in hosts:
            self.note_any_claim()
            try:
                self.note_claim(read_claim(host, self.settings.bech32_prefix).hostname)
            except InvalidClaimError:
                continue
        entries: dict[str, ManagedHostname] = {}
        removable = 0
        for route in routes:
            if self.settings.gc_orphans and removable_owner(route) and self.routes.is_plain(route, route.name):
                removable += 1
            try:
                found = self.routes.connection(route)
            except (LabelError, InvalidConnectionError) as error:
                self.report_invalid(route, "connection", error)
                continue
            entries[found.hostname] = ManagedHostname(found.lease, found.service_name, found.service_port)
            fields = {"lease": str(found.lease), "service": found.service_name, "port": found.service_port}
            self.log.info("found connected hostname", extra={"hostname": found.hostname, **fields})
        self.hostnames.rebuild(entries)
        self.brake.restart(removable)

    def report_invalid(self, live: ctrlhost.Object, reason: str, error: Exception) -> None:
        """Log and count an invalid object, once per version."""
        if self.invalid.first(live):
            self.metrics.invalid_objects.labels(live.kind, reason).inc()
            fields = {"kind": live.kind, "object": live.key, "reason": reason}
            self.log.warning("skipping invalid object: %s", error, extra=fields)

    def note_claim(self, hostname: str) -> None:
        """Note that a valid ProviderHost claims the hostname."""
        with self._lock:
            self._claimed.add(hostname)
            self._orphans.pop(hostname, None)

    def note_any_claim(self) -> None:
        """Note that a ProviderHost exists, so `k8s-manifest-ns` is not the wrong namespace."""
        with self._lock:
            self._any_claim = True

    def may_collect_unseen(self) -> bool:
        """Return whether this process has seen a ProviderHost; log an error the first time that it has not."""
        with self._lock:
            if self._any_claim or self._error_logged:
                return self._any_claim
            self._error_logged = True
        self.log.error(
            "managed routes exist, but no ProviderHost does; keeping all routes: check k8s-manifest-ns",
            extra={"manifest_namespace": self.settings.k8s_manifest_ns},
        )
        return False

    def was_claimed(self, hostname: str) -> bool:
        """Return whether this process has seen a valid claim for the hostname."""
        with self._lock:
            return hostname in self._claimed

    def forget(self, hostname: str) -> None:
        """Drop the notes about a hostname that has neither claim nor route."""
        with self._lock:
            self._claimed.discard(hostname)
            self._orphans.pop(hostname, None)

    def grace_left(self, hostname: str) -> float:
        """Return the seconds until a route without any seen claim may be removed; the first call starts the timer."""
        now = self.clock.now()
        with self._lock:
            first_seen = self._orphans.setdefault(hostname, now)
        return first_seen + self.settings.seconds("gc_grace") - now

    def note_conflict(self, hostname: str, losers: tuple[str, ...]) -> bool:
        """Note which ProviderHosts do not get the hostname, and return whether that changed."""
        with self._lock:
            before = self._conflicts.get(hostname, ())
            if losers:
                self._conflicts[hostname] = losers
            else:
                self._conflicts.pop(hostname, None)
            total = sum(map(len, self._conflicts.values()))
        self.metrics.conflicts.set(total)
        return losers != before
