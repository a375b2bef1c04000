"""The controller: which hostnames a change concerns, and the reconcile of one hostname."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import ctrlhost
from ctrlhost_hostname import claims, manifest
from ctrlhost_hostname.claims import Claim, choose_holder, claimed_hostname, read_claim, read_lease
from ctrlhost_hostname.errors import (
    InvalidClaimError,
    ManifestDecodeError,
    ResourceNotFoundError,
    Retry,
    is_counted,
    retry_class,
)
from ctrlhost_hostname.routes import MANAGED_SELECTOR, Directive, as_mapping, owner_of
from ctrlhost_hostname.state import ManagedHostname

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_hostname.lease import LeaseID
    from ctrlhost_hostname.state import OperatorState


class Reconciler:
    """Brings the route of a hostname in line with what is declared. Different hostnames run in parallel."""

    def __init__(self, state: OperatorState, wiring: Wiring) -> None:
        """Work on the state of one host."""
        self._state = state
        self._wiring = wiring
        self._routes = state.routes
        self._settings = state.settings

    def __call__(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Reconcile `request.name`, a hostname."""
        self._wiring.begin()
        outcome = "error"
        try:
            outcome, result = self._reconcile(ctx, request.name)
            return result
        finally:
            self._state.metrics.reconciles.labels(outcome).inc()

    def _reconcile(self, ctx: ctrlhost.Context, hostname: str) -> tuple[str, ctrlhost.Result | None]:
        """Reconcile and name the outcome for the metric."""
        providers = ctx.lister(claims.API_VERSION, claims.KIND).by_index(BY_HOST, hostname)
        live = ctx.lister(self._routes.api_version, self._routes.kind).by_index(BY_NAME, hostname)
        valid = self._valid_claims(hostname, providers)
        if not valid:
            self._state.note_conflict(hostname, ())
            if providers:
                return "invalid", None
            return "collected", collect(self._state, ctx, hostname, live)
        for claim in valid:
            self._forgive(ctx, claim.lease)
        incumbents = {lease for route in live if (lease := owner_of(route))}
        holder = choose_holder(valid, flagged=self._state.ignore_list.is_flagged, incumbents=incumbents)
        self._report_conflict(ctx, holder, valid, providers)
        if self._state.ignore_list.is_flagged(holder.lease):
            ctx.log.info("lease is ignored", extra={"hostname": hostname, "lease": str(holder.lease)})
            return "ignored", None
        return self._connect(ctx, holder, live)

    def _valid_claims(self, hostname: str, providers: list[ctrlhost.Object]) -> list[Claim]:
        """Read the ProviderHosts of a hostname; the invalid ones are reported and left out."""
        valid = []
        for provider in providers:
            try:
                created = provider.get_path("metadata", "creationTimestamp", default="")
                spec = as_mapping(provider.get("spec"))
                valid.append(read_claim(provider.name, spec, created, self._settings.bech32_prefix))
            except InvalidClaimError as error:
                self._state.report_invalid(provider, error.reason, error)
        if providers:
            self._state.note_any_claim()
        if valid:
            self._state.note_claim(hostname)
        return valid

    def _forgive(self, ctx: ctrlhost.Context, lease: LeaseID) -> None:
        """Take a lease off the ignore list if its Manifest came or changed since the last failure."""
        if not self._settings.forgives or lease not in self._state.ignore_list:
            return
        found = self._cached_manifest(ctx, lease)
        if found is not None and self._state.ignore_list.forgive(lease, _version(found)):
            ctx.log.info("lease is forgiven, its manifest changed", extra={"lease": str(lease)})

    def _report_conflict(
        self, ctx: ctrlhost.Context, holder: Claim, valid: list[Claim], providers: list[ctrlhost.Object]
    ) -> None:
        """Tell those who do not get the hostname, once, who has it."""
        losers = tuple(sorted(claim.name for claim in valid if claim is not holder))
        if not self._state.note_conflict(holder.hostname, losers):
            return
        for provider in providers:
            if provider.name in losers:
                message = f"hostname {holder.hostname} is held by ProviderHost {holder.name} of lease {holder.lease}"
                ctx.log.warning("%s", message, extra={"loser": provider.name})
                ctx.events.warning(provider, "HostnameConflict", message, action="Connect")

    def _connect(
        self, ctx: ctrlhost.Context, holder: Claim, live: list[ctrlhost.Object]
    ) -> tuple[str, ctrlhost.Result | None]:
        """Give the holder its route; a failure goes to the ignore list if it counts, and decides when to try again."""
        version: str | None = None
        before = self._state.hostnames.get(holder.hostname)
        try:
            found = self._manifest(ctx, holder.lease)
            version = _version(found)
            services = manifest.decode_services(as_mapping(found.get("spec")))
            expose = manifest.find_expose(services, holder.lease, holder.service_name, holder.external_port)
            options = expose.http_options.or_defaults()
            directive = Directive(holder.hostname, holder.lease, holder.service_name, holder.external_port, options)
            written = self._write_route(ctx, directive, live)
        except ctrlhost.Stale:
            raise
        except Exception as error:  # noqa: BLE001 - each is raised again, as what its kind asks for
            if is_counted(error):
                flagged = self._state.ignore_list.record(holder.lease, holder.hostname, error, version)
                fields = {"hostname": holder.hostname, "lease": str(holder.lease)}
                ctx.log.warning("lease failed: %s", error, extra=fields)
                if flagged:
                    return "ignored", None
            if isinstance(error, ManifestDecodeError):
                self._report_undecodable(ctx, holder.lease, error)
            self._raise_for_retry(error)
        self._enter(directive, before, written=written)
        return "connected", None

    def _raise_for_retry(self, error: Exception) -> NoReturn:
        """Raise what makes the host try again when the kind of failure says so."""
        delay = self._settings.seconds("retry_delay")
        match retry_class(error):
            case Retry.CONSTANT | Retry.DELAY:
                raise ctrlhost.RetryAfter(delay, str(error)) from error
            case Retry.PARKED:
                raise ctrlhost.TerminalError(str(error)) from error
            case Retry.BACK_OFF:
                raise error

    def _report_undecodable(self, ctx: ctrlhost.Context, lease: LeaseID, error: Exception) -> None:
        found = self._cached_manifest(ctx, lease)
        if found is not None:
            self._state.report_invalid(found, "decode", error)

    def _cached_manifest(self, ctx: ctrlhost.Context, lease: LeaseID) -> ctrlhost.Object | None:
        lister = ctx.lister(manifest.API_VERSION, manifest.KIND)
        return lister.get(lease.namespace, self._settings.k8s_manifest_ns)

    def _manifest(self, ctx: ctrlhost.Context, lease: LeaseID) -> Mapping[str, Any]:
        """Get the lease's Manifest; only the server's own word counts for it not being there."""
        found: Mapping[str, Any] | None = self._cached_manifest(ctx, lease)
        if found is None:
            found = ctx.client.find(
                manifest.API_VERSION, manifest.KIND, lease.namespace, self._settings.k8s_manifest_ns
            )
        if found is None:
            ctx.log.warning("no manifest", extra={"lease": str(lease), "lease_namespace": lease.namespace})
            raise ResourceNotFoundError(f"manifest for {lease}")
        return found

    def _write_route(self, ctx: ctrlhost.Context, directive: Directive, live: list[ctrlhost.Object]) -> bool:
        """Remove what is in the way, then create or replace the route; says whether the route was written."""
        target: ctrlhost.Object | None = None
        for route in live:
            if route.namespace == directive.lease.namespace:
                target = route
            else:
                self._remove_old(ctx, directive, route)
        desired = self._routes.build(directive)
        if target is not None and not self._routes.differs(target, desired):
            return False
        try:
            self._write(ctx, desired, target)
        except (ctrlhost.AlreadyExists, ctrlhost.Conflict) as error:
            # The cache is behind, or somebody took our label away: decide once more on what the server has.
            return self._write_over(ctx, desired, error)
        return True

    def _remove_old(self, ctx: ctrlhost.Context, directive: Directive, route: ctrlhost.Object) -> None:
        """Remove the route of another lease: two for one host are refused by the webhook of ingress-nginx."""
        owner = owner_of(route)
        if owner is None:
            if self._state.left_alone.first(route):
                self._state.metrics.orphans.inc()
                ctx.log.warning("route is not in its lease's namespace, left alone", extra={"route": route.key})
            return
        with self._state.metrics.kube_calls.count(self._routes.remove_action):
            self._routes.remove(ctx.client, owner, route)
        self._state.hostnames.drop(directive.hostname)
        fields = {"hostname": directive.hostname, "lease": str(owner)}
        ctx.log.info("removed the route of the old lease", extra=fields)

    def _write(self, ctx: ctrlhost.Context, desired: dict[str, Any], target: Mapping[str, Any] | None) -> None:
        """Create the route, or replace the whole of `target` with it."""
        if target is None:
            with self._state.metrics.kube_calls.count(self._routes.create_action):
                ctx.client.create(desired)
            return
        version = as_mapping(target.get("metadata")).get("resourceVersion")
        based = {**desired, "metadata": {**desired["metadata"], "resourceVersion": version}}
        try:
            with self._state.metrics.kube_calls.count(self._routes.update_action):
                ctx.client.replace(based)
        except ctrlhost.NotFound:
            self._write(ctx, desired, None)

    def _write_over(self, ctx: ctrlhost.Context, desired: dict[str, Any], refusal: Exception) -> bool:
        """Read the route from the server and replace it if it differs."""
        metadata = desired["metadata"]
        with self._state.metrics.kube_calls.count(self._routes.get_action):
            found = ctx.client.find(
                self._routes.api_version, self._routes.kind, metadata["name"], metadata["namespace"]
            )
        if found is not None and not self._routes.differs(found, desired):
            return False
        ctx.log.debug("deciding again on the server's object: %s", refusal, extra={"hostname": metadata["name"]})
        self._write(ctx, desired, found)
        return True

    def _enter(self, directive: Directive, before: ManagedHostname | None, *, written: bool) -> None:
        """Note in the map that the hostname is connected; `before` is what the map had when the reconcile began."""
        state = self._state
        now = ManagedHostname(directive.lease, directive.service_name, directive.service_port, state.clock.time())
        unchanged = before is not None and before.last_update and replace(before, last_update=now.last_update) == now
        if unchanged and not written:
            return
        state.hostnames.set(directive.hostname, now)
        change = "new" if before is None else "changed" if before.lease == now.lease else "swap"
        state.log.info(
            "connected" if written else "found connected",
            extra={
                "hostname": directive.hostname,
                "lease": str(directive.lease),
                "service": directive.service_name,
                "external_port": directive.service_port,
                "change": change,
            },
        )


