"""Controllers of a `ctrlhost.Plugin`: their kinds, what they are called for, and what wakes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import For, Object
from ctrlhost.supervisor.loader import PluginManager
from tests.support.declared import declared
from tests.support.plugin_modules import config_map


@ctrlhost.resource("v1/ConfigMap")
class Map(msgspec.Struct, frozen=True):
    metadata: ctrlhost.ObjectMeta
    data: dict[str, str] = {}


def cron_job(name: str = "nightly", schedule: str = "0 3 * * *") -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    spec = {"schedule": schedule, "suspend": True, "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


@pytest.mark.behaviour("authoring/AU6")
def test_two_hosts_of_one_plugin_share_no_state(ctrlhost_host, sandbox: Sandbox) -> None:
    plugin = declared()
    request = ctrlhost.Request("one", "default")
    seen: list[tuple[object, list[str]]] = []

    @plugin.setup
    def setup(host: ctrlhost.PluginContext) -> list[str]:
        return []

    @plugin.controller(For("v1/ConfigMap", label_selector="mine"))
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        if obj.name == "one":
            while ctx.state:
                ctx.client.create(config_map(ctx.state.pop(), labels={"mine": "1"}))
            objects = map(ctx.cache("v1/ConfigMap").get, ("of-first", "of-second", "one"))
            seen.append((ctx.state, [item.name for item in objects if item is not None]))

    def reconciled(host: Any) -> list[str]:
        """Reconcile `one` once more; return what its function found in the cache."""
        before = len(seen)
        host.controllers["p/configmap"].queue.add(request)
        host.wait_for(lambda: len(seen) > before)
        (state, names) = seen[-1]
        assert state is host.host.plugins[0].attempt.context.state
        return names

    first, second = ctrlhost_host(plugin, server=sandbox), ctrlhost_host(plugin, server=sandbox)
    first.client.create(config_map("one", labels={"mine": "1"}))
    for host in (first, second):
        host.wait_for(lambda host=host: host.controllers["p/configmap"].status().runs)
        host.run_until_idle()
    assert seen == [([], ["one"])] * 2
    states = [host.host.plugins[0].attempt.context.state for host in (first, second)]
    assert states[0] is not states[1]
    assert {id(state) for state, _ in seen} == {id(state) for state in states}
    with first.faults.hold_watches(), second.faults.hold_watches():
        for state, name in zip(states, ("of-first", "of-second"), strict=True):
            state.append(name)
        # Both wrote to one server; each knows its own write only, until the watches show the other's.
        for _ in range(2):
            assert reconciled(first) == ["of-first", "one"]
            assert reconciled(second) == ["of-second", "one"]
    for host in (first, second):
        host.wait_for(lambda host=host: reconciled(host) == ["of-first", "of-second", "one"])
    controllers = [host.controllers["p/configmap"] for host in (first, second)]
    assert controllers[0].queue is not controllers[1].queue
    assert set(map(id, controllers[0].informers)).isdisjoint(map(id, controllers[1].informers))


@pytest.mark.behaviour("authoring/AU8")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Map, Map),
        (("v1", "ConfigMap"), Object),
        ("v1/ConfigMap", Object),
        (For("v1", "ConfigMap"), Object),
        (For(Map, namespaces=["default"], label_selector="mine"), Map),
        (For("v1/ConfigMap", label_selector="mine"), Object),
    ],
    ids=["struct", "tuple", "text", "two-texts", "for-struct", "for-text"],
)
def test_a_kind_is_a_struct_a_tuple_or_a_text(ctrlhost_host, kind: Any, expected: type) -> None:
    plugin, seen = declared("plugin"), []

    @plugin.controller(kind)
    def reconcile(ctx: ctrlhost.Context, obj: Any) -> None:
        seen.append((obj, ctx.object))

    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}, size="3"))
    host.run_until_idle()
    (obj, cached) = next(pair for pair in seen if pair[1].name == "ann")
    assert type(obj) is expected
    assert isinstance(cached, Object)
    assert (obj.data if expected is Map else obj["data"]) == {"size": "3"} == cached["data"]
    assert set(host.controllers) == {"plugin/configmap"}
    assert host.controllers["plugin/configmap"].queue.name == "plugin/configmap"


@pytest.mark.behaviour("authoring/AU8")
def test_two_controllers_of_a_kind_need_names(ctrlhost_host) -> None:
    plugin = declared()
    plugin.controller("v1/ConfigMap")(lambda ctx, obj: None)
    plugin.controller(("v1", "ConfigMap"))(lambda ctx, obj: None)
    host = ctrlhost_host(plugin, start=False)
    host.host.start()
    runtime = host.host.plugins[0]
    host.wait_for(lambda: runtime.state == "failed")
    assert "controllers" in runtime.reason
    assert "configmap" in runtime.reason
    with pytest.raises(ctrlhost.PluginLoadError, match="configmap"):
        PluginManager().register("p", plugin)


@pytest.mark.parametrize("is_async", [False, True])
def test_one_function_may_reconcile_several_kinds(ctrlhost_host, is_async: bool) -> None:
    plugin, seen = declared(), set()

    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        seen.add((type(ctx), obj["kind"]))

    async def reconcile_async(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        seen.add((type(ctx), obj["kind"]))

    of_maps = plugin.controller(For("v1/ConfigMap", label_selector="mine"), owns=None)
    plugin.controller("v1/Namespace")(of_maps(reconcile_async if is_async else reconcile))
    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    context = ctrlhost.AsyncContext if is_async else ctrlhost.Context
    assert seen == {(context, "ConfigMap"), (context, "Namespace")}


@pytest.mark.behaviour("authoring/AU9")
@pytest.mark.parametrize("gone", [False, True])
def test_what_is_gone_or_being_deleted_is_for_those_who_ask_for_it(ctrlhost_host, gone: bool) -> None:
    plugin, seen = declared(), []

    @plugin.controller(For("v1/ConfigMap", label_selector="mine"), gone=gone)
    def reconcile(ctx: ctrlhost.Context, obj: Object | None) -> None:
        seen.append((ctx.request.name, obj if obj is None else obj.deletion_timestamp is not None))
        if obj is None:
            with pytest.raises(ctrlhost.NotFound, match="default/plain is gone"):
                _ = ctx.object

    host = ctrlhost_host(plugin)
    kept = config_map("kept", labels={"mine": "1"})
    kept["metadata"]["finalizers"] = ["other.example.com/keep"]
    host.client.create(kept)
    host.client.create(config_map("plain", labels={"mine": "1"}))
    host.run_until_idle()
    assert sorted(seen) == [("kept", False), ("plain", False)]
    seen.clear()
    host.client.delete("v1", "ConfigMap", "kept", "default")
    host.client.delete("v1", "ConfigMap", "plain", "default")
    host.run_until_idle()
    assert sorted(seen) == ([("kept", True), ("plain", None)] if gone else [])
    assert host.controllers["p/configmap"].status().errors == 0


@pytest.mark.behaviour("authoring/AU10")
def test_a_def_and_an_async_def_of_the_same_body_do_the_same(ctrlhost_host) -> None:
    contexts: list[object] = []
    ends: list[Any] = []

    def copy_of(obj: Object) -> dict[str, Any]:
        return config_map(f"{obj.name}-copy", data=obj["data"]["data"])

    def of_threads() -> Any:
        plugin = declared()

        @plugin.controller(For("v1/ConfigMap", label_selector="mine"))
        def reconcile(ctx: ctrlhost.Context, obj: Object) -> ctrlhost.Result | None:
            contexts.append(ctx)
            if not ctx.cache("v1/ConfigMap").list(label_selector="mine=no"):
                ctx.client.apply(copy_of(obj))
            return ctrlhost.Result(requeue_after=3600)

        return plugin, reconcile

    def of_a_loop() -> Any:
        plugin = declared()

        @plugin.controller(For("v1/ConfigMap", label_selector="mine"))
        async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> ctrlhost.Result | None:
            contexts.append(ctx)
            if not await ctx.cache("v1/ConfigMap").list(label_selector="mine=no"):
                await ctx.client.apply(copy_of(obj))
            return ctrlhost.Result(requeue_after=3600)

        return plugin, reconcile

    for make in (of_threads, of_a_loop):
        plugin, reconcile = make()
        host = ctrlhost_host(plugin)
        host.client.create(config_map("ann", labels={"mine": "yes"}, data="1"))
        host.run_until_idle()
        counts = host.controllers["p/configmap"].counts.total()
        copy = host.client.get("v1", "ConfigMap", "ann-copy", "default")
        ends.append((copy["data"], counts.runs, counts.requeue_after, counts.errors))
        assert reconcile.name == "configmap"

    assert ends[0] == ends[1] == ({"data": "1"}, 1, 1, 0)
    assert [type(context) for context in contexts] == [ctrlhost.Context, ctrlhost.AsyncContext]


@pytest.mark.behaviour("authoring/AU10")
def test_a_declared_function_is_still_a_function() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.controller(Map)
    def reconcile(ctx: ctrlhost.Context[Map], obj: Map) -> ctrlhost.Result | None:
        """Reconcile."""
        return ctrlhost.Result(requeue_after=float(obj.data["after"]))

    @plugin.controller(Map, name="other")
    async def other(ctx: ctrlhost.AsyncContext[Map], obj: Map) -> ctrlhost.Result | None:
        return ctrlhost.Result(requeue_after=float(obj.data["after"]))

    context: Any = object()
    obj = Map(ctrlhost.ObjectMeta(name="a"), {"after": "7"})
    assert reconcile(context, obj) == ctrlhost.Result(requeue_after=7.0)
    assert asyncio.run(other(context, obj)) == ctrlhost.Result(requeue_after=7.0)
    assert isinstance(reconcile, ctrlhost.Controller)
    assert reconcile.__name__ == "reconcile"
    assert reconcile.__doc__ == "Reconcile."
    assert reconcile.name == "configmap"
    assert other.name == "other"


def change(patch: dict[str, Any], subresource: str | None = None) -> Callable[[ctrlhost.Client], Any]:
    return lambda client: client.patch("batch/v1", "CronJob", "nightly", "default", patch, subresource=subresource)


@pytest.mark.behaviour("authoring/AU11")
def test_by_default_the_status_wakes_nobody(ctrlhost_host, sandbox: Sandbox) -> None:
    plugin, runs = declared(), {"usual": 0, "all": 0}

    @plugin.controller("batch/v1/CronJob")
    def usual(ctx: ctrlhost.Context, obj: Object) -> None:
        runs["usual"] += 1

    @plugin.controller("batch/v1/CronJob", name="all", predicates=[])
    def every_change(ctx: ctrlhost.Context, obj: Object) -> None:
        runs["all"] += 1

    host = ctrlhost_host(plugin, sandbox=sandbox)
    host.client.create(cron_job())
    host.run_until_idle()
    assert runs == {"usual": 1, "all": 1}
    status = change({"status": {"lastScheduleTime": "2026-01-01T03:00:00Z"}}, "status")
    others = [
        change({"metadata": {"labels": {"a": "1"}}}),
        change({"metadata": {"annotations": {"a": "1"}}}),
        change({"metadata": {"finalizers": ["example.com/keep"]}}),
        change({"spec": {"schedule": "0 4 * * *"}}),
    ]
    for number, act in enumerate(others, start=1):
        act(host.client)
        host.run_until_idle()
        assert runs == {"usual": 1 + number, "all": 1 + number}
    status(host.client)
    host.run_until_idle()
    assert runs == {"usual": 5, "all": 6}


@pytest.mark.behaviour("authoring/AU11")
def test_of_a_kind_without_generation_the_content_counts(ctrlhost_host) -> None:
    plugin, runs = declared(), []

    @plugin.controller(For("v1/ConfigMap", label_selector="mine"))
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        runs.append(obj.resource_version)

    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}, size="1"))
    host.run_until_idle()
    assert len(runs) == 1
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"size": "2"}})
    host.run_until_idle()
    assert len(runs) == 2


@pytest.mark.behaviour("authoring/AU12")
def test_own_writes_to_owned_objects_wake_nobody(ctrlhost_host) -> None:
    plugin, runs = declared(), []

    @plugin.controller(For("v1/ConfigMap", label_selector="mine"), owns=["v1/Secret"])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        runs.append(obj.name)
        data = {"size": "MQ==" if len(runs) == 1 else "Mg=="}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": obj.name}, "data": data}
        ctx.client.apply(secret, owner=ctx.object)
        assert [item.name for item in ctx.cache("v1/Secret").owned()] == [obj.name]

    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert len(runs) == 1
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"changed": "1"}})
    host.run_until_idle()
    assert len(runs) == 2
    assert host.client.get("v1", "Secret", "ann", "default")["data"] == {"size": "Mg=="}
    host.client.patch("v1", "Secret", "ann", "default", {"data": {"size": "Mw=="}})
    host.run_until_idle()
    assert len(runs) == 3
    assert host.controllers["p/configmap"].status().errors == 0


@pytest.mark.behaviour("authoring/AU12")
def test_all_own_writes_of_a_run_wake_nobody_and_foreign_changes_do(ctrlhost_host) -> None:
    plugin, runs = declared(), []

    def child(name: str, image: str) -> dict[str, Any]:
        labels = {"app": name}
        container = {"name": "one", "image": image, "env": [{"name": "A", "value": image}]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}

    @plugin.controller(
        For("v1/ConfigMap", label_selector="mine"), owns=[ctrlhost.Owns("apps/v1/Deployment", prune=True)]
    )
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        step = obj["data"]["step"]
        runs.append(step)
        if step == "make":
            for number in range(5):
                ctx.ensure(child("a", f"image:{number}"))
                ctx.ensure(child("b", "image"))
                ctx.ensure(child("c", "image"))
        elif step == "between" and len(runs) == 1:
            ctx.ensure(child("a", "image:5"))
            host.client.patch("apps/v1", "Deployment", "a", "default", {"metadata": {"labels": {"theirs": "1"}}})
            ctx.ensure(child("a", "image:6"))
        elif step == "delete":
            ctx.client.delete("apps/v1", "Deployment", "c", "default", propagation="Background")
            ctx.prune("apps/v1/Deployment", keep=["a"])

    def step(name: str) -> list[str]:
        runs.clear()
        host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"step": name}})
        host.run_until_idle()
        return runs

    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}, step="make"))
    host.run_until_idle()
    assert runs == ["make"]
    # The event of the second write may come by itself, and its answer has the foreign label.
    assert len(step("between")) in (2, 3)
    assert step("delete") == ["delete"]
    assert [obj["metadata"]["name"] for obj in host.client.list("apps/v1", "Deployment", "default")] == ["a"]
    assert step("rest") == ["rest"]
    host.client.patch("apps/v1", "Deployment", "a", "default", {"spec": {"replicas": 2}})
    host.run_until_idle()
    assert runs == ["rest"] * 2
    host.client.delete("apps/v1", "Deployment", "a", "default")
    host.run_until_idle()
    assert runs == ["rest"] * 3
    assert host.controllers["p/configmap"].status().errors == 0


@pytest.mark.behaviour("authoring/AU12")
def test_what_others_delete_before_its_own_creation_is_seen_wakes_the_controller(ctrlhost_host) -> None:
    plugin, runs = declared(), []

    @plugin.controller(For("v1/ConfigMap", label_selector="mine"), owns=["v1/Secret"])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        runs.append(obj.name)
        with host.faults.hold_watches():
            ctx.ensure({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}})
            if len(runs) == 1:
                host.client.delete("v1", "Secret", "key", "default")

    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert len(runs) > 1
    assert host.client.find("v1", "Secret", "key", "default") is not None


def test_the_constraints_of_a_struct_are_checked(ctrlhost_host) -> None:
    plugin, seen = declared(), []

    @ctrlhost.resource("v1/ConfigMap")
    class Short(msgspec.Struct):
        data: dict[str, Annotated[str, msgspec.Meta(max_length=3)]]

    @plugin.controller(For(Short, label_selector="mine"))
    def reconcile(ctx: ctrlhost.Context, obj: Short) -> None:
        seen.append(obj.data)

    host = ctrlhost_host(plugin)
    host.client.create(config_map("good", labels={"mine": "1"}, a="123"))
    host.client.create(config_map("bad", labels={"mine": "1"}, a="1234"))
    host.run_until_idle()
    assert seen == [{"a": "123"}]
    assert host.controllers["p/configmap"].status().errors == 1
