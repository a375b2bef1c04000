"""The state of the plugin in one host: connected hostnames, ignore list, brake, pages, and what it has seen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_hostname.brake import RemovalBrake
from ctrlhost_hostname.claims import PROVIDER_HOST
from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.ignore_list import IgnoreList
from ctrlhost_hostname.lease import LabelError
from ctrlhost_hostname.metrics import HostnameMetrics
from ctrlhost_hostname.pages import IGNORE_LIST, MANAGED_HOSTNAMES, REMOVAL_BRAKE, PreparedPages, go_time, to_json
from ctrlhost_hostname.routes import MANAGED_SELECTOR, Connection, removable_owner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_hostname.claims import Claim
    from ctrlhost_hostname.settings import HostnameSettings


_LOCKS = 64


class OperatorState:
    """The plugin's state in one host, for use from any thread: each set and dict changes in one step."""

    def __init__(self, host: ctrlhost.PluginContext[HostnameSettings]) -> None:
        """Start with an empty map, an empty ignore list and pages without data."""
        self.settings = settings = host.settings
        self.routes = settings.routes()
        self.clock, self.log = host.clock, host.log
        self.hosts = host.informer(*PROVIDER_HOST, namespaces=[settings.k8s_manifest_ns])
        self._live = host.informer(*self.routes.kind, label_selector=MANAGED_SELECTOR)
        self.hostnames: dict[str, Connection] = {}
        #: The ProviderHosts that do not get their hostname, and the hostnames that had a valid one in this process.
        self.conflicts: set[str] = set()
        self.claimed: set[str] = set()
        #: Whether a ProviderHost was seen, so that `k8s-manifest-ns` is not the wrong namespace.
        self.any_claim = False
        self._error_logged = False
        #: Hostnames that hash alike share a lock.
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))
        #: When a route was first seen without a claim, and the uids of those that the plugin did not write.
        self._orphans: dict[str, float] = {}
        self._kept: set[str] = set()
        self.pages = PreparedPages(host.clock)
        self._managed_page = self.pages.add(MANAGED_HOSTNAMES, lambda: hostnames_json(self.hostnames))
        ignore_page = self.pages.add(IGNORE_LIST, lambda: self.ignore_list.to_json())  # noqa: PLW0108 - set below
        brake_page = self.pages.add(REMOVAL_BRAKE, lambda: self.brake.to_json())  # noqa: PLW0108 - set below
        self.brake = RemovalBrake(host.clock, settings.removal_brake_percent, brake_page.flag)
        self.ignore_list = IgnoreList(
            host.clock,
            failure_limit=settings.event_failure_limit,
            entry_limit=settings.ignore_list_entry_limit,
            age_limit=settings.seconds("ignore_list_age_limit"),
            changed=ignore_page.flag,
        )
        self.metrics = HostnameMetrics(
            host.metrics,
            managed=lambda: len(self.hostnames),
            ignored_leases=lambda: len(self.ignore_list),
            flagged_leases=self.ignore_list.flagged_count,
            held_removals=self.brake.held,
            conflicts=lambda: len(self.conflicts),
        )

    def exclusive(self, hostname: str) -> threading.Lock:
        """Return the lock for the routes of a hostname: two ProviderHosts that claim it are two keys."""
        return self._locks[hash(hostname) % _LOCKS]

    def begin_term(self) -> None:
        """Rebuild the map from the live routes, and note which hostnames are claimed; both caches are full.

        A route that the plugin cannot have written is reported and left out.
        """
        self.pages.clear()
        hosts = self.hosts.lister.list()
        self.any_claim = self.any_claim or bool(hosts)
        entries: dict[str, Connection] = {}
        removable = 0
        for route in sorted(self._live.lister.list(), key=lambda route: (route.namespace, route.name)):
            if self.settings.gc_orphans and removable_owner(route) and self.routes.is_plain(route, route.name):
                removable += 1
            try:
                hostname, connection = self.routes.connection(route)
            except (LabelError, InvalidConnectionError) as error:
                self.report_invalid(route, "connection", error)
                continue
            entries[hostname] = connection
            fields = {
                "lease": str(connection.lease),
                "service": connection.service_name,
                "port": connection.external_port,
            }
            self.log.info("found connected hostname", extra={"hostname": hostname, **fields})
        self.hostnames = entries
        self._managed_page.flag()
        self.brake.restart(removable)

    def end_term(self) -> None:
        """Drop the map and the pages: another replica changes the routes now."""
        self.hostnames = {}
        self.pages.clear()

    def report_invalid(self, live: ctrlhost.Object, reason: str, error: Exception) -> None:
        """Log and count an invalid object."""
        self.metrics.invalid_objects.labels(live.kind, reason).inc()
        fields = {"kind": live.kind, "object": live.key, "reason": reason}
        self.log.warning("skipping invalid object: %s", error, extra=fields)

    def connected(self, claim: Claim, before: Connection | None, *, written: bool) -> None:
        """Note the connected hostname of a claim; `before` is its entry from before the reconcile."""
        kept = None if written or before is None else before.last_update
        last_update = self.clock.time() if kept is None else kept
        connection = Connection(claim.lease, claim.service_name, claim.external_port, last_update)
        if connection == before:
            return
        self.hostnames[claim.hostname] = connection
        self._managed_page.flag()
        change = "new" if before is None else "changed" if before.lease == claim.lease else "swap"
        fields = {"lease": str(claim.lease), "service": claim.service_name, "external_port": claim.external_port}
        text = "connected" if written else "found connected"
        self.log.info(text, extra={"hostname": claim.hostname, "change": change, **fields})

    def disconnected(self, hostname: str) -> None:
        """Note that a hostname has no route any longer, whichever lease held it."""
        if self.hostnames.pop(hostname, None) is not None:
            self._managed_page.flag()

    def claim_seen(self, hostname: str) -> None:
        """Note a valid claim for a hostname."""
        self.claimed.add(hostname)
        self._orphans.pop(hostname, None)

    def forget(self, hostname: str) -> None:
        """Drop what is known of a hostname that has neither claim nor route."""
        self.disconnected(hostname)
        self.brake.drop(hostname)
        self.claimed.discard(hostname)
        self._orphans.pop(hostname, None)

    def grace_left(self, hostname: str) -> float:
        """Return the seconds until a route without any seen claim may be removed; the first call starts the timer.

        As long as no ProviderHost was seen at all, none is removed, since `k8s-manifest-ns` may be wrong.
        """
        grace, now = self.settings.seconds("gc_grace"), self.clock.now()
        if self.any_claim:
            return self._orphans.setdefault(hostname, now) + grace - now
        if not self._error_logged:
            self._error_logged = True
            self.log.error(
                "managed routes exist, but no ProviderHost does; keeping all routes: check k8s-manifest-ns",
                extra={"manifest_namespace": self.settings.k8s_manifest_ns},
            )
        return grace

    def remove(self, client: ctrlhost.Client, route: ctrlhost.Object, *, exact: bool = False) -> str:
        """Remove a route, unless the plugin did not write it; return the outcome.

        It is ours if it is in the namespace of its lease, and with `exact` only if it also looks exactly like ours.
        """
        owner = removable_owner(route)
        if owner is None or (exact and not self.routes.is_plain(route, route.name)):
            if route.uid not in self._kept:
                self._kept.add(route.uid)
                self.metrics.orphans.inc()
                self.log.warning("keeping a route that this controller did not write", extra={"route": route.key})
            return "collected"
        action = f"{self.routes.action}-delete"
        try:
            self.routes.remove(client, route)
        except ctrlhost.CtrlhostError:
            self.metrics.called(action, "fail")
            raise
        self.metrics.called(action)
        self.log.info("removed route", extra={"hostname": route.name, "lease": str(owner)})
        self.disconnected(route.name)
        return "collected"


def hostnames_json(entries: Mapping[str, Connection]) -> bytes:
    """Encode the map for `/managed-hostnames`."""
    document: dict[str, Any] = {
        hostname: {
            "LeaseID": entry.lease.as_json(),
            "Namespace": entry.lease.namespace,
            "ExternalPort": entry.external_port,
            "ServiceName": entry.service_name,
            "LastUpdate": go_time(entry.last_update),
        }
        for hostname, entry in dict(entries).items()
    }
    return to_json(document)
