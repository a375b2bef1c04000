"""What `ctx.ensure` and `ctx.prune` take for their own, and what they leave to others."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import NotOwned
from ctrlhost.testing import ManualClock
from tests.support.memcached import Cache, Memcached, new_plugin
from tests.support.operators import (
    ANNOTATION,
    Requests,
    controlled,
    deployment,
    errors,
    mine,
    operator,
    reasons,
    run_again,
    stored,
)
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

CONFIG_MAP, DEPLOYMENT = ("v1", "ConfigMap"), ("apps/v1", "Deployment")


class Wanted:
    """A reconciler that ensures one object, and records the errors."""

    def __init__(self, wanted: Any, **options: Any) -> None:
        self.wanted, self.options = wanted, options
        self.errors: list[Exception] = []

    def __call__(self, ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        try:
            ctx.ensure(self.wanted, **self.options)
        except Exception as error:
            self.errors.append(error)
            raise


@pytest.mark.behaviour("findings3/NC20")
def test_an_annotation_by_hand_makes_nothing_the_plugins(ctrlhost_host, manual_clock: ManualClock) -> None:
    wanted = Wanted(deployment(), owner=None)
    host = ctrlhost_host(operator(wanted), clock=manual_clock)
    theirs = deployment(replicas=1)
    theirs["metadata"]["annotations"] = {ANNOTATION: "0123456789abcdef"}
    host.client.create(theirs)
    host.client.create(mine())
    host.run_until_idle()
    (error,) = wanted.errors
    assert isinstance(error, NotOwned)
    assert error.message == (
        f"Deployment default/cache has the annotation {ANNOTATION}, but ctrlhost-memcached has never applied it"
    )
    assert "adopt=True" in (error.hint or "")
    assert stored(host)["spec"]["replicas"] == 1
    wanted.options["adopt"] = True
    run_again(host)
    assert stored(host)["spec"]["replicas"] == 2
    # From now on it is the plugin's.
    wanted.options["adopt"], wanted.wanted = False, deployment(replicas=3)
    run_again(host)
    assert stored(host)["spec"]["replicas"] == 3
    assert errors(host) == 0


@pytest.mark.behaviour("findings3/NC11")
def test_an_owner_reference_does_not_cross_namespaces(ctrlhost_host) -> None:
    seen: list[list[str]] = []
    pruned: list[Any] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        seen.append(sorted(child.key for child in ctx.cache("v1/Secret").owned()))
        if "prune" in obj.get("data", {}):
            pruned.extend(ctx.prune("v1/Secret"))

    with Sandbox(controllers=()) as sandbox:
        host = ctrlhost_host(operator(reconcile, ctrlhost.Owns("v1/Secret", prune=True)), sandbox=sandbox)
        owner = host.client.create(mine())
        for namespace in ("default", "kube-public"):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "child", "namespace": namespace}}
            host.client.create(controlled(secret, owner))
        host.run_until_idle()
        run_again(host)
        assert seen[-1] == ["default/child"]
        host.client.patch("v1", "ConfigMap", "cache", "default", {"data": {"prune": "1"}})
        host.run_until_idle()
        assert pruned == [ctrlhost.Request("child", "default")]
        assert host.client.find("v1", "Secret", "child", "kube-public") is not None
        assert errors(host) == 0


@pytest.mark.behaviour("findings3/NC11")
def test_an_async_run_takes_nothing_of_other_namespaces_either(ctrlhost_host) -> None:
    seen: list[list[str]] = []

    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        seen.append(sorted(child.key for child in await ctx.cache("v1/Secret").owned()))

    with Sandbox(controllers=()) as sandbox:
        host = ctrlhost_host(operator(reconcile, "v1/Secret"), sandbox=sandbox)
        owner = host.client.create(mine())
        for namespace in ("default", "kube-public"):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "child", "namespace": namespace}}
            host.client.create(controlled(secret, owner))
        host.run_until_idle()
        run_again(host)
        assert seen[-1] == ["default/child"]


@pytest.mark.behaviour("findings3/NA31")
@pytest.mark.parametrize("owned", [True, False], ids=["owner", "no owner"])
def test_a_function_decides_what_is_adopted(ctrlhost_host, manual_clock: ManualClock, owned: bool) -> None:
    objects: list[ctrlhost.Object] = []

    def is_ours(live: ctrlhost.Object) -> bool:
        objects.append(live)
        return live.labels.get("made-by") == "us"

    options: dict[str, Any] = {"adopt": is_ours} if owned else {"adopt": is_ours, "owner": None}
    wanted = Wanted(deployment(), **options)
    host = ctrlhost_host(operator(wanted), clock=manual_clock)
    host.client.create(deployment(replicas=1))
    host.client.create(mine())
    host.run_until_idle()
    assert [type(error) for error in wanted.errors] == [NotOwned]
    assert [live.name for live in objects] == ["cache"]
    host.client.patch(*DEPLOYMENT, "cache", "default", {"metadata": {"labels": {"made-by": "us"}}})
    # Its events wake nobody, so that the cache may be behind.
    eventually(lambda: run_again(host) or stored(host)["spec"]["replicas"] == 2)
    live = stored(host)
    assert bool(live["metadata"].get("ownerReferences")) is owned
    # What is owned is not asked about.
    count = len(objects)
    run_again(host)
    assert len(objects) == (count if owned else count + 1)


@pytest.mark.behaviour("findings3/NC19")
def test_two_versions_of_a_plugin_do_not_write_in_turns(ctrlhost_host, manual_clock: ManualClock) -> None:
    """Two hosts without leader election."""
    with Sandbox() as sandbox:
        first, second = Wanted(deployment(replicas=1)), Wanted(deployment(replicas=2))
        options = {"sandbox": sandbox, "clock": manual_clock}
        host = ctrlhost_host(operator(first, needs_leader=False), **options)
        requests = Requests(host)
        host.client.create(mine())
        host.run_until_idle()
        other = ctrlhost_host(operator(second, needs_leader=False), **options)
        others = Requests(other)

        def settle() -> list[str]:
            for _ in range(3):
                host.run_until_idle()
                other.run_until_idle()
            return [request for request in (*requests.new(), *others.new()) if request.startswith("apply")]

        settle()
        assert [type(error) for error in first.errors] == [NotOwned]
        error = first.errors[0]
        assert str(error) == ("Deployment default/cache is applied otherwise by another version of plugin memcached")
        assert "leader election" in (getattr(error, "hint", "") or "")
        for _ in range(3):
            manual_clock.advance(30)
            assert len(settle()) <= 2
        assert errors(host) == errors(other) == 0
        # A change of what is wanted is applied at once, and so is what somebody edits.
        other.stop()
        manual_clock.advance(61)
        host.run_until_idle()
        first.wanted = deployment(replicas=5)
        run_again(host)
        assert stored(host)["spec"]["replicas"] == 5
        host.client.patch(*DEPLOYMENT, "cache", "default", {"spec": {"replicas": 7}})
        host.run_until_idle()
        assert stored(host)["spec"]["replicas"] == 5


@pytest.mark.behaviour("findings3/NA33")
def test_copies_in_namespaces_are_kept_by_their_keys(ctrlhost_host) -> None:
    keep: list[Any] = []
    pruned: list[Any] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        if keep:
            pruned.extend(ctx.prune("v1/ConfigMap", keep=keep))

    source = ctrlhost.For("v1/Namespace", label_selector="mine")
    host = ctrlhost_host(operator(reconcile, ctrlhost.Owns("v1/ConfigMap", prune=True), kind=source))
    metadata = {"name": "owner", "labels": {"mine": "1"}}
    owner = host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for name in ("a", "b", "c"):
        for namespace in ("default", "kube-public"):
            host.client.create(controlled(config_map(name, namespace), owner))
    host.run_until_idle()
    keep[:] = ["default/a", config_map("b", "kube-public"), "c"]
    run_again(host, "owner", namespace="")
    assert pruned == [ctrlhost.Request("b", "default"), ctrlhost.Request("a", "kube-public")]
    listed = [(copy.namespace, copy.name) for copy in host.list("v1/ConfigMap", everywhere=True) if len(copy.name) == 1]
    assert sorted(listed) == [
        ("default", "a"),
        ("default", "c"),
        ("kube-public", "b"),
        ("kube-public", "c"),
    ]


@pytest.mark.behaviour("findings3/NA8")
@pytest.mark.parametrize("kind", ["mapping", "secret"])
def test_an_unmanaged_value_is_set_once(ctrlhost_host, kind: str) -> None:
    count = iter(range(2, 100))

    def wanted() -> dict[str, Any]:
        if kind == "secret":
            password = ctrlhost.unmanaged(f"password{next(count)}")
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cache"}}
            return {**secret, "stringData": {"password": password, "user": "ann"}}
        return deployment(replicas=ctrlhost.unmanaged(next(count)))

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.ensure(wanted() | extra)

    extra: dict[str, Any] = {}
    of_kind = ("v1", "Secret") if kind == "secret" else DEPLOYMENT
    host = ctrlhost_host(operator(reconcile, "/".join(of_kind)))
    requests = Requests(host)

    def value() -> Any:
        live = stored(host, "cache", of_kind)
        return live["data"]["password"] if kind == "secret" else live["spec"]["replicas"]

    host.client.create(mine())
    host.run_until_idle()
    assert len(requests.new()) == 4
    first = value()
    assert first == ("cGFzc3dvcmQy" if kind == "secret" else 2)
    assert reasons(host) == [("Created", f"created {of_kind[1]} default/cache", 1)]
    run_again(host)
    assert requests.new() == []
    # Somebody takes it over, and keeps it when the plugin changes something else.
    field = {"data": {"password": "bmV3"}} if kind == "secret" else {"spec": {"replicas": 9}}
    host.client.patch(*of_kind, "cache", "default", field)
    extra["metadata"] = {"name": "cache", "labels": {"a": "b"}}
    run_again(host)
    assert value() == ("bmV3" if kind == "secret" else 9)
    assert stored(host, "cache", of_kind)["metadata"]["labels"] == {"a": "b"}
    entry = next(
        entry
        for entry in stored(host, "cache", of_kind)["metadata"]["managedFields"]
        if (entry["manager"], entry["operation"]) == ("ctrlhost-memcached", "Apply")
    )
    assert ("f:password" if kind == "secret" else "f:replicas") not in str(entry)
    assert errors(host) == 0


@pytest.mark.behaviour("findings3/NA8")
def test_a_field_that_was_managed_is_handed_over_with_its_value(ctrlhost_host) -> None:
    wanted = Wanted(deployment(replicas=3))
    host = ctrlhost_host(operator(wanted))
    host.client.create(mine())
    host.run_until_idle()
    wanted.wanted = deployment(replicas=ctrlhost.unmanaged(1))
    run_again(host)
    assert stored(host)["spec"]["replicas"] == 3
    # Without the mark, the field that nobody owns any more stays; one that the plugin owns goes.
    wanted.wanted = deployment()
    run_again(host)
    assert stored(host)["spec"]["replicas"] == 2
    del wanted.wanted["spec"]["replicas"]
    run_again(host)
    assert stored(host)["spec"]["replicas"] == 1
    assert (wanted.errors, errors(host)) == ([], 0)


@pytest.mark.behaviour("findings3/NA8")
def test_a_creation_that_was_cut_off_goes_on(ctrlhost_host) -> None:
    wanted = Wanted(deployment(replicas=ctrlhost.unmanaged(4)))
    host = ctrlhost_host(operator(wanted))
    host.faults.next("patch", ctrlhost.TransportError("cut"), resource="deployments")
    host.client.create(mine())
    host.run_until_idle()
    eventually(lambda: stored(host)["metadata"]["annotations"][ANNOTATION] != "begun")
    assert len(wanted.errors) == 1
    live = stored(host)
    assert live["spec"]["replicas"] == 4
    assert "f:replicas" not in str(live["metadata"]["managedFields"])


@pytest.mark.behaviour("findings3/NA8")
@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"args": ctrlhost.unmanaged(["a"])}, None),
        ({"args": [ctrlhost.unmanaged("a")]}, "an item of a list cannot be unmanaged as a whole; wrap fields of it"),
        (
            {"envFrom": [{"prefix": ctrlhost.unmanaged("a"), "secretRef": {"name": "s"}}]},
            "spec.template.spec.containers[0].envFrom is replaced as a whole: no part of it can be unmanaged",
        ),
    ],
    ids=["list", "item", "atomic"],
)
def test_values_within_lists(ctrlhost_host, manual_clock: ManualClock, container: Any, text: str | None) -> None:
    wanted = Wanted(deployment())
    wanted.wanted["spec"]["template"]["spec"]["containers"][0] |= container
    host = ctrlhost_host(operator(wanted), clock=manual_clock)
    host.client.create(mine())
    host.run_until_idle()
    if text is None:
        assert wanted.errors == []
        live = stored(host)
        assert live["spec"]["template"]["spec"]["containers"][0]["args"] == ["a"]
        assert "f:args" not in str(live["metadata"]["managedFields"])
    else:
        assert isinstance(wanted.errors[0], ValueError)
        assert text in str(wanted.errors[0])


@pytest.mark.behaviour("findings3/NA6")
def test_a_conflict_shows_on_the_object_and_on_the_plugin(
    ctrlhost_host, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = new_plugin("memcached.yaml")

    @plugin.controller(Memcached, owns=["apps/v1/Deployment"])
    def reconcile(ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        ctx.ensure(deployment())

    host = ctrlhost_host(plugin, clock=manual_clock)
    other = host.client.create(config_map("other"))
    host.client.create(controlled(deployment(), other))
    cache = Cache(host)
    cache.create()
    text = "Deployment default/cache is controlled by ConfigMap other"
    (condition,) = cache.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("OwnershipConflict", "True", "NotOwned")
    assert condition["message"] == text
    (line,) = [record for record in caplog.records if "does not own" in record.getMessage()]
    assert (line.levelname, text in line.getMessage()) == ("WARNING", True)
    entries = host.host.plugins[0].entries
    host.wait_for(lambda: entries.degraded.get("ownership") == text)
    host.client.delete(*DEPLOYMENT, "cache", "default")
    host.run_until_idle()
    manual_clock.advance(60)
    host.run_until_idle()
    (condition,) = cache.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("OwnershipConflict", "False", "Owned")
    manual_clock.advance(31)
    host.wait_for(lambda: "ownership" not in entries.degraded)


@pytest.mark.behaviour("findings3/NA20")
def test_each_change_of_a_child_is_one_line_of_the_log(ctrlhost_host, caplog: pytest.LogCaptureFixture) -> None:
    """With the level of `dev`, and of any host by default."""

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        for wanted in objects:
            ctx.ensure(wanted, adopt=True)
        ctx.prune("apps/v1/Deployment", keep=objects)

    def lines() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.name == "ctrlhost.plugin.memcached"]
        caplog.clear()
        return messages

    objects = [deployment()]
    caplog.set_level("INFO")
    host = ctrlhost_host(operator(reconcile, ctrlhost.Owns("apps/v1/Deployment", prune=True)))
    host.client.create(deployment("other"))
    host.client.create(mine())
    host.run_until_idle()
    assert lines() == ["created Deployment default/cache"]
    host.client.patch(*DEPLOYMENT, "cache", "default", {"spec": {"replicas": 7}})
    host.run_until_idle()
    assert lines() == ["repaired Deployment default/cache: spec.replicas"]
    objects[:] = [deployment(replicas=3)]
    run_again(host)
    assert lines() == ["updated Deployment default/cache: spec.replicas"]
    objects[:] = [deployment("other")]
    run_again(host)
    assert lines() == ["adopted Deployment default/other", "deleted Deployment default/cache"]
