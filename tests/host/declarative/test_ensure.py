"""`ctx.ensure` of a controller in a host on the sandbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Invalid, NotOwned, PluginError, UndeclaredRead
from ctrlhost.client import async_client
from ctrlhost.declarative.child import Child
from ctrlhost.own_writes import lister
from ctrlhost.testing import ManualClock
from tests.support.operators import (
    ANNOTATION,
    MINE,
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


class Wanted:
    """A reconciler that ensures what the test wants at the time, and records the result or the error."""

    def __init__(self, *wanted: Any, **options: Any) -> None:
        self.wanted, self.options = list(wanted) or [deployment()], options
        self.results: list[Any] = []
        self.errors: list[Exception] = []
        self.runs = 0

    def __call__(self, ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        self.runs += 1
        for child in self.wanted:
            try:
                self.results.append(ctx.ensure(child, **self.options))
            except Exception as error:
                self.errors.append(error)
                raise


@pytest.mark.behaviour("authoring/AC1")
def test_an_absent_object_is_looked_for_and_applied(ctrlhost_host) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted))
    requests = Requests(host)
    owner = host.client.create(mine())
    host.run_until_idle()
    assert requests.new() == ["get deployments cache", "apply deployments cache"]
    obj = stored(host)
    assert obj["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "cache",
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert len(obj["metadata"]["annotations"][ANNOTATION]) == 16
    applied = [entry["manager"] for entry in obj["metadata"]["managedFields"] if entry["operation"] == "Apply"]
    assert applied == ["ctrlhost-memcached"]
    assert reasons(host) == [("Created", "created Deployment default/cache", 1)]
    assert wanted.results[0].uid == obj["metadata"]["uid"]
    assert errors(host) == 0


@pytest.mark.behaviour("authoring/AC2")
def test_an_unchanged_object_causes_no_request_and_no_write_after_a_restart(ctrlhost_host) -> None:
    with Sandbox() as sandbox:
        host = ctrlhost_host(operator(Wanted()), sandbox=sandbox)
        host.client.create(mine())
        host.run_until_idle()
        requests = Requests(host)
        for _ in range(10):
            run_again(host)
        assert requests.new() == []
        version = stored(host)["metadata"]["resourceVersion"]
        host.stop()
        again, requests = restarted(ctrlhost_host, sandbox)
        assert requests.new() == []
        assert stored(again)["metadata"]["resourceVersion"] == version
        assert [reason for reason, _, _ in reasons(again)] == ["Created"]


def restarted(ctrlhost_host: Any, sandbox: Sandbox, *wanted: Any) -> tuple[Any, Requests]:
    """Start a new host whose reconciler has run, and return its requests."""
    reconciler = Wanted(*wanted)
    host = ctrlhost_host(operator(reconciler), sandbox=sandbox, start=False)
    requests = Requests(host)
    host.start().run_until_idle()
    assert reconciler.runs > 0
    return host, requests


@pytest.mark.behaviour("authoring/AC3")
def test_what_the_server_writes_in_another_form_is_not_applied_again(ctrlhost_host) -> None:
    wanted = deployment(strategy=None)
    pod = wanted["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"cpu": "1000m", "memory": 80}}
    pod |= {"nodeSelector": {}, "priorityClassName": None}
    with Sandbox() as sandbox:
        host = ctrlhost_host(operator(Wanted(wanted)), sandbox=sandbox)
        host.client.create(mine())
        host.run_until_idle()
        live = stored(host)["spec"]
        assert live["strategy"]["type"] == "RollingUpdate"
        assert live["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1", "memory": "80"}}
        assert "nodeSelector" not in live["template"]["spec"]
        run_again(host)
        host.stop()
        # A new host remembers nothing.
        again, requests = restarted(ctrlhost_host, sandbox, wanted)
        assert requests.new() == []
        assert [reason for reason, _, _ in reasons(again)] == ["Created"]


@pytest.mark.behaviour("authoring/AC4")
def test_a_changed_desired_object_is_applied_once(ctrlhost_host) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted))
    host.client.create(mine())
    host.run_until_idle()
    requests = Requests(host)
    wanted.wanted = [deployment(replicas=3)]
    for _ in range(3):
        run_again(host)
    assert requests.new() == ["apply deployments cache"]
    assert stored(host)["spec"]["replicas"] == 3
    assert reasons(host) == [
        ("Created", "created Deployment default/cache", 1),
        ("Updated", "updated Deployment default/cache: spec.replicas", 1),
    ]


@pytest.mark.behaviour("authoring/AC5")
def test_a_foreign_change_is_repaired_and_foreign_fields_stay(ctrlhost_host) -> None:
    host = ctrlhost_host(operator(Wanted()))
    host.client.create(mine())
    host.run_until_idle()
    requests = Requests(host)
    change = {"metadata": {"labels": {"team": "a"}}, "spec": {"replicas": 5, "minReadySeconds": 7}}
    host.client.patch("apps/v1", "Deployment", "cache", "default", change)
    host.run_until_idle()
    assert requests.new() == ["apply deployments cache"]
    live = stored(host)
    assert live["spec"]["replicas"] == 2
    assert (live["spec"]["minReadySeconds"], live["metadata"]["labels"]) == (7, {"team": "a"})
    assert reasons(host)[1:] == [("Repaired", "repaired Deployment default/cache: spec.replicas", 1)]


@pytest.mark.behaviour("authoring/AC6")
@pytest.mark.parametrize("restart", [False, True], ids=["next-run", "after-a-restart"])
def test_what_is_no_longer_desired_goes(ctrlhost_host, restart: bool) -> None:
    full, less = deployment(), deployment()
    container = full["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [*container["env"], {"name": "B", "value": "2"}]
    wanted = Wanted(full)
    with Sandbox() as sandbox:
        host = ctrlhost_host(operator(wanted), sandbox=sandbox)
        host.client.create(mine())
        host.run_until_idle()
        other = deployment()
        other["metadata"]["namespace"] = "default"
        other["spec"] = {
            "selector": other["spec"]["selector"],
            "template": {"spec": {"containers": [{"name": "memcached", "env": [{"name": "C", "value": "3"}]}]}},
        }
        host.client.apply(other, field_manager="other")
        host.run_until_idle()
        assert environment(host) == {"A": "1", "B": "2", "C": "3"}
        if restart:
            host.stop()
            host, requests = restarted(ctrlhost_host, sandbox, less)
        else:
            requests = Requests(host)
            wanted.wanted = [less]
            run_again(host)
        assert requests.new() == ["apply deployments cache"]
        assert environment(host) == {"A": "1", "C": "3"}
        assert reasons(host)[-1] == ("Updated", "updated Deployment default/cache", 1)


def environment(host: Any) -> dict[str, str]:
    container = stored(host)["spec"]["template"]["spec"]["containers"][0]
    return {variable["name"]: variable["value"] for variable in container["env"]}


@pytest.mark.behaviour("authoring/AC8")
def test_a_field_that_the_server_rewrites_is_applied_once(ctrlhost_host) -> None:
    # The server leaves a false out, which the comparison does not know.
    desired = deployment()
    desired["spec"]["template"]["spec"]["hostNetwork"] = False
    wanted = Wanted(desired)
    with Sandbox() as sandbox:
        host = ctrlhost_host(operator(wanted), sandbox=sandbox)
        requests = Requests(host)
        host.client.create(mine())
        host.run_until_idle()
        for _ in range(100):
            run_again(host)
        assert requests.new() == ["get deployments cache", "apply deployments cache"]
        assert "hostNetwork" not in stored(host)["spec"]["template"]["spec"]
        wanted.wanted[0]["spec"]["replicas"] = 3
        for _ in range(3):
            run_again(host)
        assert requests.new() == ["apply deployments cache"]
        change = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
        host.client.patch("apps/v1", "Deployment", "cache", "default", change)
        host.run_until_idle()
        assert requests.new() == ["apply deployments cache"]
        run_again(host)
        assert requests.new() == []
        host.stop()
        again, requests = restarted(ctrlhost_host, sandbox, desired)
        for _ in range(3):
            run_again(again)
        assert requests.new() == ["apply deployments cache"]
        assert [reason for reason, _, _ in reasons(again)] == ["Created", "Updated", "Repaired"]


@pytest.mark.behaviour("authoring/AC8")
def test_an_annotation_that_a_server_drops_costs_one_apply(ctrlhost_host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an admission policy does."""
    content = Child.content

    def without_annotation(child: Any) -> dict[str, Any]:
        sent = content(child)
        del sent["metadata"]["annotations"]
        return sent

    monkeypatch.setattr(Child, "content", without_annotation)
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted))
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    for _ in range(3):
        run_again(host)
    assert requests.new() == ["get deployments cache", "apply deployments cache"]
    wanted.wanted = [deployment(replicas=3)]
    for _ in range(3):
        run_again(host)
    assert requests.new() == ["apply deployments cache"]
    assert [reason for reason, _, _ in reasons(host)] == ["Created", "Updated"]


