"""The hostname controller, a ctrlhost plugin: writes an Ingress or HTTPRoute for every declared hostname.

A ProviderHost routes a hostname to a port of a service of a lease, and a Manifest lists the services of the lease. The
plugin writes one route per hostname into the lease's namespace, moves it when the hostname moves to another lease, and
removes it when no ProviderHost claims the hostname any longer.

It has two controllers: `connect` reconciles ProviderHosts, and `release` the routes that none of them claims.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import ctrlhost
from ctrlhost import predicates
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from ctrlhost_hostname.brake import WINDOW
from ctrlhost_hostname.claims import PROVIDER_HOST, ProviderHost, choose_holder, read_claim
from ctrlhost_hostname.errors import InvalidClaimError, ResourceNotFoundError, for_retry, is_counted
from ctrlhost_hostname.manifest import MANIFEST, READS, Manifest
from ctrlhost_hostname.pages import status_pages
from ctrlhost_hostname.routes import CONFIRM, MANAGED_SELECTOR, removable_owner
from ctrlhost_hostname.settings import HostnameSettings
from ctrlhost_hostname.state import OperatorState

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator

    from ctrlhost_hostname.claims import Claim
    from ctrlhost_hostname.lease import LeaseID
    from ctrlhost_hostname.manifest import HTTPOptions

Context: TypeAlias = "ctrlhost.Context[ProviderHost, HostnameSettings]"
Host: TypeAlias = "ctrlhost.PluginContext[HostnameSettings]"

#: The condition that says why a ProviderHost has no route, or why its route is not updated.
STALLED = "Stalled"
#: Not a change of a status, such as the plugin's own.
CHANGED = (predicates.desired_state_changed,)

plugin = ctrlhost.Plugin(settings=HostnameSettings, crds="crds/*.yaml")


# The pages, the timers and the term.


@plugin.setup
def set_up(host: Host) -> OperatorState:
    """Serve the pages on an address of their own; no worker starts before all caches are full."""
    state, settings = OperatorState(host), host.settings
    address = f"{settings.rest_address}:{settings.rest_port}"
    host.add_listener(address, status_pages(state.pages, lambda: find_leader(host)), address_setting="rest-address")
    host.start_together()
    return state


@plugin.page("/")
def pages(host: Host) -> Any:
    """Serve the same pages below the host's address."""
    return status_pages(host.state.pages, lambda: find_leader(host), index=True)


def find_leader(host: Host) -> str | None:
    """Return the identity of the leader, empty if it is unknown; None while this replica leads."""
    return None if host.leading else host.leader


@plugin.task(every=lambda settings: settings.prune_interval, first_after=lambda settings: settings.prune_interval)
def prune(host: Host, _stop: threading.Event) -> None:
    """Keep the ignore list small."""
    host.state.ignore_list.prune()


@plugin.task(
    every=lambda settings: settings.web_refresh_interval,
    first_after=lambda settings: settings.web_refresh_interval,
    needs_leader=True,
)
def refresh(host: Host, _stop: threading.Event) -> None:
    """Prepare the pages that changed."""
    host.state.pages.refresh()


@plugin.elected
def begin_term(host: Host) -> None:
    """Rebuild the map from the existing routes before the first write."""
    host.state.begin_term()


@plugin.deposed
def end_term(host: Host) -> None:
    """Drop what becomes outdated."""
    host.state.end_term()


@plugin.permission
def permissions(settings: HostnameSettings) -> Iterator[ctrlhost.Permission]:
    """Request what does not follow from the declarations."""
    routes = settings.routes()
    yield ctrlhost.Permission(routes.kind[0].partition("/")[0], [routes.resource], ["delete"])
    # A Manifest that is not in the cache counts as missing only if the server says so.
    yield ctrlhost.Permission("akash.network", ["manifests"], ["get"], namespace=settings.k8s_manifest_ns)


# What a change concerns.


@plugin.index(ProviderHost)
def by_hostname(host: ProviderHost) -> list[str]:
    """Find the ProviderHosts of a hostname."""
    return [host.spec.hostname]


@plugin.index(ProviderHost)
def by_lease(host: ProviderHost) -> list[str]:
    """Find the ProviderHosts of a lease by the name of its Manifest."""
    return [host.unchecked_lease.namespace]


