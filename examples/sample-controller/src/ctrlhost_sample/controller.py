"""The reconciler of Foos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_sample.foo import API_VERSION, KIND, agrees, deployment_for

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK_AGAIN = 30.0
"""Seconds until a retry when another Deployment has the name: no source reports its deletion."""


def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
    """Create or repair the Deployment of a Foo, and write the available replicas into the Foo's status."""
    foo = ctx.get(request)
    if foo is None or foo.deletion_timestamp:
        # The garbage collector deletes the Deployment with its owner.
        return None
    wanted = deployment_for(foo)
    name = wanted["metadata"]["name"]
    live = ctx.lister("apps/v1", "Deployment").get(name, request.namespace)
    deployment: Mapping[str, Any]
    if live is None:
        deployment = ctx.client.create(wanted, owner=foo)
        ctx.events.normal(foo, "Created", f"created Deployment {name}", action="Create")
    elif not live.is_controlled_by(foo):
        ctx.events.warning(
            foo, "ErrResourceExists", f"Deployment {name} exists already and has another owner", action="Sync"
        )
        return ctrlhost.Result(requeue_after=LOOK_AGAIN)
    elif not agrees(live["spec"], wanted["spec"]):
        deployment = ctx.client.apply(wanted, owner=foo)
        ctx.events.normal(foo, "Repaired", f"set Deployment {name} back to the Foo's spec", action="Update")
    else:
        deployment = live
    report(ctx, foo, deployment)
    return None


def report(ctx: ctrlhost.Context, foo: Mapping[str, Any], deployment: Mapping[str, Any]) -> None:
    """Write the number of available replicas into the Foo's status if it changed."""
    available = (deployment.get("status") or {}).get("availableReplicas") or 0
    if (foo.get("status") or {}).get("availableReplicas") == available:
        return
    metadata = foo["metadata"]
    patch = {"status": {"availableReplicas": available}}
    ctx.client.patch(API_VERSION, KIND, metadata["name"], metadata["namespace"], patch, subresource="status")