@pytest.mark.behaviour("authoring/AC9")
def test_an_object_of_another_owner_is_left_alone_until_it_is_gone(ctrlhost_host, manual_clock: ManualClock) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted), clock=manual_clock)
    other = host.client.create(config_map("other"))
    foreign = host.client.create(controlled(deployment(replicas=1), other))
    host.run_until_idle()
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    assert [type(error) for error in wanted.errors] == [NotOwned]
    assert reasons(host) == [("NotOwned", "Deployment default/cache is controlled by ConfigMap other", 1)]
    assert (errors(host), requests.new()) == (0, [])
    live = stored(host)
    assert (live["spec"]["replicas"], live["metadata"]["uid"]) == (1, foreign["metadata"]["uid"])
    host.client.delete("v1", "ConfigMap", "other", "default")
    host.run_until_idle()
    manual_clock.advance(59)
    host.run_until_idle()
    assert wanted.runs == 1
    manual_clock.advance(1)
    host.run_until_idle()
    assert "apply deployments cache" in requests.new()
    assert stored(host)["spec"]["replicas"] == 2
    assert errors(host) == 0


def test_an_owner_that_is_made_again_waits_for_what_the_former_one_owned(ctrlhost_host) -> None:
    with Sandbox(controllers=()) as sandbox:
        host = ctrlhost_host(operator(Wanted()), sandbox=sandbox)
        host.client.create(mine())
        host.run_until_idle()
        host.client.delete("v1", "ConfigMap", "cache", "default")
        host.run_until_idle()
        host.client.create(mine())
        host.run_until_idle()
        assert [note for _, note, _ in reasons(host, "NotOwned")] == [
            "Deployment default/cache is controlled by a former ConfigMap cache"
        ]
        # As the garbage collector does.
        former = stored(host)["metadata"]["uid"]
        host.client.delete("apps/v1", "Deployment", "cache", "default")
        host.run_until_idle()
        assert stored(host)["metadata"]["uid"] != former