def _version(found: Mapping[str, Any]) -> str:
    """Name the version of a Manifest for the ignore list."""
    uid = as_mapping(found.get("metadata")).get("uid", "")
    return manifest.fingerprint(uid, as_mapping(found.get("spec")))


def collect(
    state: OperatorState, ctx: ctrlhost.Context, hostname: str, live: list[ctrlhost.Object]
) -> ctrlhost.Result | None:
    """Remove the routes of a hostname that no ProviderHost claims.

    A claim that this process saw vanish is acted upon at once. A route that it never saw claimed was perhaps left
    behind while the controller was down, perhaps it is only claimed elsewhere: it must look exactly like ours and
    stay unclaimed for the grace period. None of those goes while no ProviderHost at all was seen, since then
    the namespace in the settings may be the wrong one.
    """
    if not live:
        state.hostnames.drop(hostname)
        state.forget(hostname)
        return None
    was_claimed = state.was_claimed(hostname)
    if not was_claimed:
        wait = _wait(state, ctx, hostname)
        if wait is None or wait > 0:
            return None if wait is None else ctrlhost.Result(requeue_after=wait)
    left = False
    for route in live:
        owner = owner_of(route)
        if owner is None or not (was_claimed or state.routes.is_plain(route, hostname)):
            left = True
            if state.left_alone.first(route):
                state.metrics.orphans.inc()
                ctx.log.warning("nobody claims the route, but it is not ours to remove", extra={"route": route.key})
            continue
        with state.metrics.kube_calls.count(state.routes.remove_action):
            state.routes.remove(ctx.client, owner, route)
        fields = {"hostname": hostname, "lease": str(owner)}
        ctx.log.info("removed the route of a hostname that nobody claims", extra=fields)
    if not left:
        state.hostnames.drop(hostname)
    return None


