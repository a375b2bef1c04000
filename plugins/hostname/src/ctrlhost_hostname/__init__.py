"""The hostname controller, a ctrlhost plugin: writes an Ingress or HTTPRoute for every declared hostname.

A ProviderHost routes a hostname to a port of a service of a lease, and a Manifest lists the services of the lease. The
plugin writes one route per hostname into the lease's namespace, moves it when the hostname moves to another lease, and
removes it when no ProviderHost claims the hostname any longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from ctrlhost_hostname.controller import HostnameController
from ctrlhost_hostname.pages import status_pages, with_index
from ctrlhost_hostname.settings import HostnameSettings
from ctrlhost_hostname.state import OperatorState

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HostnameSettings"]


@ctrlhost.hookimpl
def ctrlhost_settings() -> type[HostnameSettings]:
    """Return the type of the plugin's settings."""
    return HostnameSettings


@ctrlhost.hookimpl
def ctrlhost_crds() -> Iterable[dict[str, Any]]:
    """Return the CRDs of ProviderHost and Manifest."""
    return ctrlhost.crds_from(__name__, "crds/*.yaml")


@ctrlhost.hookimpl
def ctrlhost_permissions(settings: HostnameSettings) -> Iterable[ctrlhost.Permission]:
    """Request reads and writes by name of the configured kind of route, and of what decides about it.

    Routes are in all namespaces, since leases come and go.
    """
    routes = settings.routes()
    return (
        ctrlhost.Permission(routes.group, [routes.resource], ["get", *routes.write_verbs]),
        # A Manifest that is not in the cache counts as missing only if the server says so.
        ctrlhost.Permission("akash.network", ["manifests"], ["get"], namespace=settings.k8s_manifest_ns),
        ctrlhost.Permission("akash.network", ["providerhosts/status"], ["patch"], namespace=settings.k8s_manifest_ns),
        ctrlhost.Permission("events.k8s.io", ["events"], ["create", "patch"], namespace=settings.k8s_manifest_ns),
    )


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Register the controller, the status pages and the two timers."""
    settings: HostnameSettings = plugin.settings
    state = OperatorState(plugin)
    plugin.state = controller = HostnameController(plugin, state)
    plugin.add_controller(
        "hostname",
        controller.reconcile,
        *controller.sources(),
        workers=settings.workers,
        rate_limiter=ItemExponentialFailureRateLimiter(settings.retry_delay, settings.max_retry_delay),
    )
    pages = status_pages(state.pages, lambda: None if plugin.leading else plugin.leader)
    plugin.add_page("/", with_index(pages))
    plugin.add_listener(f"{settings.rest_address}:{settings.rest_port}", pages, address_setting="rest-address")
    prune, refresh = settings.prune_interval, settings.web_refresh_interval
    plugin.add_task("prune", lambda _stop: state.ignore_list.prune(), every=prune, first_after=prune)
    plugin.add_task(
        "refresh", lambda _stop: state.pages.refresh(), every=refresh, first_after=refresh, needs_leader=True
    )


@ctrlhost.hookimpl
def ctrlhost_elected(plugin: ctrlhost.PluginContext) -> None:
    """Rebuild the map from the existing routes before the first write."""
    plugin.state.begin_term()


@ctrlhost.hookimpl
def ctrlhost_deposed(plugin: ctrlhost.PluginContext) -> None:
    """Drop the map and the pages: another replica changes the routes now."""
    plugin.state.end_term()