@pytest.mark.behaviour("authoring/AC10")
def test_an_object_without_controller_is_adopted_on_request(ctrlhost_host, manual_clock: ManualClock) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted), clock=manual_clock)
    foreign = host.client.create(deployment(replicas=1))
    owner = host.client.create(mine())
    host.run_until_idle()
    error = wanted.errors[0]
    assert isinstance(error, NotOwned)
    assert error.message == "Deployment default/cache exists and has no controller"
    assert "adopt=True" in (error.hint or "")
    assert "ownerReferences" not in stored(host)["metadata"]
    wanted.options = {"adopt": True}
    run_again(host)
    adopted = stored(host)
    assert adopted["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert [owner_reference["uid"] for owner_reference in adopted["metadata"]["ownerReferences"]] == [
        owner["metadata"]["uid"]
    ]
    assert adopted["spec"]["replicas"] == 2
    assert ("Adopted", "adopted Deployment default/cache: spec.replicas", 1) in reasons(host)
    assert errors(host) == 0


def test_orphans_stay_orphans_while_the_cache_still_shows_their_owner(ctrlhost_host) -> None:
    wanted = Wanted(adopt=True)
    host = ctrlhost_host(operator(wanted))
    host.client.create(mine())
    host.run_until_idle()
    with host.faults.hold_watches():
        host.client.delete("v1", "ConfigMap", "cache", "default", propagation="Orphan")
        eventually(lambda: host.client.find("v1", "ConfigMap", "cache", "default") is None)
        wanted.wanted, runs = [deployment(replicas=3)], wanted.runs
        host.controllers["memcached/memcached"].queue.add(ctrlhost.Request("cache", "default"))
        eventually(lambda: wanted.runs > runs)
    host.run_until_idle()
    assert "ownerReferences" not in stored(host)["metadata"]
    assert stored(host)["spec"]["replicas"] == 2
    assert errors(host) == 0