def rivals(host: ProviderHost, caches: ctrlhost.Caches) -> Iterator[ctrlhost.Request]:
    """Return the other ProviderHosts of a hostname, one of which may get it now."""
    for other in caches[ProviderHost].by_index(by_hostname, host.spec.hostname):
        if other.metadata.name != host.metadata.name:
            yield request_of(other)


def hosts_of_manifest(manifest: ctrlhost.Object, caches: ctrlhost.Caches) -> Iterator[ctrlhost.Request]:
    """Return the ProviderHosts of a lease."""
    return map(request_of, caches[ProviderHost].by_index(by_lease, manifest.name))


def hosts_of_route(route: ctrlhost.Object, caches: ctrlhost.Caches) -> Iterator[ctrlhost.Request]:
    """Return the ProviderHosts of the hostnames that a route is named after, or leads to."""
    for hostname in dict.fromkeys((route.name, *caches.state.routes.hosts(route))):
        yield from map(request_of, caches[ProviderHost].by_index(by_hostname, hostname))


def routes_of_host(host: ProviderHost, caches: ctrlhost.Caches) -> Iterable[ctrlhost.Request]:
    """Return the routes of a hostname, and the one that the map still has."""
    hostname, state = host.spec.hostname, caches.state
    namespaces = {route.namespace for route in caches[state.routes.kind].by_index("name", hostname)}
    if hostname in state.hostnames:
        namespaces.add(state.hostnames[hostname].lease.namespace)
    return [ctrlhost.Request(hostname, namespace) for namespace in namespaces]


def request_of(host: ProviderHost) -> ctrlhost.Request:
    """Return the key of a ProviderHost."""
    return ctrlhost.Request(host.metadata.name, host.metadata.namespace)


def sources_of_connect(settings: HostnameSettings) -> list[ctrlhost.Watches]:
    """Return what decides about the route of a ProviderHost, and the routes."""
    namespaces = [settings.k8s_manifest_ns]
    return [
        ctrlhost.Watches(ProviderHost, namespaces=namespaces, predicates=CHANGED, map=rivals),
        ctrlhost.Watches(MANIFEST, namespaces=namespaces, reads=READS, map=hosts_of_manifest),
        ctrlhost.Watches(
            settings.routes().kind,
            label_selector=MANAGED_SELECTOR,
            predicates=CHANGED,
            indexes={"name": "metadata.name"},
            map=hosts_of_route,
            # In another namespace than its ProviderHost, which therefore cannot own it.
            ensure=True,
        ),
    ]


def back_off(settings: HostnameSettings) -> ItemExponentialFailureRateLimiter:
    """Return the delays of retries."""
    return ItemExponentialFailureRateLimiter(settings.seconds("retry_delay"), settings.seconds("max_retry_delay"))


# Connecting.


@plugin.controller(
    lambda settings: ctrlhost.For(ProviderHost, namespaces=[settings.k8s_manifest_ns]),
    name="hostname",
    watches=sources_of_connect,
    every=lambda settings: settings.resync_interval,
    workers=lambda settings: settings.workers,
    rate_limiter=back_off,
    gone=True,
)
def connect(ctx: Context, host: ProviderHost | None) -> None:
    """Make the route of a hostname match its ProviderHost."""
    state: OperatorState = ctx.state
    state.conflicts.discard(ctx.request.name)
    if host is None:
        return
    state.any_claim = True
    watch_for_mass_removal(ctx, host.spec.hostname)
    state.brake.drop(host.spec.hostname)
    with state.exclusive(host.spec.hostname):
        state.metrics.reconcile(lambda: connect_claim(ctx, host))


def connect_claim(ctx: Context, host: ProviderHost) -> str:
    """Connect a valid ProviderHost that holds its hostname; return the outcome."""
    state: OperatorState = ctx.state
    try:
        claim = read_claim(host, ctx.settings.bech32_prefix)
    except InvalidClaimError as error:
        if stall(ctx, host, "InvalidProviderHost", str(error)):
            state.report_invalid(ctx.object, error.reason, error)
        return "invalid"
    state.claim_seen(claim.hostname)
    live = ctx.cache(state.routes.kind).by_index("name", claim.hostname)
    holder = find_holder(ctx, claim, live)
    if holder.name != claim.name:
        state.conflicts.add(claim.name)
        message = f"hostname {holder.hostname} is held by ProviderHost {holder.name} of lease {holder.lease}"
        if stall(ctx, host, "HostnameConflict", message):
            ctx.log.warning("%s", message, extra={"loser": claim.name})
        return "conflict"
    if state.ignore_list.is_flagged(claim.lease):
        ctx.log.info("skipping ignored lease", extra={"hostname": claim.hostname, "lease": str(claim.lease)})
        stall(ctx, host, "LeaseIgnored", state.ignore_list.reason(claim.lease))
        return "ignored"
    return connect_holder(ctx, host, claim, live)


