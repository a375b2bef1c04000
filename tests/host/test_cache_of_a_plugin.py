"""The cache of plugins: transforms, selectors, namespaces, indexes, and the life of informers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from ctrlhost import Client, InformerFactory, PartialObject, UndeclaredRead, Watches
from ctrlhost.cache import Object
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import create_eventually, eventually


class Cluster:
    """A sandbox with ConfigMaps in two namespaces, and an informer factory."""

    def __init__(self, sandbox: Any) -> None:
        self.client = Client.load(sandbox.kubeconfig)
        self.factory = InformerFactory(self.client)
        for namespace in ("one", "two"):
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            for color in ("red", "blue"):
                self.client.create(config_map(f"{color}-{namespace}", namespace, labels={"color": color}, a=color))

    def informer(self, **scope: Any) -> Any:
        informer = self.factory.informer("v1", "ConfigMap", **scope)
        self.factory.start()
        eventually(lambda: informer.has_synced)
        return informer


@pytest.fixture
def cluster(sandbox) -> Iterator[Cluster]:
    cluster = Cluster(sandbox)
    yield cluster
    cluster.factory.stop()
    cluster.client.close()


def names(objects: list[Object]) -> list[str]:
    return sorted(obj.name for obj in objects if "color" in obj.labels)


def without_data(obj: Object) -> dict[str, Any]:
    slim = obj.to_dict()
    slim["metadata"]["annotations"] = {"slim": "yes"}
    del slim["data"]
    return slim


@pytest.mark.behaviour("informers/CR1")
def test_a_transform_selects_the_cached_fields(cluster: Cluster) -> None:
    informer = cluster.informer(namespaces=["one"], label_selector="color", transform=without_data)
    (red,) = informer.lister.list(label_selector="color=red")
    assert "data" not in red
    assert red.annotations == {"slim": "yes"}
    # By default only managed fields are dropped.
    cluster.client.patch("v1", "ConfigMap", "red-one", "one", {"data": {"b": "1"}})
    plain = cluster.informer(namespaces=["one"], label_selector="color")
    assert plain.lister.get("red-one", "one")["data"] == {"a": "red", "b": "1"}
    assert "managedFields" not in plain.lister.get("red-one", "one")["metadata"]


@pytest.mark.behaviour("informers/CR1")
@pytest.mark.behaviour("findings/FT1")
@pytest.mark.parametrize("reads", [None, "metadata"])
@pytest.mark.parametrize(("api_version", "kind"), [("v1", "ConfigMap"), ("example.com/v1", "Widget")])
def test_a_transform_applies_to_built_in_and_custom_kinds_and_to_their_metadata(
    cluster: Cluster, api_version: str, kind: str, reads: str | None
) -> None:
    cluster.client.create(crd("example.com", "Widget"))
    meta = {"name": "it", "namespace": "one", "labels": {"mine": "1"}, "annotations": {"note": "long"}}
    create_eventually(cluster.client, {"apiVersion": api_version, "kind": kind, "metadata": meta})

    def transform(obj: Object) -> dict[str, Any]:
        metadata = {**copy.deepcopy(obj["metadata"]), "annotations": {"slim": f"{kind} {obj.annotations['note']}"}}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

    informer = cluster.factory.informer(api_version, kind, label_selector="mine=1", reads=reads, transform=transform)
    plain = cluster.factory.informer(api_version, kind, label_selector="mine=1", reads=reads)
    cluster.factory.start()
    eventually(lambda: informer.has_synced and plain.has_synced)
    (transformed,), (untouched,) = informer.lister.list(), plain.lister.list()
    assert transformed.annotations == {"slim": f"{kind} long"}
    # The default drops managed fields, and leaves the objects of other informers alone.
    assert untouched.annotations == {"note": "long"}
    assert "managedFields" not in untouched["metadata"]


@pytest.mark.behaviour("informers/CR2")
def test_only_watched_kinds_can_be_read(ctrlhost_host) -> None:
    errors: list[str] = []

    def read(ctx: Any, request: Any) -> None:
        assert ctx.lister("v1", "ConfigMap").get(request.name, request.namespace) is not None
        try:
            ctx.lister("v1", "Secret")
        except UndeclaredRead as error:
            errors.append(error.plugin)

    source = Watches("v1", "ConfigMap", label_selector="mine", map=lambda obj: [(obj.name, obj.namespace, "")])
    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_controller("c", read, source)))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert errors == ["demo"]
    assert host.controllers["demo/c"].status().errors == 0


@pytest.mark.behaviour("informers/CR2")
def test_requesting_an_informer_does_not_block(sandbox) -> None:
    client = Client.load(sandbox.kubeconfig)
    factory = InformerFactory(client)
    informer = factory.informer("v1", "ConfigMap")
    assert not informer.has_synced
    assert informer.lister.list() == []
    factory.stop()
    client.close()


@pytest.mark.behaviour("informers/CR3")
def test_cached_objects_cannot_be_changed_and_are_not_copied(cluster: Cluster) -> None:
    lister = cluster.informer(namespaces=["one"]).lister
    obj = lister.get("red-one", "one")
    with pytest.raises(TypeError):
        obj["data"]["a"] = "changed"
    with pytest.raises(TypeError):
        obj["data"] = {}
    own = obj.to_dict()
    own["data"]["a"] = "changed"
    assert lister.get("red-one", "one")["data"] == {"a": "red"}
    assert lister.get("red-one", "one") == obj


@pytest.mark.behaviour("informers/CR4")
def test_missing_and_unwatched_objects_are_none(cluster: Cluster) -> None:
    # Upstream raises errors; a lister returns None for every object outside its cache.
    lister = cluster.informer(namespaces=["one"]).lister
    assert lister.get("missing", "one") is None
    assert lister.get("red-two", "two") is None
    assert lister.list("two") == []


@pytest.mark.behaviour("informers/CR5")
def test_a_list_filters_by_namespace_and_labels_and_its_objects_have_a_kind(cluster: Cluster) -> None:
    lister = cluster.informer().lister
    assert names(lister.list()) == ["blue-one", "blue-two", "red-one", "red-two"]
    assert names(lister.list("one")) == ["blue-one", "red-one"]
    assert names(lister.list(label_selector="color in (red)")) == ["red-one", "red-two"]
    assert names(lister.list("two", "color!=red")) == ["blue-two"]
    (obj,) = lister.list("two", "color=red")
    assert (obj.api_version, obj.kind) == ("v1", "ConfigMap")
    assert obj.to_dict()["kind"] == "ConfigMap"


@pytest.mark.behaviour("informers/CR6")
@pytest.mark.parametrize("namespaces", [None, ["one"], ["one", "two"], ["none"]])
@pytest.mark.parametrize("labels", [None, "color=red", "color", "color notin (red)", "!color"])
@pytest.mark.parametrize("fields", [None, "metadata.name=red-one", "metadata.name!=red-one"])
def test_an_informer_caches_what_all_its_selectors_match(
    shared_cluster: Cluster, namespaces: list[str] | None, labels: str | None, fields: str | None
) -> None:
    chosen = set()
    for color in ("red", "blue"):
        for namespace in ("one", "two"):
            name = f"{color}-{namespace}"
            in_namespace = namespaces is None or namespace in namespaces
            by_label = {None: True, "color": True, "color=red": color == "red", "!color": False}
            by_label["color notin (red)"] = color != "red"
            by_field = {
                None: True,
                "metadata.name=red-one": name == "red-one",
                "metadata.name!=red-one": name != "red-one",
            }
            if in_namespace and by_label[labels] and by_field[fields]:
                chosen.add(name)
    informer = shared_cluster.informer(namespaces=namespaces, label_selector=labels, field_selector=fields)
    assert set(names(informer.lister.list())) == chosen
    informer.release()


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    from ctrlhost_sandbox import Sandbox

    with Sandbox() as sandbox:
        cluster = Cluster(sandbox)
        yield cluster
        cluster.factory.stop()
        cluster.client.close()


@pytest.mark.behaviour("informers/CR7")
def test_starting_a_factory_again_starts_only_new_informers(cluster: Cluster) -> None:
    # Upstream refuses a second start; here it starts the informers that were requested later.
    first = cluster.informer(namespaces=["one"])
    # The objects of a list are there before the list is counted.
    lists = eventually(lambda: first.parts[0].reflector.status.lists)
    cluster.factory.start()
    second = cluster.informer(namespaces=["two"])
    assert names(second.lister.list()) == ["blue-two", "red-two"]
    assert first.parts[0].reflector.status.lists == lists


@pytest.mark.behaviour("informers/CR8")
def test_an_unused_informer_stops_and_a_new_one_lists_again(cluster: Cluster) -> None:
    first = cluster.informer(namespaces=["one"])
    first.release()
    assert first.state == "stopped"
    assert cluster.factory.informers() == []
    cluster.client.create(config_map("green-one", "one", labels={"color": "green"}))
    second = cluster.informer(namespaces=["one"])
    assert second is not first
    assert names(second.lister.list()) == ["blue-one", "green-one", "red-one"]


@pytest.mark.behaviour("informers/CR9")
def test_an_index_finds_by_one_field_by_several_and_for_cluster_scoped_kinds(ctrlhost_host) -> None:
    by_color: dict[str, list[str]] = {}

    def look(ctx: Any, request: Any) -> None:
        maps, spaces = ctx.lister("v1", "ConfigMap"), ctx.lister("v1", "Namespace")
        for value in ("red", "blue"):
            by_color[value] = sorted(obj.name for obj in maps.by_index("color", value))
        by_color["both"] = sorted(obj.name for obj in maps.by_index("both", "red/round"))
        by_color["team"] = [obj.name for obj in spaces.by_index("team", "shop")]
        by_color["again"] = sorted(obj.name for obj in maps.by_index("color", "red"))

    def both(obj: Object) -> list[str]:
        return [f"{obj['data'].get('color')}/{obj['data'].get('shape')}"]

    maps = Watches(
        "v1",
        "ConfigMap",
        label_selector="mine",
        map=lambda obj: [("x", "", "")],
        indexes={"color": "data.color", "both": both},
    )
    spaces = Watches("v1", "Namespace", indexes={"team": "metadata.labels.team"})
    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_controller("c", look, maps, spaces)))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "shop"}}}
    host.client.create(space)
    # No source watches Namespaces, so create this one first.
    host.run_until_idle()
    host.client.create(config_map("a", labels={"mine": "1"}, color="red", shape="round"))
    host.client.create(config_map("b", labels={"mine": "1"}, color="red", shape="flat"))
    host.client.create(config_map("c", labels={"mine": "1"}, color="blue", shape="round"))
    host.run_until_idle()
    assert by_color == {"red": ["a", "b"], "blue": ["c"], "both": ["a"], "team": ["shop"], "again": ["a", "b"]}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_plugins_that_read_different_parts_share_one_informer(ctrlhost_host, order: tuple[int, int]) -> None:
    seen: dict[str, Any] = {}

    def plugin(name: str, reads: Any) -> Any:
        def look(ctx: Any, request: Any) -> None:
            obj = ctx.lister("v1", "ConfigMap").get(request.name, request.namespace)
            seen[name] = obj.get_path("data", "a")

        source = Watches(
            "v1", "ConfigMap", label_selector="mine", reads=reads, map=lambda obj: [(obj.name, obj.namespace, "")]
        )
        return plugin_of(lambda plugin: plugin.add_controller("c", look, source), name)

    plugins = (plugin("whole", None), plugin("part", ["data"]))
    host = ctrlhost_host(*(plugins[place] for place in order))
    host.client.create(config_map("ann", labels={"mine": "1"}, a="1"))
    host.run_until_idle()
    assert seen == {"whole": "1", "part": "1"}
    assert len([informer for informer in host.host.factory.informers() if informer.kind == "ConfigMap"]) == 1


def test_a_partial_object_cannot_be_written_back(ctrlhost_host) -> None:
    errors: list[type[Exception]] = []

    def write(ctx: Any, request: Any) -> None:
        try:
            ctx.client.replace(ctx.lister("v1", "ConfigMap").get(request.name, request.namespace))
        except PartialObject as error:
            errors.append(type(error))

    source = Watches(
        "v1", "ConfigMap", label_selector="mine", reads="metadata", map=lambda obj: [(obj.name, obj.namespace, "")]
    )
    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_controller("c", write, source)))
    host.client.create(config_map("ann", labels={"mine": "1"}, a="1"))
    host.run_until_idle()
    assert errors == [PartialObject]
    assert host.client.get("v1", "ConfigMap", "ann", "default")["data"] == {"a": "1"}