def test_an_adopted_object_gets_its_reference_back(ctrlhost_host) -> None:
    wanted = Wanted(adopt=True)
    host = ctrlhost_host(operator(wanted))
    host.client.create(mine())
    host.run_until_idle()
    host.client.patch("apps/v1", "Deployment", "cache", "default", {"metadata": {"ownerReferences": None}})
    run_again(host)
    assert len(stored(host)["metadata"]["ownerReferences"]) == 1
    assert reasons(host)[-1] == ("Adopted", "adopted Deployment default/cache", 1)


@pytest.mark.behaviour("authoring/AC11")
def test_an_object_that_the_cache_leaves_out_is_found_on_the_server(ctrlhost_host, manual_clock: ManualClock) -> None:
    wanted = Wanted()
    narrowed = ctrlhost.Owns("apps/v1/Deployment", label_selector="cached")
    host = ctrlhost_host(operator(wanted, narrowed), clock=manual_clock)
    other = host.client.create(config_map("other"))
    host.client.create(controlled(deployment(replicas=1), other))
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    assert requests.new() == ["get deployments cache"]
    assert reasons(host) == [("NotOwned", "Deployment default/cache is controlled by ConfigMap other", 1)]
    assert (errors(host), stored(host)["spec"]["replicas"]) == (0, 1)
    host.client.delete("v1", "ConfigMap", "other", "default")
    host.run_until_idle()
    manual_clock.advance(60)
    host.run_until_idle()
    assert stored(host)["spec"]["replicas"] == 2
    requests.new()
    run_again(host)
    assert requests.new() == ["get deployments cache"]


@pytest.mark.behaviour("authoring/AC12")
def test_who_is_first_keeps_the_object(ctrlhost_host, manual_clock: ManualClock) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted), clock=manual_clock)
    other = host.client.create(config_map("other"))
    requests = Requests(host)
    theirs: list[Any] = []

    def be_first() -> None:
        theirs.append(host.client.create(controlled(deployment(replicas=1), other)))

    requests.before["apply deployments"] = be_first
    host.client.create(mine())
    host.run_until_idle()
    error = wanted.errors[0]
    assert isinstance(error, NotOwned)
    assert error.message == "Deployment default/cache is controlled by ConfigMap other"
    assert isinstance(error.__cause__, Invalid)
    assert reasons(host) == [("NotOwned", error.message, 1)]
    assert errors(host) == 0
    live, first = stored(host), theirs[0]
    assert live["metadata"]["ownerReferences"] == first["metadata"]["ownerReferences"]
    assert (live["metadata"]["generation"], live["spec"]) == (first["metadata"]["generation"], first["spec"])
    assert ANNOTATION not in live["metadata"].get("annotations", {})


@pytest.mark.behaviour("authoring/AC13")
@pytest.mark.parametrize(
    ("owns", "error", "message", "hint"),
    [
        pytest.param(
            "v1/Secret",
            UndeclaredRead,
            "writes Deployment (apps/v1) without declaring it; it owns Secret (v1)",
            'owns=["apps/v1/Deployment"]',
            id="undeclared",
        ),
        pytest.param(
            ctrlhost.Owns("apps/v1/Deployment", reads=["spec.replicas"]),
            PluginError,
            "it caches only a part of it (`reads=`)",
            "drop `reads=`",
            id="reads",
        ),
        pytest.param(
            ctrlhost.Owns("apps/v1/Deployment", ensure=False),
            PluginError,
            "only reads Deployment (apps/v1): its `Owns` has `ensure=False`",
            "drop `ensure=False`",
            id="read-only",
        ),
    ],
)
def test_a_kind_that_may_not_be_written_is_refused(
    ctrlhost_host, owns: Any, error: type[Exception], message: str, hint: str
) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted, owns), clock=ManualClock())
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    raised = wanted.errors[0]
    assert type(raised) is error
    assert isinstance(raised, PluginError)
    assert message in raised.message
    assert hint in (raised.hint or "")
    assert requests.new() == []


