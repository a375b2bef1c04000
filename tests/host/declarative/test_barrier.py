"""When the workers and maps of a `ctrlhost.Plugin` start, and what its maps see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Caches, For, Object, Request, ServerError, Watches
from tests.support import objects
from tests.support.declared import declared
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

MINE = For("v1/ConfigMap", label_selector="mine")


def secret(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"of": "test"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def user(name: str, of: str) -> dict[str, Any]:
    return config_map(name, labels={"mine": "1"}, secret=of)


@pytest.mark.behaviour("authoring/AU13")
def test_a_controller_waits_for_each_of_its_kinds_and_others_do_not_wait(ctrlhost_host) -> None:
    plugin, runs, others, maps = declared(), [], [], []

    def of_gadget(gadget: Object) -> list[Request]:
        maps.append(gadget.name)
        return [Request("ann", "default")]

    @plugin.controller(MINE, watches=["v1/Secret", Watches("demo.test/v1/Gadget", map=of_gadget)])
    def waits(ctx: ctrlhost.Context, obj: Object) -> None:
        runs.append(obj.name)

    @plugin.controller(MINE, name="other")
    def other(ctx: ctrlhost.Context, obj: Object) -> None:
        others.append(obj.name)

    host = ctrlhost_host(plugin)
    host.client.create(user("ann", "one"))
    eventually(lambda: others == ["ann"])
    runtime = host.host.plugins[0]
    eventually(lambda: runtime.state == "waiting")
    assert "Gadget" in runtime.reason
    assert runs == []
    host.client.create(objects.crd("demo.test", "Gadget"))
    eventually(lambda: runs)
    gadget = {"apiVersion": "demo.test/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}}
    host.client.create(gadget)
    eventually(lambda: maps)
    eventually(lambda: runtime.state == "running")
    host.run_until_idle()
    assert set(runs) == {"ann"}
    assert set(maps) == {"g"}
    assert others == ["ann"]


@pytest.mark.behaviour("authoring/AU13")
def test_a_controller_whose_selector_the_server_refuses_holds_back_no_other(ctrlhost_host) -> None:
    plugin, others = declared(), []

    @plugin.controller(For("v1/Secret", field_selector="data.colour=red"))
    def refused(ctx: ctrlhost.Context, obj: Object) -> None: ...

    @plugin.controller(MINE)
    def other(ctx: ctrlhost.Context, obj: Object) -> None:
        others.append(obj.name)

    host = ctrlhost_host(plugin)
    host.client.create(user("ann", "one"))
    eventually(lambda: others == ["ann"])
    runtime = host.host.plugins[0]
    eventually(lambda: runtime.state == "waiting")
    assert runtime.reason == "Secret (v1): field label not supported: data.colour"


@pytest.mark.behaviour("authoring/AU14")
def test_no_worker_runs_before_synced_has_succeeded(ctrlhost_host) -> None:
    plugin, calls = declared(), []

    @plugin.synced
    def prepare(host: ctrlhost.PluginContext) -> None:
        calls.append("synced")
        if calls.count("synced") < 3:
            eventually(lambda: host.controllers[0].has_synced())
            raise RuntimeError(f"failure {len(calls)}")

    @plugin.controller(MINE)
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        calls.append(obj.name)

    host = ctrlhost_host(plugin, start=False, supervision={"p": {"restart_delay": 0.3}})
    host.client.create(user("ann", "one"))
    host.host.start()
    runtime = host.host.plugins[0]
    eventually(lambda: runtime.state == "failing")
    assert "failure" in runtime.reason
    assert "ann" not in calls
    eventually(lambda: "ann" in calls)
    eventually(lambda: runtime.state == "running")
    assert calls == ["synced", "synced", "synced", "ann"]
    assert runtime.restarted == {"error": 2}


@pytest.mark.behaviour("authoring/AU14")
def test_with_synced_all_controllers_wait_for_all_caches(ctrlhost_host) -> None:
    plugin, calls = declared(), []

    @plugin.synced
    def prepare(host: ctrlhost.PluginContext) -> None:
        calls.append("synced")

    @plugin.controller(MINE)
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        calls.append(obj.name)

    @plugin.controller("demo.test/v1/Gadget")
    def gadgets(ctx: ctrlhost.Context, obj: Object) -> None:
        calls.append(obj.name)

    host = ctrlhost_host(plugin)
    host.client.create(user("ann", "one"))
    runtime = host.host.plugins[0]
    eventually(lambda: runtime.state == "waiting")
    eventually(lambda: len(host.controllers["p/configmap"].queue) == 1)
    assert calls == []
    host.client.create(objects.crd("demo.test", "Gadget"))
    eventually(lambda: calls == ["synced", "ann"])


@pytest.mark.behaviour("authoring/AU15")
@pytest.mark.parametrize("late", ["secrets", "configmaps"])
def test_a_map_sees_full_caches_in_whatever_order_they_fill(ctrlhost_host, sandbox: Sandbox, late: str) -> None:
    plugin, seen, runs = declared(), [], []

    def users_of(secret: Object, caches: Caches) -> list[Request]:
        users = caches["v1/ConfigMap"].list()
        seen.append((secret.name, secret.get_path("data", "version"), len(users)))
        return [Request(user.name, user.namespace) for user in users if user["data"]["secret"] == secret.name]

    @plugin.controller(MINE, watches=[Watches("v1/Secret", map=users_of, label_selector="of=test")])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        runs.append(obj.name)

    host = ctrlhost_host(plugin, sandbox=sandbox, start=False)
    for name in ("one", "two", "three"):
        host.client.create(secret(name))
        host.client.create(user(f"user-of-{name}", name))
    for verb in ("list", "watch"):
        host.faults.next(verb, ServerError("late"), resource=late)
    host.start()
    host.run_until_idle()
    assert sorted(seen) == [("one", None, 3), ("three", None, 3), ("two", None, 3)]
    assert set(runs) == {"user-of-one", "user-of-two", "user-of-three"}
    seen.clear()
    runs.clear()
    # Asked for old and new, which cause one request.
    host.client.patch("v1", "Secret", "two", "default", {"stringData": {"version": "2"}})
    host.run_until_idle()
    assert seen == [("two", None, 3), ("two", "Mg==", 3)]
    assert runs == ["user-of-two"]
    seen.clear()
    host.client.delete("v1", "Secret", "two", "default")
    host.run_until_idle()
    assert seen == [("two", "Mg==", 3)]
    assert runs == ["user-of-two"] * 2


@pytest.mark.behaviour("authoring/AU16")
def test_a_map_that_reads_an_undeclared_kind_is_told_the_line_to_add(ctrlhost_host, caplog) -> None:
    plugin = declared()

    def users_of(secret: Object, caches: Caches) -> list[Request]:
        caches["v1/Service"].list()
        return []

    @plugin.controller(MINE, watches=[Watches("v1/Secret", map=users_of, label_selector="of=test")])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        pass

    host = ctrlhost_host(plugin)
    host.client.create(secret("one"))
    host.run_until_idle()
    (handle,) = [
        handle
        for _, handle in host.controllers["p/configmap"].uses
        if handle and any(metric.use == "map" for metric in handle.callback_metrics)
    ]
    (metrics,) = handle.callback_metrics
    assert metrics.name.endswith("users_of")
    assert metrics.counts.errors == 1
    assert "UndeclaredRead" in caplog.text
    assert 'add `ctrlhost.Watches("v1/Service")` to `watches=[…]`' in caplog.text


def test_a_map_gets_structs_where_the_kind_is_one(ctrlhost_host) -> None:
    plugin, seen, runs = declared(), [], []

    @ctrlhost.resource("v1/Secret")
    class Keys(msgspec.Struct):
        metadata: ctrlhost.ObjectMeta
        data: dict[str, str] = {}

    def of_keys(keys: Keys) -> list[Request]:
        seen.append(keys)
        return [Request(keys.metadata.name, keys.metadata.namespace)]

    @plugin.controller(MINE, watches=[Watches(Keys, map=of_keys, label_selector="of=test")])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        runs.append((obj.name, [keyring.data for keyring in ctx.cache(Keys).list()]))

    host = ctrlhost_host(plugin)
    host.client.create(secret("one", a="1"))
    host.client.create(user("one", "one"))
    host.run_until_idle()
    assert {type(obj) for obj in seen} == {Keys}
    assert runs[-1] == ("one", [{"a": "MQ=="}])
