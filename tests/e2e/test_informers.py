"""The client and informers on the sandbox and on a real kube-apiserver, and during failures of the latter."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.errors import AlreadyExists, Conflict, Invalid, NotFound
from ctrlhost.informers import BackoffOptions, InformerFactory, Owner, ReflectorOptions
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support import plugin_modules
from tests.support.informer_rig import synced
from tests.support.objects import crd
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.control_plane import ControlPlane, KubeApiserver

QUICK = BackoffOptions(base=0.01, cap=0.2)
config_map = functools.partial(plugin_modules.config_map, labels={"part": "test"})


def versions(objects: Any) -> dict[str, str]:
    return {
        f"{obj['metadata']['namespace']}/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
        for obj in objects
    }


def cached(informer: Any) -> dict[str, str]:
    return {obj.key: obj.resource_version for obj in informer.lister.list()}


def test_the_client_creates_reads_changes_and_deletes_an_object(control_plane: ControlPlane, namespace: str) -> None:
    client = control_plane.client
    created = client.create(config_map("a", namespace, x="1"))
    with pytest.raises(AlreadyExists):
        client.create(config_map("a", namespace))
    created["data"]["x"] = "2"
    replaced = client.replace(created)
    created["data"]["x"] = "3"
    with pytest.raises(Conflict):
        client.replace(created)
    assert int(replaced["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert client.patch("v1", "ConfigMap", "a", namespace, {"data": {"y": "4"}})["data"] == {"x": "2", "y": "4"}
    ops = [{"op": "remove", "path": "/data/x"}]
    assert client.patch("v1", "ConfigMap", "a", namespace, ops, type="json")["data"] == {"y": "4"}
    child = client.create(config_map("child", namespace), owner=replaced)
    assert child["metadata"]["ownerReferences"][0]["uid"] == replaced["metadata"]["uid"]
    with pytest.raises(Invalid) as invalid:
        client.create(config_map("No_Such_Name", namespace))
    assert invalid.value.causes[0]["field"] == "metadata.name"
    assert [
        obj["metadata"]["name"]
        for obj in client.list("v1", "ConfigMap", namespace, label_selector="part=test", page_size=1)
    ] == ["a", "child"]
    with pytest.raises(Conflict):
        client.delete("v1", "ConfigMap", "a", namespace, preconditions={"uid": "another"})
    client.delete("v1", "ConfigMap", "a", namespace)
    client.delete_collection("v1", "ConfigMap", namespace, label_selector="part=test")
    assert client.find("v1", "ConfigMap", "a", namespace) is None
    assert list(client.list("v1", "ConfigMap", namespace, label_selector="part=test")) == []
    with pytest.raises(NotFound, match="does not serve kind Nothing"):
        client.get("v1", "Nothing", "a", namespace)


def test_server_side_apply_owns_the_applied_fields(control_plane: ControlPlane, namespace: str) -> None:
    client = control_plane.client
    client.apply(config_map("a", namespace, x="1", y="1"), field_manager="one")
    client.apply(config_map("a", namespace, z="1"), field_manager="two")
    assert client.apply(config_map("a", namespace, x="2"), field_manager="one")["data"] == {"x": "2", "z": "1"}
    with pytest.raises(Conflict):
        client.apply(config_map("a", namespace, x="9"), field_manager="two", force=False)


@pytest.mark.parametrize("streaming", [True, False])
def test_an_informer_equals_the_server_once_it_is_quiet(
    control_plane: ControlPlane, namespace: str, streaming: bool
) -> None:
    client = control_plane.client
    options = ReflectorOptions(watch_list=streaming, backoff=QUICK, page_size=7)
    factory = InformerFactory(client, options=options)
    for number in range(30):
        client.create(config_map(f"first-{number}", namespace, n=str(number)))
    maps = factory.informer("v1", "ConfigMap", namespaces=[namespace])
    queue, owners = WorkQueue(), WorkQueue()
    maps.enqueue_to(queue)
    maps.enqueue_to(owners, Owner("v1", "ConfigMap"))
    events: list[tuple[str, str]] = []
    maps.add_handler(
        lambda obj, initial: events.append(("add", obj.name)),
        lambda old, new: events.append(("update", new.name)),
        lambda obj: events.append(("delete", obj.name)),
    )
    with factory:
        assert factory.wait_for_sync(60)
        assert cached(maps) == versions(client.list("v1", "ConfigMap", namespace))
        owner = client.create(config_map("owner", namespace))
        client.create(config_map("owned", namespace), owner=owner)
        for number in range(0, 30, 3):
            client.patch("v1", "ConfigMap", f"first-{number}", namespace, {"data": {"n": "changed"}})
        for number in range(1, 30, 3):
            client.delete("v1", "ConfigMap", f"first-{number}", namespace)
        eventually(lambda: cached(maps) == versions(client.list("v1", "ConfigMap", namespace)), 30)
        eventually(lambda: events.count(("delete", "first-28")) == 1)
        assert maps.lister.get("first-3", namespace)["data"] == {"n": "changed"}
        assert {kind for kind, _ in events} == {"add", "update", "delete"}
        assert len(queue) == len({name for _, name in events})
        assert owners.get(timeout=0) == Request("owner", namespace)
        assert maps.status().errors == 0


def test_an_informer_waits_for_its_kind(control_plane: ControlPlane, namespace: str, factory: InformerFactory) -> None:
    client, group = control_plane.client, f"{namespace}.example.com"
    widgets = factory.informer(f"{group}/v1", "Widget")
    factory.start()
    eventually(lambda: widgets.state == "waiting")
    # Another test's group may be alike.
    assert "does not serve kind Widget" in widgets.reason or "is not served; did you mean" in widgets.reason
    client.create(crd(group, "Widget"))
    assert factory.wait_for_sync(60)
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": namespace}}
    client.create(widget)
    eventually(lambda: widgets.lister.get("w", namespace), 30)


def test_an_informer_empties_its_cache_when_its_kind_is_removed_and_waits_for_it(
    control_plane: ControlPlane, namespace: str
) -> None:
    client, group = control_plane.client, f"removed-{namespace}.example.com"
    options = ReflectorOptions(backoff=QUICK, waiting_cap=0.2)
    with InformerFactory(client, options=options) as factory:
        client.create(crd(group, "Widget"))
        widgets = factory.informer(f"{group}/v1", "Widget")
        synced(factory)
        client.create(
            {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
        )
        eventually(lambda: widgets.lister.get("w", "default"), 30)
        client.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"widgets.{group}")
        eventually(lambda: widgets.state == "waiting" and not widgets.lister.list(), 60)
        eventually(
            lambda: client.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"widgets.{group}") is None, 30
        )
        client.create(crd(group, "Widget"))
        eventually(lambda: widgets.state == "watching", 60)


def test_an_informer_can_watch_only_metadata(
    control_plane: ControlPlane, namespace: str, factory: InformerFactory
) -> None:
    client = control_plane.client
    client.create(config_map("a", namespace, big="x" * 1000))
    maps = factory.informer("v1", "ConfigMap", namespaces=[namespace], reads="metadata")
    synced(factory)
    client.create(config_map("b", namespace, big="x" * 1000))
    eventually(lambda: {"a", "b"} <= {obj.name for obj in maps.lister.list()})
    obj = maps.lister.get("b", namespace)
    assert (obj.api_version, obj.kind, obj.partial) == ("v1", "ConfigMap", True)
    assert obj.labels == {"part": "test"}


@pytest.fixture
def own_factory(own_kube_apiserver: KubeApiserver) -> Iterator[InformerFactory]:
    informers = InformerFactory(own_kube_apiserver.client, options=ReflectorOptions(backoff=QUICK, idle_timeout=3.0))
    yield informers
    informers.stop()


def test_an_informer_recovers_when_a_killed_server_restarts(
    own_kube_apiserver: KubeApiserver, own_factory: InformerFactory
) -> None:
    client = own_kube_apiserver.client
    maps = own_factory.informer("v1", "ConfigMap", namespaces=["default"])
    synced(own_factory)
    client.create(config_map("before", "default"))
    eventually(lambda: maps.lister.get("before", "default"))
    own_kube_apiserver.kill()
    eventually(lambda: maps.state == "reconnecting")
    own_kube_apiserver.start()
    client.create(config_map("after", "default"))
    client.delete("v1", "ConfigMap", "before", "default")
    eventually(lambda: maps.lister.get("after", "default") and not maps.lister.get("before", "default"), 60)
    eventually(lambda: maps.state == "watching", 60)
    assert cached(maps) == versions(client.list("v1", "ConfigMap", "default"))


def test_a_compacted_version_causes_a_list_that_misses_no_deletion(
    own_kube_apiserver: KubeApiserver, own_factory: InformerFactory
) -> None:
    client = own_kube_apiserver.client
    deleted: list[str] = []
    maps = own_factory.informer("v1", "ConfigMap", namespaces=["default"])
    maps.add_handler(on_delete=lambda obj: deleted.append(obj.key))
    synced(own_factory)
    client.create(config_map("doomed", "default"))
    eventually(lambda: maps.lister.get("doomed", "default"))
    # The informer misses the next changes: after a restart the server has compacted their versions.
    own_kube_apiserver.pause()
    eventually(lambda: maps.state == "reconnecting", 30)
    own_kube_apiserver.resume()
    client.delete("v1", "ConfigMap", "doomed", "default")
    for number in range(5):
        client.create(config_map(f"filler-{number}", "default"))
    own_kube_apiserver.compact()
    own_kube_apiserver.kill()
    own_kube_apiserver.start()
    eventually(lambda: cached(maps) == versions(client.list("v1", "ConfigMap", "default")), 60)
    eventually(lambda: deleted == ["default/doomed"])


def test_a_server_that_hangs_without_closing_is_detected(
    own_kube_apiserver: KubeApiserver, own_factory: InformerFactory
) -> None:
    maps = own_factory.informer("v1", "ConfigMap")
    synced(own_factory)
    eventually(lambda: maps.state == "watching")
    own_kube_apiserver.pause()
    try:
        eventually(lambda: maps.state == "reconnecting", 30)
        assert "no data for 3 s" in maps.reason or "in time" in maps.reason
    finally:
        own_kube_apiserver.resume()
    eventually(lambda: maps.state == "watching", 60)
