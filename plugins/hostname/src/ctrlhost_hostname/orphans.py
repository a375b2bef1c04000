"""Routes that nobody claims: which of them are removed, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_hostname.routes import owner_of

if TYPE_CHECKING:
    from ctrlhost_hostname.state import OperatorState


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
