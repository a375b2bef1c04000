"""`ctx.client.official()` of a `ctrlhost.Plugin`: typed objects, reads after writes, leadership, metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ctrlhost
from ctrlhost.testing import ManualClock
from tests.support.declared import declared
from tests.support.elections import lose
from tests.support.objects import config_map, deployment

pytestmark = pytest.mark.behaviour("authoring/AP9")

DEPLOYMENT = "apps/v1/Deployment"


def scaled(ctx: Any, name: str, replicas: int) -> tuple[str, int]:
    """Scale a Deployment by the official client; return the type of what was read before, and the new size."""
    from kubernetes.client import AppsV1Api

    api = AppsV1Api(ctx.client.official())
    live = api.read_namespaced_deployment(name, "default")
    live.spec.replicas = replicas
    return type(live).__name__, api.replace_namespaced_deployment(name, "default", live).spec.replicas


@pytest.mark.parametrize("form", ["def", "async def"])
def test_the_next_read_sees_what_it_wrote(ctrlhost_host: Any, form: str) -> None:
    seen: list[Any] = []
    plugin = declared("p")

    def run(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        with host.faults.hold_watches():
            seen.append(scaled(ctx, "d", 3))
            live = ctx.cache(DEPLOYMENT).get("d")
            seen.append(live.get_path("spec", "replicas"))

    async def run_async(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        with host.faults.hold_watches():
            seen.append(await asyncio.to_thread(scaled, ctx, "d", 3))
            live = ctx.cache(DEPLOYMENT).get("d")
            seen.append(live.get_path("spec", "replicas"))

    source = ctrlhost.For("v1/ConfigMap", label_selector="mine")
    plugin.controller(source, name="c", owns=[DEPLOYMENT])(run if form == "def" else run_async)
    plugin.permission("apps", ["deployments"], ["get", "update"])
    host = ctrlhost_host(plugin, start=False)
    host.apply(deployment("d"), config_map("a", labels={"mine": ""}))
    host.start()
    host.settle()
    assert seen[:2] == [("V1Deployment", 3), 3]
    writes = [(write.controller, write.verb, write.manager) for write in host.writes() if write.controller]
    assert set(writes) == {("p/c", "replace", "ctrlhost-p")}


@pytest.mark.behaviour("authoring/AT16")
def test_a_fault_hits_ensure_and_the_official_client_alike(ctrlhost_host: Any) -> None:
    from kubernetes.client import CoreV1Api
    from kubernetes.client.exceptions import ForbiddenException

    plugin, ended = declared("p"), []

    @plugin.controller(ctrlhost.For("v1/ConfigMap", label_selector="mine"), name="c", owns=["v1/Secret"])
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        host.faults.next("apply", ctrlhost.Forbidden("not today"))
        with pytest.raises(ctrlhost.Forbidden, match="not today"):
            ctx.ensure(secret("of-ensure"))
        assert host.faults.left() == 0
        host.faults.next("apply", ctrlhost.Forbidden("not today"))
        with pytest.raises(ForbiddenException, match="not today"):
            applied(ctx)
        assert host.faults.left() == 0
        assert host.find("v1/Secret", "of-ensure") is None
        assert host.find("v1/Secret", "official") is None
        # Each fault was for one request.
        ctx.ensure(secret("of-ensure"))
        ended.append(applied(ctx).metadata.name)

    def applied(ctx: ctrlhost.Context) -> Any:
        return CoreV1Api(ctx.client.official()).patch_namespaced_secret(
            "official", "default", secret("official"), force=True, _content_type="application/apply-patch+yaml"
        )

    def secret(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}}

    host = ctrlhost_host(plugin)
    host.apply(config_map("a", labels={"mine": ""}))
    host.settle()
    assert ended[0] == "official"
    assert {obj.name for obj in host.list("v1/Secret")} >= {"of-ensure", "official"}


def test_a_call_without_a_thread_is_refused_in_async_def(ctrlhost_host: Any) -> None:
    errors: list[BaseException] = []
    plugin = declared("p")

    @plugin.controller("v1/ConfigMap", name="c")
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        try:
            scaled(ctx, "d", 3)
        except ctrlhost.BlockingCall as error:
            errors.append(error)

    host = ctrlhost_host(plugin)
    host.apply(config_map("a"))
    host.settle()
    assert errors
    assert [record for record in host.sandbox.audit if record.resource == "deployments"] == []


def test_a_replica_that_lost_the_lead_reads_and_does_not_write(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    from kubernetes.client import CoreV1Api

    contexts: list[Any] = []
    plugin = declared("p")

    @plugin.setup
    def setup(context: Any) -> None:
        contexts.append(context)

    plugin.permission("", ["configmaps"], ["get", "create"])
    host = ctrlhost_host(plugin, clock=manual_clock, leader_elect=True)
    host.wait_for(lambda: contexts[0].term is not None)
    api = CoreV1Api(contexts[0].client.official())
    api.create_namespaced_config_map("default", config_map("a"))
    lose(host, contexts[0])
    with pytest.raises(ctrlhost.NotLeading):
        api.create_namespaced_config_map("default", config_map("b"))
    assert api.read_namespaced_config_map("a", "default").metadata.name == "a"
    assert host.find("v1/ConfigMap", "b") is None
