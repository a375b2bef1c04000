"""`ctrlhost.Owns(…, track=True)`: objects that a label ties to their owner, where no owner reference can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost
from ctrlhost import Owns
from ctrlhost.errors import PluginLoadError
from ctrlhost.testing import HostUnderTest, ManualClock
from tests.support.operators import mine, operator, run_again
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

MARK = "tracked.ctrlhost.dev/memcached.memcached"
PRIORITY_CLASS, SECRET = "scheduling.k8s.io/v1/PriorityClass", "v1/Secret"
TRACKED = (Owns(PRIORITY_CLASS, track=True), Owns(SECRET, track=True, prune=True))


def priority_class(name: str, description: str = "theirs") -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": 10, "description": description}


def secret(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": data or {"k": "v"},
    }


def reconcile(ctx: Any, obj: ctrlhost.Object) -> None:
    """Track an object of the cluster, and one in each namespace that the object names."""
    ctx.ensure(priority_class(obj.namespace, description=obj.name))
    wanted = [secret(obj.name, namespace) for namespace in obj["data"]["namespaces"].split()]
    for child in wanted:
        ctx.ensure(child)
    ctx.prune(SECRET, keep=[f"{child['metadata']['namespace']}/{obj.name}" for child in wanted])
    owned = sorted(child.key for child in ctx.cache(SECRET).owned())
    assert owned == sorted(f"{child['metadata']['namespace']}/{obj.name}" for child in wanted)


async def reconcile_async(ctx: Any, obj: ctrlhost.Object) -> None:
    await ctx.ensure(priority_class(obj.namespace, description=obj.name))
    wanted = [secret(obj.name, namespace) for namespace in obj["data"]["namespaces"].split()]
    for child in wanted:
        await ctx.ensure(child)
    await ctx.prune(SECRET, keep=[f"{child['metadata']['namespace']}/{obj.name}" for child in wanted])
    owned = sorted(child.key for child in await ctx.cache(SECRET).owned())
    assert owned == sorted(f"{child['metadata']['namespace']}/{obj.name}" for child in wanted)


def metadata_of(client: Any, *path: Any) -> dict[str, Any]:
    obj = client.find(*path)
    return obj["metadata"] if obj is not None else {}


@pytest.mark.behaviour("findings3/NA7")
@pytest.mark.parametrize("function", [reconcile, reconcile_async])
def test_each_server_lets_an_owner_track_what_cannot_refer_to_it(
    ctrlhost_host: Any, control_plane: ControlPlane, namespace: str, function: Any
) -> None:
    client, others = control_plane.client, [f"{namespace}-a", f"{namespace}-b"]
    for other in others:
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    selected = ctrlhost.For("v1/ConfigMap", namespaces=[namespace], label_selector="mine")
    ctrlhost_host(operator(function, *TRACKED, kind=selected), server=control_plane.kubeconfig)
    owner = client.create(mine("cache", namespace, namespaces=" ".join(others)))
    of_cluster: tuple[Any, ...] = ("scheduling.k8s.io/v1", "PriorityClass", namespace)
    of_others: list[tuple[Any, ...]] = [("v1", "Secret", "cache", other) for other in others]
    children = [of_cluster, *of_others]
    tracked = ({MARK: owner["metadata"]["uid"]}, f"{namespace}/cache")

    def is_tracked(path: tuple[Any, ...]) -> bool:
        metadata = metadata_of(client, *path)
        assert "ownerReferences" not in metadata
        return (metadata.get("labels"), (metadata.get("annotations") or {}).get(MARK)) == tracked

    eventually(lambda: all(map(is_tracked, children)))
    assert metadata_of(client, "v1", "ConfigMap", "cache", namespace)["finalizers"] == [MARK]
    # Each change by hand wakes the owner: of a field, of the label, of the annotation, and a deletion.
    client.patch(*of_cluster, None, {"description": "by hand"})
    eventually(lambda: client.get(*of_cluster)["description"] == "cache")
    client.patch(*of_others[0], {"metadata": {"labels": {MARK: None}}})
    eventually(lambda: is_tracked(of_others[0]))
    client.patch(*of_others[0], {"metadata": {"annotations": {MARK: None}}})
    eventually(lambda: is_tracked(of_others[0]))
    client.delete(*of_cluster)
    eventually(lambda: is_tracked(of_cluster))
    # What is no longer wanted is pruned; what only has the label is nobody's.
    client.patch("v1", "ConfigMap", "cache", namespace, {"data": {"namespaces": others[1]}})
    eventually(lambda: client.find(*of_others[0]) is None)
    theirs = secret("theirs", others[0])
    theirs["metadata"]["labels"] = {MARK: owner["metadata"]["uid"]}
    client.create(theirs)
    client.delete("v1", "ConfigMap", "cache", namespace)
    eventually(lambda: client.find("v1", "ConfigMap", "cache", namespace) is None)
    assert [path for path in children if client.find(*path) is not None] == []
    assert client.find("v1", "Secret", "theirs", others[0]) is not None


@pytest.mark.behaviour("findings3/NA7")
def test_the_printed_rights_suffice_and_events_name_what_was_tracked(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(operator(reconcile, *TRACKED), least_privilege=True)
    host.client.create(mine(namespaces="kube-public"))
    host.run_until_idle()
    host.client.delete("v1", "ConfigMap", "cache", "default")
    host.run_until_idle()
    assert host.client.find("v1", "ConfigMap", "cache", "default") is None
    notes = ["created PriorityClass default", "created Secret kube-public/cache"]
    notes += ["deleted PriorityClass default", "deleted Secret kube-public/cache"]
    assert [event["note"] for event in host.events("default") if event["reason"] in ("Created", "Pruned")] == notes


@pytest.mark.behaviour("findings3/NA7")
@pytest.mark.parametrize(
    ("child", "problem"),
    [
        (priority_class("a"), "PriorityClass a is cluster-scoped and cannot be owned from namespace default"),
        (secret("a", "kube-public"), "Secret a in namespace kube-public cannot be owned from namespace default"),
    ],
)
def test_an_object_that_cannot_be_owned_is_refused_with_what_to_declare(
    ctrlhost_host: Any, child: dict[str, Any], problem: str
) -> None:
    errors: list[str] = []

    def ensure(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        with pytest.raises(ValueError, match=r"track=True") as refused:
            ctx.ensure(child)
        errors.append(str(refused.value))

    host = ctrlhost_host(operator(ensure, PRIORITY_CLASS, SECRET))
    host.client.create(mine())
    host.run_until_idle()
    (text,) = errors
    assert text.startswith(problem)
    kind = PRIORITY_CLASS if child["kind"] == "PriorityClass" else SECRET
    assert text.endswith(f'track it by a label with `owns=[ctrlhost.Owns("{kind}", track=True)]`, or pass `owner=None`')


class Ensuring:
    """Ensures an object, with options that change, and records errors."""

    def __init__(self, **options: Any) -> None:
        self.options, self.errors = options, {}

    def __call__(self, ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        self.errors.pop(obj.name, None)
        try:
            ctx.ensure(secret("shared", "kube-public"), **self.options)
        except Exception as error:
            self.errors[obj.name] = str(error)
            raise


@pytest.mark.behaviour("findings3/NA7")
def test_one_owner_tracks_an_object_until_it_is_gone(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    ensuring = Ensuring()
    host = ctrlhost_host(operator(ensuring, Owns(SECRET, track=True)), clock=manual_clock)
    host.client.create(mine("a"))
    host.run_until_idle()
    ensuring.options["adopt"] = True
    host.client.create(mine("b"))
    host.run_until_idle()
    assert ensuring.errors == {"b": "Secret kube-public/shared is tracked by ConfigMap default/a"}
    # By force, so that the host does not delete what it tracked.
    ensuring.options["adopt"] = False
    uid = host.client.get("v1", "ConfigMap", "a", "default")["metadata"]["uid"]
    host.stop()
    host.client.patch("v1", "ConfigMap", "a", "default", {"metadata": {"finalizers": None}})
    host.client.delete("v1", "ConfigMap", "a", "default")
    host = ctrlhost_host(operator(ensuring, Owns(SECRET, track=True)), clock=manual_clock, sandbox=host.server)
    host.run_until_idle()
    text = f"Secret kube-public/shared is tracked by an owner that is gone: default/a, uid {uid}"
    assert {name: error.partition(";")[0] for name, error in ensuring.errors.items()} == {"b": text}
    ensuring.options["adopt"] = True
    run_again(host, "b")
    assert ensuring.errors == {}
    labels = host.client.get("v1", "Secret", "shared", "kube-public")["metadata"]["labels"]
    assert labels == {MARK: host.client.get("v1", "ConfigMap", "b", "default")["metadata"]["uid"]}


@pytest.mark.behaviour("findings3/NA7")
def test_what_others_have_made_is_not_tracked_unless_it_is_adopted(ctrlhost_host: Any) -> None:
    ensuring = Ensuring()
    host = ctrlhost_host(operator(ensuring, Owns(SECRET, track=True)), start=False)
    host.client.create(secret("shared", "kube-public", k="theirs"))
    host.client.create(mine("a"))
    host.start()
    eventually(lambda: ensuring.errors)
    assert "exists and has no controller" in ensuring.errors["a"]
    ensuring.options["adopt"] = True
    run_again(host, "a")
    host.wait_for(lambda: not ensuring.errors)
    assert [event["note"] for event in host.events("default") if event["reason"] == "Adopted"] == [
        "adopted Secret kube-public/shared: data.k"
    ]


@pytest.mark.behaviour("findings3/NA7")
def test_only_the_reconciled_object_tracks(ctrlhost_host: Any) -> None:
    errors: list[str] = []

    def ensure(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.ensure(secret("own", "kube-public"), owner=obj)
        other = ctx.client.get("v1", "ConfigMap", "kube-root-ca.crt", "default")
        with pytest.raises(ValueError, match="by the reconciled object only") as refused:
            ctx.ensure(secret("others", "kube-public"), owner=other)
        errors.append(str(refused.value))
        ctx.ensure(secret("free", "kube-public"), owner=None)

    host = ctrlhost_host(operator(ensure, Owns(SECRET, track=True)))
    owner = host.client.create(mine())
    host.run_until_idle()
    assert len(errors) == 1
    own, free = (host.client.get("v1", "Secret", name, "kube-public")["metadata"] for name in ("own", "free"))
    assert own["labels"] == {MARK: owner["metadata"]["uid"]}
    assert "labels" not in free
    host.client.delete("v1", "ConfigMap", "cache", "default")
    host.run_until_idle()
    assert host.client.find("v1", "Secret", "own", "kube-public") is None
    assert host.client.find("v1", "Secret", "free", "kube-public") is not None


@pytest.mark.behaviour("findings3/NA7")
def test_an_owned_object_becomes_a_tracked_one(ctrlhost_host: Any) -> None:
    def ensure(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.ensure(secret("child", obj.namespace))

    host = ctrlhost_host(operator(ensure, SECRET))
    owner = host.client.create(mine())
    host.run_until_idle()
    assert "ownerReferences" in host.client.get("v1", "Secret", "child", "default")["metadata"]
    host.stop()
    host = ctrlhost_host(operator(ensure, Owns(SECRET, track=True)), sandbox=host.server)
    host.run_until_idle()
    child = host.client.get("v1", "Secret", "child", "default")["metadata"]
    assert "ownerReferences" not in child
    assert child["labels"] == {MARK: owner["metadata"]["uid"]}


@pytest.mark.behaviour("findings3/NA7")
@pytest.mark.parametrize("restarted", [False, True], ids=["while it runs", "while it is down"])
def test_an_owner_that_is_no_longer_selected_takes_what_it_tracks_with_it(ctrlhost_host: Any, restarted: bool) -> None:
    plugin = operator(reconcile, *TRACKED)
    host: HostUnderTest = ctrlhost_host(plugin, least_privilege=True)
    host.client.create(mine(namespaces="kube-public"))
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "cache", "default", {"metadata": {"labels": {"mine": None}}})
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "cache", "default")["metadata"]["finalizers"] == [MARK]
    assert host.client.find("v1", "Secret", "cache", "kube-public") is not None
    if restarted:
        host.stop()
    host.client.delete("v1", "ConfigMap", "cache", "default")
    if restarted:
        host = ctrlhost_host(plugin, sandbox=host.server)
    host.wait_for(lambda: host.client.find("v1", "ConfigMap", "cache", "default") is None)
    assert host.client.find("v1", "Secret", "cache", "kube-public") is None
    assert host.client.find("scheduling.k8s.io/v1", "PriorityClass", "default") is None


class Spec(msgspec.Struct):
    size: int


@ctrlhost.resource("v1/ConfigMap")
class Strict(msgspec.Struct):
    """ConfigMaps that never fit."""

    spec: Spec


@pytest.mark.behaviour("findings3/NA7")
def test_the_functions_of_the_author_run_before_and_an_object_that_no_longer_fits_lets_go(ctrlhost_host: Any) -> None:
    seen: list[bool] = []
    plugin = operator(reconcile, *TRACKED)

    @plugin.finalizer("example.com/cleanup", of=plugin.declaration.controllers[0])  # type: ignore[arg-type]
    def clean_up(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        seen.append(ctx.client.find("v1", "Secret", "cache", "kube-public") is not None)

    host = ctrlhost_host(plugin)
    names = {"memcached": ["example.com/cleanup", MARK]}
    assert plugin.ctrlhost_finalizers() == names
    host.client.create(mine(namespaces="kube-public"))
    host.client.create(mine("left", namespaces="kube-public"))
    host.run_until_idle()
    host.client.delete("v1", "ConfigMap", "cache", "default")
    host.run_until_idle()
    assert seen == [True]
    assert host.client.find("v1", "Secret", "cache", "kube-public") is None
    host.stop()
    host.client.patch("v1", "ConfigMap", "left", "default", {"metadata": {"finalizers": [MARK]}})
    kind = ctrlhost.For(Strict, label_selector="mine")
    host = ctrlhost_host(operator(lambda ctx, obj: None, *TRACKED, kind=kind), sandbox=host.server)
    host.client.delete("v1", "ConfigMap", "left", "default")
    host.wait_for(lambda: host.client.find("v1", "ConfigMap", "left", "default") is None)
    assert host.client.find("v1", "Secret", "left", "kube-public") is None


@pytest.mark.behaviour("findings3/NA7")
@pytest.mark.parametrize("name", ["a" * 63, "a_"])
def test_a_controller_whose_name_is_no_label_cannot_track(ctrlhost_host: Any, name: str) -> None:
    plugin = ctrlhost.Plugin()
    plugin.__name__ = "p"
    plugin.controller("v1/ConfigMap", name=name, owns=[Owns(SECRET, track=True)])(reconcile)
    host = ctrlhost_host(plugin, start=False)
    with pytest.raises(Exception, match="no label can have that name") as refused:
        host.start(check=True)
    assert isinstance(refused.value, PluginLoadError) or isinstance(refused.value.__cause__, PluginLoadError)


@pytest.mark.behaviour("findings3/NA7")
def test_a_dry_run_needs_no_warning_for_what_is_tracked(ctrlhost_host: Any, caplog: pytest.LogCaptureFixture) -> None:
    host = ctrlhost_host(operator(reconcile, *TRACKED), dry_run=True)
    host.run_until_idle()
    assert "real effects outside Kubernetes" not in caplog.text