def test_a_watched_kind_is_written_without_an_owner_and_its_changes_go_to_the_map(ctrlhost_host) -> None:
    elsewhere = deployment()
    elsewhere["metadata"]["namespace"] = "kube-public"
    wanted, plugin = Wanted(elsewhere), ctrlhost.Plugin()
    watches = ctrlhost.Watches("apps/v1/Deployment", map=lambda _: [ctrlhost.Request("cache", "default")], ensure=True)
    plugin.__name__ = "memcached"
    plugin.controller("v1/ConfigMap", name="memcached", watches=[watches])(wanted)
    host = ctrlhost_host(plugin, clock=ManualClock())
    host.client.create(mine())
    host.run_until_idle()
    refused = wanted.errors[-1]
    assert isinstance(refused, PluginError)
    assert "watches Deployment (apps/v1) and does not own it" in refused.message
    assert "pass `owner=None`" in (refused.hint or "")
    wanted.options = {"owner": None}
    run_again(host)
    obj = host.client.get("apps/v1", "Deployment", "cache", "kube-public")
    assert "ownerReferences" not in obj["metadata"]
    host.client.patch("apps/v1", "Deployment", "cache", "kube-public", {"spec": {"replicas": 7}})
    host.run_until_idle()
    assert host.client.get("apps/v1", "Deployment", "cache", "kube-public")["spec"]["replicas"] == 2


@pytest.mark.behaviour("authoring/AC14")
@pytest.mark.behaviour("findings3/NS3")
def test_an_owner_in_another_namespace_is_refused_before_any_request(ctrlhost_host) -> None:
    elsewhere = deployment()
    elsewhere["metadata"]["namespace"] = "kube-public"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}
    owns = ["apps/v1/Deployment", "rbac.authorization.k8s.io/v1/ClusterRole"]
    wanted = Wanted(elsewhere)
    host = ctrlhost_host(operator(wanted, *owns), clock=ManualClock())
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    wanted.wanted = [role]
    run_again(host)
    messages = [str(error) for error in wanted.errors]
    assert [type(error) for error in wanted.errors] == [ValueError, ValueError]
    assert messages[0].startswith("Deployment cache in namespace kube-public cannot be owned from namespace default")
    assert messages[1].startswith("ClusterRole r is cluster-scoped and cannot be owned from namespace default")
    # As the garbage collector of a real server does it.
    assert "the garbage collector would delete it" in messages[0]
    assert "the garbage collector would never delete it" in messages[1]
    assert requests.new() == []
    wanted.wanted, wanted.options = [elsewhere, role], {"owner": None}
    run_again(host)
    objects = [
        host.client.get("apps/v1", "Deployment", "cache", "kube-public"),
        host.client.get("rbac.authorization.k8s.io/v1", "ClusterRole", "r"),
    ]
    assert ["ownerReferences" in obj["metadata"] for obj in objects] == [False, False]
    requests.new()
    run_again(host)
    assert requests.new() == []
    assert len(wanted.errors) == 2


