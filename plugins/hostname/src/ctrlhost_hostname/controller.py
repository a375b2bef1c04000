"""The controller: which hostnames a change concerns, and the reconcile of one hostname."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost import predicates
from ctrlhost_hostname import claims, manifest
from ctrlhost_hostname.brake import CONFIRM, WINDOW
from ctrlhost_hostname.claims import Claim, choose_holder, claimed_hostname, read_claim, read_lease
from ctrlhost_hostname.errors import (
    InvalidClaimError,
    ManifestDecodeError,
    ResourceNotFoundError,
    for_retry,
    is_counted,
)
from ctrlhost_hostname.routes import MANAGED_SELECTOR, Directive, removable_owner
from ctrlhost_hostname.state import ManagedHostname

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_hostname.lease import LeaseID
    from ctrlhost_hostname.state import OperatorState

_BY_HOST = "host"
_BY_NAME = "name"
_BY_LEASE = "lease"


class HostnameController:
    """Makes the route of each hostname match its ProviderHost. Different hostnames are reconciled in parallel."""

    def __init__(self, plugin: ctrlhost.PluginContext, state: OperatorState) -> None:
        """Create the informers; nothing is read yet."""
        self.state = state
        self._settings = state.settings
        self._routes = state.routes
        self._namespaces = [self._settings.k8s_manifest_ns]
        self._hosts = plugin.informer(claims.API_VERSION, claims.KIND, namespaces=self._namespaces)
        self._live = plugin.informer(self._routes.api_version, self._routes.kind, label_selector=MANAGED_SELECTOR)

    def sources(self) -> tuple[ctrlhost.Watches | ctrlhost.Every, ...]:
        """Return the sources. The key is a hostname, in whichever namespace its route is."""
        return (
            ctrlhost.Watches(
                claims.API_VERSION,
                claims.KIND,
                namespaces=self._namespaces,
                map=lambda host: [ctrlhost.Request(claimed_hostname(host))],
                # Not a change of the status, which is the plugin's own.
                predicates=[predicates.or_(predicates.generation_changed, predicates.annotations_changed)],
                indexes={_BY_HOST: lambda host: [claimed_hostname(host)], _BY_LEASE: self._lease_namespace},
            ),
            ctrlhost.Watches(
                manifest.API_VERSION,
                manifest.KIND,
                namespaces=self._namespaces,
                map=self._requests_of_manifest,
                reads=manifest.READS,
            ),
            ctrlhost.Watches(
                self._routes.api_version,
                self._routes.kind,
                label_selector=MANAGED_SELECTOR,
                map=self._requests_of_route,
                indexes={_BY_NAME: "metadata.name"},
            ),
            ctrlhost.Every(self._settings.resync_interval, self._requests_of_resync),
        )

    def begin_term(self) -> None:
        """Rebuild the map as the new leader; what it has from an earlier term may be outdated."""
        self.state.pages.clear()
        routes = sorted(self._live.lister.list(), key=lambda route: (route.namespace, route.name))
        self.state.rebuild(routes, self._hosts.lister.list())

    def end_term(self) -> None:
        """Drop the map and the pages, which would become outdated."""
        self.state.hostnames.rebuild({})
        self.state.pages.clear()

    def reconcile(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Reconcile `request.name`, a hostname."""
        outcome = "error"
        try:
            outcome, result = self._reconcile(ctx, request.name)
            return result
        finally:
            self.state.metrics.reconciles.labels(outcome).inc()

    def _requests_of_manifest(self, found: ctrlhost.Object, caches: ctrlhost.Caches) -> Iterator[ctrlhost.Request]:
        for host in caches[claims.API_VERSION, claims.KIND].by_index(_BY_LEASE, found.name):
            yield ctrlhost.Request(claimed_hostname(host))

    def _requests_of_route(self, route: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        for hostname in dict.fromkeys((route.name, *self._routes.hosts(route))):
            yield ctrlhost.Request(hostname)

    def _requests_of_resync(self) -> set[ctrlhost.Request]:
        requests = {ctrlhost.Request(claimed_hostname(host)) for host in self._hosts.lister.list()}
        for route in self._live.lister.list():
            requests.update(self._requests_of_route(route))
        return requests

    def _lease_namespace(self, host: ctrlhost.Object) -> list[str]:
        """Index a ProviderHost by the name of its lease's Manifest; without a valid lease it is not indexed."""
        try:
            return [read_lease(host, self._settings.bech32_prefix).namespace]
        except InvalidClaimError:
            return []

    def _reconcile(self, ctx: ctrlhost.Context, hostname: str) -> tuple[str, ctrlhost.Result | None]:
        """Reconcile a hostname; return the outcome for the metric, and the result."""
        hosts = ctx.lister(claims.API_VERSION, claims.KIND).by_index(_BY_HOST, hostname)
        live = ctx.lister(self._routes.api_version, self._routes.kind).by_index(_BY_NAME, hostname)
        self._observe_hosts(ctx, hostname)
        if hosts:
            self.state.brake.drop(hostname)
        valid = self._valid_claims(ctx, hostname, hosts)
        if not valid:
            self.state.note_conflict(hostname, ())
            return ("invalid", None) if hosts else ("collected", self._collect(ctx, hostname, live))
        for claim in valid:
            self._forgive(ctx, claim.lease)
        incumbents = {lease for route in live if (lease := removable_owner(route))}
        holder = choose_holder(valid, flagged=self.state.ignore_list.is_flagged, incumbents=incumbents)
        self._report_conflict(ctx, holder, valid, hosts)
        host = next(host for host in hosts if host.name == holder.name)
        if self.state.ignore_list.is_flagged(holder.lease):
            ctx.log.info("skipping ignored lease", extra={"hostname": hostname, "lease": str(holder.lease)})
            self.state.stalled.set(ctx, host, "LeaseIgnored", self.state.ignore_list.reason(holder.lease))
            return "ignored", None
        return self._connect(ctx, holder, host, live), None

    def _valid_claims(self, ctx: ctrlhost.Context, hostname: str, hosts: list[ctrlhost.Object]) -> list[Claim]:
        """Read the ProviderHosts of a hostname; report and skip the invalid ones."""
        valid = []
        for host in hosts:
            try:
                valid.append(read_claim(host, self._settings.bech32_prefix))
            except InvalidClaimError as error:
                # The condition is a new version, which must not be reported again.
                reported = self.state.stalled.set(ctx, host, "InvalidProviderHost", str(error))
                self.state.report_invalid(reported, error.reason, error)
        if hosts:
            self.state.note_any_claim()
        if valid:
            self.state.note_claim(hostname)
        return valid

    def _collect(self, ctx: ctrlhost.Context, hostname: str, live: list[ctrlhost.Object]) -> ctrlhost.Result | None:
        """Remove the routes of a hostname that no ProviderHost claims.

        If this process saw the claim disappear, they are removed at once. Otherwise they may be left over from a
        downtime, or claimed elsewhere: each must look exactly like this controller's own and stay unclaimed for the
        grace period. As long as no ProviderHost was seen at all, none is removed, since `k8s-manifest-ns` may be wrong.
        """
        was_claimed = self.state.was_claimed(hostname)
        if live and not was_claimed:
            if not self._settings.gc_orphans:
                ctx.log.debug("keeping unclaimed route: gc-orphans is off", extra={"hostname": hostname})
                return None
            grace = self._settings.seconds("gc_grace")
            wait = self.state.grace_left(hostname) if self.state.may_collect_unseen() else grace
            if wait > 0:
                return ctrlhost.Result(requeue_after=wait)
        if any(CONFIRM not in route.annotations for route in live) and self.state.brake.holds(hostname):
            return ctrlhost.Result(requeue_after=WINDOW)
        removed = [self._remove(ctx, hostname, route, exact=not was_claimed) for route in live]
        self.state.brake.drop(hostname)
        if all(removed):
            self.state.hostnames.drop(hostname)
        if not live:
            self.state.forget(hostname)
        return None

    def _observe_hosts(self, ctx: ctrlhost.Context, hostname: str) -> None:
        """Show the brake the number of ProviderHosts, and report if it engages."""
        vanished = self.state.brake.observe(self._hosts.indexer.__len__)
        if vanished is None:
            return
        message = f"{vanished}: no routes are removed until they return or the routes have the annotation {CONFIRM}"
        ctx.log.error("%s", message, extra={"hostname": hostname})
        metadata = {"name": hostname, "namespace": self._settings.k8s_manifest_ns}
        host = {"apiVersion": claims.API_VERSION, "kind": claims.KIND, "metadata": metadata}
        ctx.events.warning(host, "MassRemoval", message, action="Remove")

    def _forgive(self, ctx: ctrlhost.Context, lease: LeaseID) -> None:
        """Remove a lease from the ignore list if its Manifest appeared or changed since the last failure."""
        if not self._settings.forgives or lease not in self.state.ignore_list:
            return
        found = self._cached_manifest(ctx, lease)
        if found is not None and self.state.ignore_list.forgive(lease, _version(found)):
            ctx.log.info("lease no longer ignored: its manifest changed", extra={"lease": str(lease)})

    def _report_conflict(
        self, ctx: ctrlhost.Context, holder: Claim, valid: list[Claim], hosts: list[ctrlhost.Object]
    ) -> None:
        """Report the holder of the hostname to every other claimant."""
        losers = tuple(sorted(claim.name for claim in valid if claim is not holder))
        changed = self.state.note_conflict(holder.hostname, losers)
        message = f"hostname {holder.hostname} is held by ProviderHost {holder.name} of lease {holder.lease}"
        for host in hosts:
            if host.name in losers:
                if changed:
                    ctx.log.warning("%s", message, extra={"loser": host.name})
                self.state.stalled.set(ctx, host, "HostnameConflict", message)

    def _connect(self, ctx: ctrlhost.Context, holder: Claim, host: ctrlhost.Object, live: list[ctrlhost.Object]) -> str:
        """Write the holder's route and return the outcome; record a counted failure and raise its retry."""
        version: str | None = None
        before = self.state.hostnames.get(holder.hostname)
        try:
            found = self._manifest(ctx, holder.lease)
            version = _version(found)
            services = manifest.decode_services(found.get("spec"))
            expose = manifest.find_expose(services, holder.lease, holder.service_name, holder.external_port)
            options = expose.http_options.or_defaults()
            directive = Directive(holder.hostname, holder.lease, holder.service_name, holder.external_port, options)
            written = self._write_route(ctx, directive, live)
        except ctrlhost.Stale:
            raise
        except Exception as error:
            if is_counted(error):
                flagged = self.state.ignore_list.record(holder.lease, holder.hostname, error, version)
                fields = {"hostname": holder.hostname, "lease": str(holder.lease)}
                ctx.log.warning("lease failed: %s", error, extra=fields)
                if flagged:
                    self.state.stalled.set(ctx, host, "LeaseIgnored", self.state.ignore_list.reason(holder.lease))
                    return "ignored"
            if isinstance(error, ManifestDecodeError) and (cached := self._cached_manifest(ctx, holder.lease)):
                self.state.report_invalid(cached, "decode", error)
            retry = for_retry(error, self._settings.seconds("retry_delay"))
            if isinstance(retry, ctrlhost.TerminalError):
                reason = "InvalidManifest" if isinstance(error, ManifestDecodeError) else "RouteRejected"
                self.state.stalled.set(ctx, host, reason, str(error))
            if retry is error:
                raise
            raise retry from error
        self._record_connected(directive, before, written=written)
        self.state.stalled.clear(ctx, host)
        return "connected"

    def _cached_manifest(self, ctx: ctrlhost.Context, lease: LeaseID) -> ctrlhost.Object | None:
        lister = ctx.lister(manifest.API_VERSION, manifest.KIND)
        return lister.get(lease.namespace, self._settings.k8s_manifest_ns)

    def _manifest(self, ctx: ctrlhost.Context, lease: LeaseID) -> ctrlhost.Object:
        """Return the lease's Manifest; it is missing only if the server says so."""
        cached = self._cached_manifest(ctx, lease)
        if cached is not None:
            return cached
        namespace = self._settings.k8s_manifest_ns
        found = ctx.client.find(manifest.API_VERSION, manifest.KIND, lease.namespace, namespace)
        if found is None:
            ctx.log.warning("manifest not found", extra={"lease": str(lease), "lease_namespace": lease.namespace})
            raise ResourceNotFoundError(f"manifest for {lease}")
        return ctrlhost.Object(found)

    def _write_route(self, ctx: ctrlhost.Context, directive: Directive, live: list[ctrlhost.Object]) -> bool:
        """Remove the routes of other leases, then create or replace the route; return whether it was written."""
        target: ctrlhost.Object | None = None
        for route in live:
            if route.namespace == directive.lease.namespace:
                target = route
            # The webhook of ingress-nginx rejects a second route for the host.
            elif self._remove(ctx, directive.hostname, route):
                self.state.hostnames.drop(directive.hostname)
        desired = self._routes.build(directive)
        if target is not None and not self._outdated(target, desired):
            return False
        try:
            self._write(ctx, desired, target)
        except (ctrlhost.AlreadyExists, ctrlhost.Conflict) as error:
            # The cache is stale, or the managed label was removed: compare again with the server's object.
            with self.state.metrics.kube_calls.count(self._routes.get_action):
                found = ctx.client.find(
                    self._routes.api_version, self._routes.kind, directive.hostname, directive.lease.namespace
                )
            target = None if found is None else ctrlhost.Object(found)
            if target is not None and not self._outdated(target, desired):
                return False
            ctx.log.debug("retrying write with the server's object: %s", error, extra={"hostname": directive.hostname})
            self._write(ctx, desired, target)
        return True

    def _outdated(self, target: ctrlhost.Object, desired: dict[str, Any]) -> bool:
        """Return whether a route must be written; a confirmation of its removal is not for a later removal."""
        return CONFIRM in target.annotations or self._routes.differs(target, desired)

    def _remove(self, ctx: ctrlhost.Context, hostname: str, route: ctrlhost.Object, *, exact: bool = False) -> bool:
        """Remove a route and return True, unless this controller did not write it.

        It is ours if it is in the namespace of its lease, and with `exact` only if it also looks exactly like ours.
        """
        owner = removable_owner(route)
        if owner is None or (exact and not self._routes.is_plain(route, hostname)):
            if self.state.kept.first(route):
                self.state.metrics.orphans.inc()
                ctx.log.warning("keeping a route that this controller did not write", extra={"route": route.key})
            return False
        with self.state.metrics.kube_calls.count(self._routes.remove_action):
            self._routes.remove(ctx.client, owner, route)
        ctx.log.info("removed route", extra={"hostname": hostname, "lease": str(owner)})
        return True

    def _write(self, ctx: ctrlhost.Context, desired: dict[str, Any], target: ctrlhost.Object | None) -> None:
        """Create the route, or replace the whole of `target` with it."""
        if target is not None:
            metadata = {**desired["metadata"], "resourceVersion": target.resource_version}
            try:
                with self.state.metrics.kube_calls.count(self._routes.update_action):
                    ctx.client.replace({**desired, "metadata": metadata})
                return
            except ctrlhost.NotFound:
                pass
        with self.state.metrics.kube_calls.count(self._routes.create_action):
            ctx.client.create(desired)

    def _record_connected(self, directive: Directive, before: ManagedHostname | None, *, written: bool) -> None:
        """Record the connected hostname in the map; `before` is its entry from before the reconcile."""
        state = self.state
        now = ManagedHostname(directive.lease, directive.service_name, directive.service_port, state.clock.time())
        unchanged = before is not None and before.last_update and replace(before, last_update=now.last_update) == now
        if unchanged and not written:
            return
        state.hostnames.set(directive.hostname, now)
        state.log.info(
            "connected" if written else "found connected",
            extra={
                "hostname": directive.hostname,
                "lease": str(directive.lease),
                "service": directive.service_name,
                "external_port": directive.service_port,
                "change": "new" if before is None else "changed" if before.lease == now.lease else "swap",
            },
        )


def _version(found: ctrlhost.Object) -> str:
    return manifest.fingerprint(found.uid, found.get("spec"))