def _wait(state: OperatorState, ctx: ctrlhost.Context, hostname: str) -> float | None:
    """Give the seconds until a route that was never seen claimed may go; None if it may not."""
    if not state.settings.gc_orphans:
        ctx.log.debug("nobody claims the hostname, and orphans are kept", extra={"hostname": hostname})
        return None
    if not state.may_collect_unseen():
        return state.settings.seconds("gc_grace")
    return state.grace_left(hostname)


BY_HOST = "host"
BY_NAME = "name"
_BY_LEASE = "ctrlhost_hostname/lease"


class Wiring:
    """The sources of the controller and the caches that it looks into outside of a reconcile."""

    def __init__(self, plugin: ctrlhost.PluginContext, state: OperatorState) -> None:
        """Ask for the caches; nothing is read yet."""
        settings, routes = state.settings, state.routes
        self._state = state
        self._namespaces = [settings.k8s_manifest_ns]
        self._hosts = plugin.informer(claims.API_VERSION, claims.KIND, namespaces=self._namespaces)
        self._routes = plugin.informer(routes.api_version, routes.kind, label_selector=MANAGED_SELECTOR)
        self._hosts.indexer.add_indexers({_BY_LEASE: self._lease_namespace})
        self._lock = threading.Lock()
        self._begun = False
        self._resyncing = False

    def sources(self) -> tuple[ctrlhost.Watches | ctrlhost.Every, ...]:
        """Give the sources. The key is a hostname, in whichever namespace its route is."""
        routes, settings = self._state.routes, self._state.settings
        return (
            ctrlhost.Watches(
                claims.API_VERSION,
                claims.KIND,
                namespaces=self._namespaces,
                map=self._of_provider_host,
                indexes={BY_HOST: lambda host: [_hostname_of(host)]},
            ),
            ctrlhost.Watches(
                manifest.API_VERSION,
                manifest.KIND,
                namespaces=self._namespaces,
                map=self._of_manifest,
                reads=manifest.READS,
            ),
            ctrlhost.Watches(
                routes.api_version,
                routes.kind,
                label_selector=MANAGED_SELECTOR,
                map=self._of_route,
                indexes={BY_NAME: "metadata.name"},
            ),
            ctrlhost.Every(settings.seconds("resync_interval"), self._everything),
        )

    def begin(self) -> None:
        """Have the state begin with full caches; does nothing when that was done, or before the caches are full.

        The host says once that the caches are full, but leaves out those that wait for a CRD, so a reconcile asks too.
        """
        with self._lock:
            if not self._begun and self._hosts.has_synced and self._routes.has_synced:
                self._state.begin(self.live_routes(), self.provider_hosts())
                self._begun = True

    def live_routes(self) -> list[ctrlhost.Object]:
        """Give every managed route, in the order of namespaces and names."""
        return sorted(self._routes.lister.list(), key=lambda route: (route.namespace, route.name))

    def provider_hosts(self) -> list[ctrlhost.Object]:
        """Give every ProviderHost."""
        return list(self._hosts.lister.list())

    def _of_provider_host(self, host: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        yield ctrlhost.Request(_hostname_of(host))

    def _of_manifest(self, found: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        for host in self._hosts.indexer.by_index(_BY_LEASE, found.name):
            yield ctrlhost.Request(_hostname_of(host))

    def _of_route(self, route: ctrlhost.Object) -> Iterator[ctrlhost.Request]:
        yield ctrlhost.Request(route.name)
        for hostname in self._state.routes.hosts(route):
            if hostname != route.name:
                yield ctrlhost.Request(hostname)

    def _everything(self) -> Iterator[ctrlhost.Request]:
        # The first round comes when the workers start, and the lists have queued everything by then. Once more at
        # once would count every failure twice.
        if not self._resyncing:
            self._resyncing = True
            return
        for host in self.provider_hosts():
            yield ctrlhost.Request(_hostname_of(host))
        for route in self.live_routes():
            yield from self._of_route(route)

    def _lease_namespace(self, host: ctrlhost.Object) -> list[str]:
        """Index a ProviderHost by the name of its lease's Manifest; one without a valid lease has none."""
        try:
            lease = read_lease(as_mapping(host.get("spec")), self._state.settings.bech32_prefix)
        except InvalidClaimError:
            return []
        return [lease.namespace]


def _hostname_of(host: ctrlhost.Object) -> str:
    """Read the hostname; `""` stands for all ProviderHosts without one, so that those are reported too."""
    return claimed_hostname(as_mapping(host.get("spec")))