@pytest.mark.behaviour("authoring/AC14")
def test_a_cluster_scoped_owner_owns_objects_of_any_scope(ctrlhost_host, manual_clock: ManualClock) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}
    wanted = Wanted({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    source = ctrlhost.For("v1/Namespace", label_selector="mine")
    owns = ["v1/ConfigMap", "rbac.authorization.k8s.io/v1/ClusterRole"]
    host = ctrlhost_host(operator(wanted, *owns, kind=source), clock=manual_clock)
    requests = Requests(host)
    owner = host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "owner", "labels": MINE}})
    host.run_until_idle()
    assert [str(error) for error in wanted.errors] == ["ConfigMap a needs metadata.namespace: its owner has none"]
    assert requests.new() == []
    wanted.wanted = [config_map("a", "default", n="1"), config_map("a", "kube-public"), role]
    run_again(host, "owner", namespace="")
    assert {obj.owner_references[0].uid for obj in wanted.results} == {owner["metadata"]["uid"]}
    requests.new()
    run_again(host, "owner", namespace="")
    assert requests.new() == []
    host.client.patch("v1", "ConfigMap", "a", "default", {"data": {"n": "2"}})
    host.run_until_idle()
    assert requests.new() == ["apply configmaps a"]


def test_without_an_object_the_owner_is_to_be_named(ctrlhost_host, manual_clock: ManualClock) -> None:
    wanted = Wanted(config_map("left", "default"))
    host = ctrlhost_host(operator(wanted, "v1/ConfigMap", gone=True), clock=manual_clock)
    requests = Requests(host)
    host.controllers["memcached/memcached"].queue.add(ctrlhost.Request("cache", "default"))
    host.run_until_idle()
    assert [str(error) for error in wanted.errors] == [
        "ConfigMap left has no owner: default/cache is gone; pass `owner=`",
    ]
    assert requests.new() == []
    wanted.options = {"owner": None}
    run_again(host)
    assert stored(host, "left", ("v1", "ConfigMap"))["metadata"]["name"] == "left"


@pytest.mark.behaviour("authoring/AC14")
def test_an_owned_object_that_is_to_have_no_owner_loses_its_reference_once(ctrlhost_host) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted))
    host.client.create(mine())
    host.run_until_idle()
    assert len(stored(host)["metadata"]["ownerReferences"]) == 1
    wanted.options = {"owner": None}
    requests = Requests(host)
    run_again(host)
    assert requests.new() == ["apply deployments cache"]
    assert "ownerReferences" not in stored(host)["metadata"]
    run_again(host)
    assert requests.new() == []
    assert errors(host) == 0


@pytest.mark.parametrize("as_dict", [False, True], ids=["object", "dict"])
def test_an_object_that_was_read_comes_to_rest(ctrlhost_host, as_dict: bool) -> None:
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        current = ctx.cache("apps/v1/Deployment").get("cache")
        wanted: Any = deployment() if current is None else current
        ctx.ensure(current.to_dict() if as_dict and current is not None else wanted)

    host = ctrlhost_host(operator(reconcile))
    host.client.create(mine())
    host.run_until_idle()
    run_again(host)
    requests = Requests(host)
    for _ in range(3):
        run_again(host)
    assert requests.new() == []
    assert errors(host) == 0


def test_an_object_without_owner_that_somebody_else_made_is_not_taken(ctrlhost_host) -> None:
    wanted = Wanted(owner=None)
    host = ctrlhost_host(operator(wanted), clock=ManualClock())
    host.client.create(deployment(replicas=1))
    host.client.create(mine())
    host.run_until_idle()
    assert [type(error) for error in wanted.errors] == [NotOwned]
    assert stored(host)["spec"]["replicas"] == 1


def test_another_owner_is_set_on_request(ctrlhost_host) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted))
    owner = host.client.create(config_map("owner"))
    wanted.options = {"owner": owner}
    host.client.create(mine())
    host.run_until_idle()
    assert [owner_reference["name"] for owner_reference in stored(host)["metadata"]["ownerReferences"]] == ["owner"]
    requests = Requests(host)
    run_again(host)
    assert requests.new() == []


