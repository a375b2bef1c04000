"""The state of the controller in one host: connected hostnames, ignore list, pages, and what was reported already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.claims import read_claim
from ctrlhost_hostname.errors import InvalidClaimError, InvalidConnectionError
from ctrlhost_hostname.ignore_list import IgnoreList
from ctrlhost_hostname.lease import LabelError
from ctrlhost_hostname.metrics import HostnameMetrics
from ctrlhost_hostname.pages import IGNORE_LIST, MANAGED_HOSTNAMES, PreparedPages, go_time, to_json
from ctrlhost_hostname.routes import as_mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    import ctrlhost
    from ctrlhost_hostname.lease import LeaseID
    from ctrlhost_hostname.settings import HostnameSettings


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


_REMEMBERED = 16384


class OncePerVersion:
    """Says of each version of an object once that something is to be reported about it."""

    def __init__(self) -> None:
        """Start with nothing reported."""
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str, str], str] = OrderedDict()

    def first(self, live: ctrlhost.Object) -> bool:
        """Say whether this version of the object was not asked about before."""
        key = (live.kind, live.namespace, live.name)
        with self._lock:
            if self._seen.get(key) == live.resource_version:
                return False
            self._seen[key] = live.resource_version
            self._seen.move_to_end(key)
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return True


class OperatorState:
    """The plugin's state in one host. Everything in it may be used from any thread."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Make the state of a fresh process: an empty map, an empty ignore list, pages without data."""
        settings: HostnameSettings = plugin.settings
        self.settings = settings
        self.routes = settings.routes()
        self.clock = plugin.clock
        self.log = plugin.log
        self.pages = PreparedPages(plugin.clock)
        managed_page = self.pages.add(MANAGED_HOSTNAMES, self._managed_json)
        ignore_page = self.pages.add(IGNORE_LIST, self._ignored_json)
        self.hostnames = ManagedHostnames(managed_page.flag)
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
        )
        self.invalid = OncePerVersion()
        self.left_alone = OncePerVersion()
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._any_claim = False
        self._warned = False
        self._orphans: dict[str, float] = {}
        self._conflicts: dict[str, tuple[str, ...]] = {}

    def _managed_json(self) -> bytes:
        return self.hostnames.to_json()

    def _ignored_json(self) -> bytes:
        return self.ignore_list.to_json()

    def begin(self, live: list[ctrlhost.Object], hosts: list[ctrlhost.Object]) -> None:
        """Begin with full caches: make the map from the routes, and remember which hostnames are claimed.

        A route that is none of ours is reported and left out of the map.
        """
        for host in hosts:
            self.note_any_claim()
            try:
                claim = read_claim(host.name, as_mapping(host.get("spec")), "", self.settings.bech32_prefix)
            except InvalidClaimError:
                continue
            self.note_claim(claim.hostname)
        entries: dict[str, ManagedHostname] = {}
        for route in live:
            try:
                found = self.routes.connection(route)
            except (LabelError, InvalidConnectionError) as error:
                self.report_invalid(route, "connection", error)
                continue
            entries[found.hostname] = ManagedHostname(found.lease, found.service_name, found.service_port)
            self.log.info(
                "found a connected hostname",
                extra={
                    "hostname": found.hostname,
                    "lease": str(found.lease),
                    "service": found.service_name,
                    "port": found.service_port,
                },
            )
        self.hostnames.rebuild(entries)

    def every(self, interval: str, work: Callable[[], object]) -> Callable[[threading.Event], None]:
        """Give a task that does `work` after each interval, named as the setting; upstream's timers wait first too."""
        seconds = self.settings.seconds(interval)

        def run(stop: threading.Event) -> None:
            while not self.clock.wait(stop, seconds):
                work()

        return run

    def report_invalid(self, live: ctrlhost.Object, reason: str, error: Exception) -> None:
        """Log and count an object that can not be used, once per version."""
        if self.invalid.first(live):
            self.metrics.invalid_objects.labels(live.kind, reason).inc()
            self.log.warning(
                "object can not be used: %s",
                error,
                extra={"kind": live.kind, "object": live.key, "reason": reason},
            )

    def note_claim(self, hostname: str) -> None:
        """Remember that a valid ProviderHost claims the hostname."""
        with self._lock:
            self._claimed.add(hostname)
            self._orphans.pop(hostname, None)

    def note_any_claim(self) -> None:
        """Remember that there are ProviderHosts at all, so that the namespace looked at can not be a wrong one."""
        with self._lock:
            self._any_claim = True

    def may_collect_unseen(self) -> bool:
        """Say whether this process has seen a ProviderHost; the first time that it has not is an error in the log."""
        with self._lock:
            if self._any_claim or self._warned:
                return self._any_claim
            self._warned = True
        self.log.error(
            "managed routes exist, but no ProviderHost does; nothing is removed, check k8s-manifest-ns",
            extra={"manifest_namespace": self.settings.k8s_manifest_ns},
        )
        return False

    def was_claimed(self, hostname: str) -> bool:
        """Say whether this process saw a valid claim for the hostname, which is gone if there is none now."""
        with self._lock:
            return hostname in self._claimed

    def forget(self, hostname: str) -> None:
        """Drop what is remembered of a hostname that has neither claim nor route."""
        with self._lock:
            self._claimed.discard(hostname)
            self._orphans.pop(hostname, None)

    def grace_left(self, hostname: str) -> float:
        """Give the seconds until a route that was never seen claimed may be removed; the first call starts the time."""
        now = self.clock.now()
        with self._lock:
            first_seen = self._orphans.setdefault(hostname, now)
        return first_seen + self.settings.seconds("gc_grace") - now

    def note_conflict(self, hostname: str, losers: tuple[str, ...]) -> bool:
        """Remember which ProviderHosts do not get the hostname, and say whether they are others than before."""
        with self._lock:
            before = self._conflicts.get(hostname, ())
            if losers:
                self._conflicts[hostname] = losers
            else:
                self._conflicts.pop(hostname, None)
            total = sum(map(len, self._conflicts.values()))
        self.metrics.conflicts.set(total)
        return losers != before
