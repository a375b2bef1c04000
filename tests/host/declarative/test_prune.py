"""`ctx.prune` of a controller in a host on the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Conflict, PluginError, Request, UndeclaredRead
from ctrlhost.client import async_client
from ctrlhost.own_writes import lister
from ctrlhost.testing import ManualClock
from tests.support.operators import MINE, Requests, controlled, errors, mine, operator, reasons, run_again, stored
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

CONFIG_MAP = ("v1", "ConfigMap")
PRUNED = ctrlhost.Owns("v1/ConfigMap", prune=True)


class Pruning:
    """A reconciler that prunes ConfigMaps as the test wants it, and records the results and errors."""

    def __init__(self, *keep: Any, kind: Any = "v1/ConfigMap") -> None:
        self.keep, self.kind = list(keep), kind
        self.pruned: list[list[Request]] = []
        self.errors: list[Exception] = []

    def __call__(self, ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        try:
            self.pruned.append(ctx.prune(self.kind, keep=self.keep))
        except Exception as error:
            self.errors.append(error)
            raise


def names(host: Any) -> list[str]:
    all_names = (obj["metadata"]["name"] for obj in host.client.list(*CONFIG_MAP, "default"))
    return sorted(name for name in all_names if name != "kube-root-ca.crt")


def create_children(host: Any, owner: dict[str, Any], *children: str) -> None:
    for name in children:
        host.client.create(controlled(config_map(name), owner))


@pytest.mark.behaviour("authoring/AC18")
@pytest.mark.parametrize(
    "keep",
    ["b", config_map("b"), {"metadata": {"name": "b"}}, ctrlhost.Object(config_map("b"))],
    ids=["name", "mapping", "metadata", "object"],
)
def test_children_that_are_not_kept_are_deleted(ctrlhost_host, keep: Any) -> None:
    reconcile = Pruning("a", "b", "c")
    host = ctrlhost_host(operator(reconcile, PRUNED))
    owner, other = host.client.create(mine()), host.client.create(config_map("other"))
    create_children(host, owner, "a", "b", "c")
    create_children(host, other, "foreign")
    host.client.create(config_map("free"))
    host.run_until_idle()
    assert not any(reconcile.pruned)
    requests = Requests(host)
    reconcile.keep, before = [keep], {name: stored(host, name, CONFIG_MAP) for name in ("a", "c")}
    run_again(host)
    assert [pruned for pruned in reconcile.pruned if pruned] == [[Request("a", "default"), Request("c", "default")]]
    assert names(host) == ["b", "cache", "foreign", "free", "other"]
    assert requests.new() == ["delete configmaps a", "delete configmaps c"]
    sent = [json.loads(record.body) for record in host.sandbox.audit if record.verb == "delete"]
    assert [(options["preconditions"], options["propagationPolicy"]) for options in sent] == [
        ({part: before[name]["metadata"][part] for part in ("uid", "resourceVersion")}, "Background")
        for name in ("a", "c")
    ]
    assert reasons(host) == [
        ("Pruned", "deleted ConfigMap default/a", 1),
        ("Pruned", "deleted ConfigMap default/c", 1),
    ]


@pytest.mark.behaviour("authoring/AC18")
def test_a_child_that_changes_meanwhile_is_looked_at_again(ctrlhost_host) -> None:
    reconcile = Pruning()
    host = ctrlhost_host(operator(reconcile, PRUNED))
    owner = host.client.create(mine())
    host.run_until_idle()
    other = host.client.create(config_map("other"))
    requests = Requests(host)

    def given_away() -> None:
        # Another owner takes the child between the list and the delete.
        host.client.replace(controlled(config_map("a"), other))

    requests.before["delete configmaps"] = given_away
    create_children(host, owner, "a", "b")
    host.run_until_idle()
    assert Conflict in [type(error) for error in reconcile.errors]
    assert names(host) == ["a", "cache", "other"]
    assert stored(host, "a", CONFIG_MAP)["metadata"]["ownerReferences"][0]["name"] == "other"
    assert reasons(host) == [("Pruned", "deleted ConfigMap default/b", 1)]


@pytest.mark.behaviour("authoring/AC18")
def test_what_somebody_else_controls_or_deletes_is_left_alone(ctrlhost_host) -> None:
    reconcile = Pruning("a", "held", "shared")
    host = ctrlhost_host(operator(reconcile, PRUNED))
    owner, other = host.client.create(mine()), host.client.create(config_map("other"))
    create_children(host, owner, "a", "held")
    shared = controlled(config_map("shared"), other)
    references = shared["metadata"]["ownerReferences"]
    mine_too = {**references[0], "name": "cache", "uid": owner["metadata"]["uid"], "controller": False}
    host.client.create({**shared, "metadata": {**shared["metadata"], "ownerReferences": [*references, mine_too]}})
    host.client.patch(*CONFIG_MAP, "held", "default", {"metadata": {"finalizers": ["example.com/hold"]}})
    host.client.delete(*CONFIG_MAP, "held", "default")
    host.run_until_idle()
    requests = Requests(host)
    # Somebody else deletes it between the list and the delete.
    requests.before["delete configmaps"] = lambda: host.client.delete(*CONFIG_MAP, "a", "default")
    reconcile.keep = []
    run_again(host)
    assert requests.new() == ["delete configmaps a"]
    assert names(host) == ["cache", "held", "other", "shared"]
    assert (reconcile.errors, any(reconcile.pruned), reasons(host)) == ([], False, [])


def test_objects_of_a_cluster_scoped_owner_are_kept_by_namespace(ctrlhost_host) -> None:
    reconcile = Pruning("a", "b")
    source = ctrlhost.For("v1/Namespace", label_selector="mine")
    host = ctrlhost_host(operator(reconcile, PRUNED, kind=source))
    owner = host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "owner", "labels": MINE}})
    children = [("a", "default"), ("a", "kube-public"), ("b", "default"), ("b", "kube-public")]
    for name, namespace in children:
        host.client.create(controlled(config_map(name, namespace), owner))
    host.run_until_idle()
    reconcile.keep = [config_map("a", "default"), "b"]
    run_again(host, "owner", namespace="")
    assert [pruned for pruned in reconcile.pruned if pruned] == [[Request("a", "kube-public")]]


def test_the_own_writes_of_the_run_are_seen(ctrlhost_host) -> None:
    pruned: list[list[Request]] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        for name in ("a", "b"):
            ctx.ensure(config_map(name))
        pruned.append(ctx.prune("v1/ConfigMap", keep=["a"]))

    host = ctrlhost_host(operator(reconcile, PRUNED))
    host.client.create(mine())
    host.run_until_idle()
    assert pruned[0] == [Request("b", "default")]
    assert names(host) == ["a", "cache"]


def test_a_cache_that_does_not_catch_up_is_stale(ctrlhost_host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister, "WAIT_SECONDS", 0.05)
    raised: list[Exception] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        if raised:
            return
        with host.faults.hold_watches():
            ctx.ensure(config_map("a"))
            try:
                ctx.prune("v1/ConfigMap")
            except ctrlhost.Stale as error:
                raised.append(error)

    host = ctrlhost_host(operator(reconcile, PRUNED))
    host.client.create(mine())
    host.run_until_idle()
    assert len(raised) == 1
    assert names(host) == ["a", "cache"]


def test_an_async_run_waits_for_its_own_writes(ctrlhost_host) -> None:
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        with host.faults.hold_watches():
            await ctx.ensure(config_map("a"))
            pruning = asyncio.ensure_future(ctx.prune("v1/ConfigMap"))
            await asyncio.sleep(0)
        pruned.append(await pruning)

    pruned: list[list[Request]] = []
    host = ctrlhost_host(operator(reconcile, PRUNED))
    host.client.create(mine())
    host.run_until_idle()
    assert pruned[0] == [Request("a", "default")]
    assert errors(host) == 0


def test_an_async_run_prunes(ctrlhost_host) -> None:
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        for name in ("a", "b"):
            await ctx.ensure(config_map(name))
        await ctx.prune("v1/ConfigMap", keep=["a"])

    host = ctrlhost_host(operator(reconcile, PRUNED))
    host.client.create(mine())
    host.run_until_idle()
    assert names(host) == ["a", "cache"]
    assert errors(host) == 0


@pytest.mark.behaviour("authoring/AC19")
@pytest.mark.parametrize(
    ("kind", "error", "hint"),
    [
        ("v1/ConfigMap", PluginError, 'owns=[ctrlhost.Owns("v1/ConfigMap", prune=True)]'),
        ("v1/Secret", UndeclaredRead, 'owns=["v1/Secret"]'),
    ],
)
def test_a_kind_that_is_not_to_be_pruned_is_refused(
    ctrlhost_host, manual_clock: ManualClock, kind: str, error: type[Exception], hint: str
) -> None:
    reconcile = Pruning(kind=kind)
    host = ctrlhost_host(operator(reconcile, "v1/ConfigMap"), clock=manual_clock)
    requests = Requests(host)
    create_children(host, host.client.create(mine()), "a")
    host.run_until_idle()
    raised = reconcile.errors[0]
    assert type(raised) is error
    assert isinstance(raised, PluginError)
    assert hint in (raised.hint or "")
    assert requests.new() == []
    assert names(host) == ["a", "cache"]


@pytest.mark.parametrize(
    ("keep", "error"),
    [
        ("a", TypeError),
        (config_map("a"), TypeError),
        ([{"metadata": {}}], ValueError),
        ([Request("a", "default")], TypeError),
    ],
)
def test_what_names_nothing_to_keep_is_refused(
    ctrlhost_host, manual_clock: ManualClock, keep: Any, error: type[Exception]
) -> None:
    reconcile = Pruning()
    reconcile.keep = keep
    host = ctrlhost_host(operator(reconcile, PRUNED), clock=manual_clock)
    create_children(host, host.client.create(mine()), "a")
    host.run_until_idle()
    assert type(reconcile.errors[0]) is error
    assert names(host) == ["a", "cache"]


def test_an_object_of_another_group_keeps_nothing(ctrlhost_host) -> None:
    reconcile = Pruning("a")
    host = ctrlhost_host(operator(reconcile, PRUNED))
    owner = host.client.create(mine())
    create_children(host, owner, "a")
    host.run_until_idle()
    reconcile.keep = [{**config_map("a"), "apiVersion": "other.example.com/v1"}]
    run_again(host)
    assert names(host) == ["cache"]


def test_a_cancelled_prune_deletes_nothing_more(ctrlhost_host) -> None:
    """The request that was sent goes to its end; the next one would be beside the next run of the key."""

    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        if not pruned:
            return
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(ctx.prune("v1/ConfigMap"))
        requests.before["delete configmaps"] = lambda: loop.call_soon_threadsafe(task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        pruned.append(task.cancelled())

    pruned: list[bool] = []
    host = ctrlhost_host(operator(reconcile, PRUNED))
    requests = Requests(host)
    create_children(host, host.client.create(mine()), "a", "b", "c")
    host.run_until_idle()
    pruned.append(False)
    requests.new()
    run_again(host)
    eventually(lambda: not async_client._continuing)
    assert pruned == [False, True]
    assert requests.new() == ["delete configmaps a"]
    assert names(host) == ["b", "c", "cache"]