def find_holder(ctx: Context, claim: Claim, live: list[ctrlhost.Object]) -> Claim:
    """Return which of the valid claims for a hostname gets it."""
    claims, ignore_list = {claim.name: claim}, ctx.state.ignore_list
    for host in ctx.cache(ProviderHost).by_index(by_hostname, claim.hostname):
        with suppress(InvalidClaimError):
            claims[host.metadata.name] = read_claim(host, ctx.settings.bech32_prefix)
    for lease in {other.lease for other in claims.values()}:
        # The Manifest appeared or changed since the last failure.
        if ctx.settings.forgives and ignore_list.forgive(lease, manifest_version(ctx, lease)):
            ctx.log.info("lease no longer ignored: its manifest changed", extra={"lease": str(lease)})
    incumbents = {owner for route in live if (owner := removable_owner(route))}
    return choose_holder(claims.values(), flagged=ignore_list.is_flagged, incumbents=incumbents)


def connect_holder(ctx: Context, host: ProviderHost, claim: Claim, live: list[ctrlhost.Object]) -> str:
    """Write the route of a claim and return the outcome; record a counted failure and raise its retry."""
    state: OperatorState = ctx.state
    version = manifest_version(ctx, claim.lease)
    try:
        expose = find_manifest(ctx, claim.lease).find_expose(claim.lease, claim.service_name, claim.external_port)
        write_route(ctx, claim, expose.http_options.or_defaults(), live)
    except (ResourceNotFoundError, ctrlhost.InvalidObject, ctrlhost.ApiError) as error:
        if is_counted(error):
            fields = {"hostname": claim.hostname, "lease": str(claim.lease)}
            ctx.log.warning("lease failed: %s", error, extra=fields)
            if state.ignore_list.record(claim.lease, claim.hostname, error, version):
                stall(ctx, host, "LeaseIgnored", state.ignore_list.reason(claim.lease))
                return "ignored"
        retry = for_retry(error, ctx.settings.seconds("retry_delay"))
        if isinstance(error, ctrlhost.InvalidObject):
            manifest = error.object
            if ctx.event("InvalidManifest", error.problem, warning=True, about=manifest, action="Connect", once=True):
                state.report_invalid(manifest, "decode", error)
            stall(ctx, host, "InvalidManifest", str(error))
        elif isinstance(retry, ctrlhost.TerminalError):
            stall(ctx, host, "RouteRejected", str(error))
        raise retry from error
    if host.status is not None and host.status.is_true(STALLED):
        ctx.status.condition(STALLED, False, "Connected", "the route exists")
    return "connected"


def find_manifest(ctx: Context, lease: LeaseID) -> Manifest:
    """Return the lease's Manifest; it is missing only if the server says so."""
    manifest = ctx.cache(Manifest).get(lease.namespace)
    if manifest is not None:
        return manifest
    if ctx.client.find(*MANIFEST, lease.namespace, ctx.settings.k8s_manifest_ns) is None:
        ctx.log.warning("manifest not found", extra={"lease": str(lease), "lease_namespace": lease.namespace})
        raise ResourceNotFoundError(f"manifest for {lease}")
    raise ctrlhost.RetryAfter(ctx.settings.seconds("retry_delay"), f"the manifest for {lease} is not cached yet")


def manifest_version(ctx: Context, lease: LeaseID) -> str | None:
    """Return what tells a lease's Manifest from an earlier one; None if there is none."""
    manifest = ctx.cache(MANIFEST).get(lease.namespace)
    return None if manifest is None else f"{manifest.uid}/{manifest.generation}"