def test_a_changed_value_of_a_secret_is_applied_although_its_digest_is_the_same(ctrlhost_host) -> None:
    def secret(password: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": password}}

    wanted = Wanted(secret("one"))
    host = ctrlhost_host(operator(wanted, "v1/Secret"))
    host.client.create(mine())
    host.run_until_idle()
    first = stored(host, "s", ("v1", "Secret"))
    wanted.wanted = [secret("two")]
    requests = Requests(host)
    run_again(host)
    run_again(host)
    second = stored(host, "s", ("v1", "Secret"))
    assert requests.new() == ["apply secrets s"]
    assert second["data"] == {"password": "dHdv"}
    assert second["metadata"]["annotations"] == first["metadata"]["annotations"]


def test_texts_of_a_secret_are_no_quantities(ctrlhost_host) -> None:
    """Its digest does not tell the values apart."""

    def secret(value: str, version: str) -> dict[str, Any]:
        metadata = {"name": "s", "labels": {"version": version}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": value}}

    wanted = Wanted(secret("1e10", "1.1"))
    host = ctrlhost_host(operator(wanted, "v1/Secret"))
    host.client.create(mine())
    host.run_until_idle()
    for value, version in (("10e9", "1.1"), ("10e9", "1.10")):
        wanted.wanted = [secret(value, version)]
        run_again(host)
        obj = stored(host, "s", ("v1", "Secret"))
        assert (obj["data"], obj["metadata"]["labels"]) == ({"key": value}, {"version": version})


@pytest.mark.behaviour("authoring/AC20")
def test_a_list_in_the_same_run_has_the_new_object_or_is_stale(ctrlhost_host) -> None:
    listed: list[list[str]] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        for name in ("a", "b"):
            ctx.ensure(deployment(name))
            listed.append(sorted(item.name for item in ctx.cache("apps/v1/Deployment").list()))
            listed.append(sorted(item.name for item in ctx.cache("apps/v1/Deployment").owned()))

    host = ctrlhost_host(operator(reconcile))
    host.client.create(mine())
    host.run_until_idle()
    assert listed[:4] == [["a"], ["a"], ["a", "b"], ["a", "b"]]


@pytest.mark.behaviour("authoring/AC20")
@pytest.mark.parametrize("selector", ["mine", None])
def test_owned_objects_of_the_reconciled_kind_are_read(ctrlhost_host, selector: str | None) -> None:
    read: list[list[str]] = []
    maps: list[list[str]] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        if obj.name != "cache":
            return
        ctx.ensure(config_map("child"))
        cache = ctx.cache("v1/ConfigMap")
        read.append([item.name for item in (cache.get("child"), *cache.owned()) if item is not None])
        assert "child" in [item.name for item in cache.list()]

    def to_owner(secret: ctrlhost.Object, caches: ctrlhost.Caches) -> list[ctrlhost.Request]:
        cache = caches["v1/ConfigMap"]
        child = cache.get("child")
        maps.append([] if child is None else [child.name, *(item.name for item in cache.owned())])
        return []

    plugin = operator(
        reconcile,
        "v1/ConfigMap",
        kind=ctrlhost.For("v1/ConfigMap", label_selector=selector),
        watches=[ctrlhost.Watches("v1/Secret", map=to_owner)],
    )
    host = ctrlhost_host(plugin)
    host.client.create(mine())
    host.run_until_idle()
    assert read
    assert all(names == ["child", "child"] for names in read)
    assert errors(host) == 0
    host.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}})
    host.run_until_idle()
    assert maps == [["child"]]


@pytest.mark.behaviour("authoring/AC20")
def test_a_list_that_cannot_have_the_new_object_is_stale(ctrlhost_host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister, "WAIT_SECONDS", 0.05)
    raised: list[Exception] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        with host.faults.hold_watches():
            ctx.ensure(deployment())
            try:
                ctx.cache("apps/v1/Deployment").list()
            except ctrlhost.Stale as error:
                raised.append(error)

    host = ctrlhost_host(operator(reconcile))
    host.client.create(mine())
    host.run_until_idle()
    assert str(raised[0]).startswith("the cache does not show the write of default/cache")


def test_the_next_read_shows_what_was_ensured(ctrlhost_host) -> None:
    read: list[tuple[Any, Any]] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        with host.faults.hold_watches():
            child = ctx.ensure(deployment())
            read.append((child.resource_version, ctx.cache("apps/v1/Deployment").get("cache")))

    host = ctrlhost_host(operator(reconcile))
    host.client.create(mine())
    host.run_until_idle()
    version, obj = read[0]
    assert obj.resource_version == version


def test_a_dry_run_changes_nothing(ctrlhost_host) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted), dry_run=True)
    host.client.create(mine())
    host.run_until_idle()
    assert wanted.results[0].get_path("spec", "replicas") == 2
    assert host.client.find("apps/v1", "Deployment", "cache", "default") is None
    assert errors(host) == 0


@pytest.mark.behaviour("authoring/AC22")
@pytest.mark.behaviour("findings3/NC18")
def test_an_async_run_ensures_many_children_at_once(ctrlhost_host) -> None:
    results: list[ctrlhost.Object] = []

    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        results[:] = await asyncio.gather(
            *(ctx.ensure(config_map(f"child-{index}", n=str(index))) for index in range(20))
        )

    host = ctrlhost_host(operator(reconcile, "v1/ConfigMap"))
    requests = Requests(host)
    owner = host.client.create(mine())
    host.run_until_idle()
    names = [f"child-{index}" for index in range(20)]
    assert [obj.name for obj in results] == names
    assert sorted(call for call in requests.new() if call.startswith("apply")) == sorted(
        f"apply configmaps {name}" for name in names
    )
    for name in names:
        obj = stored(host, name, ("v1", "ConfigMap"))
        assert obj["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert errors(host) == 0


@pytest.mark.behaviour("authoring/AC22")
def test_a_refused_child_of_a_task_group_is_not_owned_and_no_failure(ctrlhost_host) -> None:
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(3):
                group.create_task(ctx.ensure(config_map(f"child-{index}")))

    host = ctrlhost_host(operator(reconcile, "v1/ConfigMap"))
    host.client.create(config_map("child-1"))
    host.client.create(mine())
    host.run_until_idle()
    assert errors(host) == 0
    assert [event["note"] for event in host.events() if event["reason"] == "NotOwned"] == [
        "ConfigMap default/child-1 exists and has no controller"
    ]


def test_a_cancelled_ensure_writes_nothing_after_its_look(ctrlhost_host) -> None:
    """As when a task group ends because of another child, and the run goes on."""

    async def reconcile(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(ctx.ensure(config_map("child")))
        requests.before["get configmaps"] = lambda: loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([task])
        await asyncio.gather(*async_client._continuing, return_exceptions=True)
        cancelled.append(task.cancelled())

    cancelled: list[bool] = []
    host = ctrlhost_host(operator(reconcile, "v1/ConfigMap"))
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    assert cancelled == [True]
    # The next request is composed, and not sent.
    assert requests.new() == ["get configmaps child", "apply configmaps child"]
    assert host.client.find("v1", "ConfigMap", "child", "default") is None


def test_a_namespace_that_does_not_exist_is_told_by_an_event(ctrlhost_host: Any) -> None:
    wanted = Wanted()
    wanted.wanted[0]["metadata"]["namespace"] = "nowhere"
    host = ctrlhost_host(operator(lambda ctx, obj: ctx.ensure(wanted.wanted[0], owner=None) and None))
    host.client.create(mine())
    host.run_until_idle()
    (event,) = (event for event in host.events() if event["reason"] == "ApplyFailed")
    assert event["regarding"]["name"] == "cache"
    assert 'namespaces "nowhere" not found' in event["note"]


@pytest.mark.behaviour("findings3/NC17")
def test_an_own_object_that_the_server_refuses_for_its_owners_is_invalid_and_not_owned_by_another(
    ctrlhost_host: Any,
) -> None:
    wanted = Wanted()
    host = ctrlhost_host(operator(wanted))
    host.client.create(mine())
    host.run_until_idle()
    (owner,) = stored(host)["metadata"]["ownerReferences"]
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": ""}
    wanted.wanted[0]["metadata"]["ownerReferences"] = [nameless]
    wanted.wanted[0]["spec"]["replicas"] = 3
    run_again(host)
    assert isinstance(wanted.errors[0], Invalid)
    assert "metadata.ownerReferences" in str(wanted.errors[0])
    assert stored(host)["metadata"]["ownerReferences"] == [owner]
    assert "ApplyFailed" in [reason for reason, *_ in reasons(host)]