def write_route(ctx: Context, claim: Claim, options: HTTPOptions, live: list[ctrlhost.Object]) -> None:
    """Remove the routes of other leases, then make the claim's own what it should be."""
    state: OperatorState = ctx.state
    routes, namespace = state.routes, claim.lease.namespace
    before = state.hostnames.get(claim.hostname)
    for route in live:
        # The webhook of ingress-nginx rejects a second route for the host.
        if route.namespace != namespace:
            state.remove(ctx.client, route)
    desired = routes.build(claim, options)
    try:
        route = ctx.ensure(desired, owner=None, adopt=True)
        if unwanted := routes.unwanted(route, desired):
            ctx.client.patch(*routes.kind, claim.hostname, namespace, unwanted)
    except (ctrlhost.ApiError, ctrlhost.TransportError):
        state.metrics.called(f"{routes.action}-apply", "fail")
        raise
    written = bool(unwanted) or route.resource_version not in {other.resource_version for other in live}
    if written:
        state.metrics.called(f"{routes.action}-apply")
    state.connected(claim, before, written=written)


def stall(ctx: Context, host: ProviderHost, reason: str, message: str) -> bool:
    """Set the condition `Stalled`, with an Event if reason or message are new; return whether they are."""
    message = message[:1024]
    ctx.status.condition(STALLED, True, reason, message)
    before = None if host.status is None else host.status.condition(STALLED)
    if before is not None and (before.status, before.reason, before.message) == ("True", reason, message):
        return False
    # Once: a CRD of upstream has no status, in which the condition would be.
    return ctx.event(reason, message, warning=True, action="Connect", once=True)


# Releasing.


@plugin.controller(
    lambda settings: ctrlhost.For(
        settings.routes().kind, label_selector=MANAGED_SELECTOR, indexes={"name": "metadata.name"}
    ),
    name="release",
    watches=lambda settings: [
        ctrlhost.Watches(ProviderHost, namespaces=[settings.k8s_manifest_ns], predicates=CHANGED, map=routes_of_host)
    ],
    every=lambda settings: settings.resync_interval,
    workers=lambda settings: settings.workers,
    rate_limiter=back_off,
    gone=True,
)
def release(
    ctx: ctrlhost.Context[ctrlhost.Object, HostnameSettings], route: ctrlhost.Object | None
) -> ctrlhost.Result | None:
    """Remove a route whose hostname no ProviderHost claims.

    If this process saw the claim disappear, it is removed at once. Otherwise it may be left over from a downtime, or
    claimed elsewhere: it must look exactly like the plugin's own and stay unclaimed for the grace period.
    """
    watch_for_mass_removal(ctx, ctx.request.name)
    # Not beside a run that connects the hostname: its claim may have just been deleted.
    with ctx.state.exclusive(ctx.request.name):
        return release_unclaimed(ctx, route)


def release_unclaimed(
    ctx: ctrlhost.Context[ctrlhost.Object, HostnameSettings], route: ctrlhost.Object | None
) -> ctrlhost.Result | None:
    """Remove a route unless its hostname is claimed, or it must stay for now."""
    state: OperatorState = ctx.state
    hostname = ctx.request.name
    if ctx.cache(ProviderHost).by_index(by_hostname, hostname):
        return None
    if route is None:
        if not ctx.cache(state.routes.kind).by_index("name", hostname):
            state.forget(hostname)
        return None
    was_claimed = hostname in state.claimed
    if not was_claimed:
        if not ctx.settings.gc_orphans:
            ctx.log.debug("keeping unclaimed route: gc-orphans is off", extra={"hostname": hostname})
            return None
        if (wait := state.grace_left(hostname)) > 0:
            return ctrlhost.Result(requeue_after=wait)
    if CONFIRM not in route.annotations and state.brake.holds(hostname):
        return ctrlhost.Result(requeue_after=WINDOW)
    state.metrics.reconcile(lambda: state.remove(ctx.client, route, exact=not was_claimed))
    state.brake.drop(hostname)
    return None


def watch_for_mass_removal(ctx: ctrlhost.Context[Any, HostnameSettings], hostname: str) -> None:
    """Show the brake the number of ProviderHosts, and report if it engages."""
    vanished = ctx.state.brake.observe(ctx.state.hosts.indexer.__len__)
    if vanished is None:
        return
    message = f"{vanished}: no routes are removed until they return or the routes have the annotation {CONFIRM}"
    ctx.log.error("%s", message, extra={"hostname": hostname})
    metadata = {"name": hostname, "namespace": ctx.settings.k8s_manifest_ns}
    host = {"apiVersion": PROVIDER_HOST[0], "kind": PROVIDER_HOST[1], "metadata": metadata}
    ctx.event("MassRemoval", message, warning=True, about=host, action="Remove")
