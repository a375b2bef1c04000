"""Sharded informers on the sandbox and on a real kube-apiserver, by the requests in its audit log."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from ctrlhost_sandbox import Options, Sandbox

from ctrlhost import Client
from ctrlhost._core import shard_hash
from ctrlhost.reflector.ranges import END
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.sharded_informers import ALL, HALF, ShardedRig, spoken
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
GATE = "ShardedListAndWatch"
SPACE = "default"
AUDITED = {
    "level": "Metadata",
    "omitStages": ["RequestReceived"],
    "verbs": ["list", "watch", "create", "update", "patch", "delete", "deletecollection"],
    "resources": [{"group": "", "resources": ["configmaps"]}, {"group": "shards.test", "resources": ["gadgets"]}],
}
MAPS, GADGETS = ("v1", "ConfigMap"), ("shards.test/v1", "Gadget")
HALVES = [(0, HALF)], [(HALF, END)]
_serial = itertools.count(1)


class Server:
    """An API server with the gate on, and the requests that it has answered."""

    def __init__(self, client: Client, log: Path, gates: dict[str, bool], sandbox: Sandbox | None) -> None:
        self.client = client
        self.gates = gates
        self.sandbox = sandbox
        self._log = log

    def audited(self) -> list[tuple[str, str]]:
        """Return verb and URI of each request; of a watch when it began."""
        lines = [json.loads(line) for line in self._log.read_bytes().split(b"\n")[:-1]]
        begun = [line for line in lines if line["verb"] != "watch" or line["stage"] == "ResponseStarted"]
        return [(line["verb"], line["requestURI"]) for line in begun]

    def queries(self, label: str, *verbs: str) -> list[dict[str, str]]:
        """Return the parameters of the requests for objects with a label, in the order of their answers."""
        uris = [uri for verb, uri in self.audited() if verb in (verbs or ("list", "watch"))]
        queries = [dict(parse_qsl(urlsplit(uri).query, keep_blank_values=True)) for uri in uris]
        return [query for query in queries if query.get("labelSelector") == f"test={label}"]

    def wire(self, label: str) -> list[tuple[str, str]]:
        return [spoken(query) for query in self.queries(label)]


def crd() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.shards.test"},
        "spec": {"group": "shards.test", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture(scope="module", params=["sandbox", "kube-apiserver"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return each server with the gate on."""
    directory = tmp_path_factory.mktemp(f"sharded-{request.param}")
    if request.param == "sandbox":
        gates, log = {GATE: True}, directory / "audit.log"
        with Sandbox(controllers=(), audit_log=log, options=Options(feature_gates=gates)) as sandbox:
            client = Client.load(kubeconfig=str(sandbox.kubeconfig))
            client.create(crd())
            yield Server(client, log, gates, sandbox)
            client.close()
        return
    require_kube_apiserver()
    with KubeApiserver(directory, audit=[AUDITED], flags=[f"--feature-gates={GATE}=true"]) as running:
        running.client.create(crd())
        yield Server(running.client, directory / "audit.log", {}, None)


@pytest.fixture
def label() -> str:
    """The label of the objects of one test."""
    return f"test-{next(_serial)}"


@pytest.fixture
def rig_with(server: Server, label: str) -> Iterator[Callable[..., ShardedRig]]:
    """Create sharded informers of the objects with the label."""
    rigs: list[ShardedRig] = []

    def make(*args: Any, **options: Any) -> ShardedRig:
        rigs.append(ShardedRig(server.client, *(args or (MAPS,)), label_selector=f"test={label}", **options))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.factory.stop()


class Objects:
    """The objects of one test, whose uids the server chooses."""

    def __init__(self, server: Server, label: str, kind: tuple[str, str] = MAPS) -> None:
        self._server, self._label, self._kind = server, label, kind
        self.places: dict[str, int] = {}
        eventually(lambda: server.client.resources.known(*kind) or self._served())

    def _served(self) -> bool:
        try:
            self._server.client.resource(*self._kind)
        except Exception:  # noqa: BLE001 - a kind that is not served yet
            self._server.client.resources.forget(*self._kind)
            return False
        return True

    def create(self, count: int = 1) -> list[str]:
        """Create objects; return their names."""
        names = [f"{self._label}-{len(self.places) + number}" for number in range(count)]
        api_version, kind = self._kind
        for name in names:
            metadata = {"name": name, "namespace": SPACE, "labels": {"test": self._label}}
            body = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
            self.places[name] = shard_hash(self._server.client.create(body)["metadata"]["uid"])
        return names

    def create_in(self, start: int, end: int) -> str:
        """Create objects until one is in a range; return its name."""
        while True:
            (name,) = self.create()
            if start <= self.places[name] < end:
                return name

    def within(self, *spans: tuple[int, int]) -> list[str]:
        return sorted(name for name, place in self.places.items() if any(a <= place < b for a, b in spans))


@pytest.fixture
def objects(server: Server, label: str) -> Objects:
    """Twelve ConfigMaps."""
    created = Objects(server, label)
    created.create(12)
    return created


def settled(server: Server, label: str, since: int, count: int) -> list[tuple[str, str]]:
    """Return the requests since a moment, once there are so many."""
    eventually(lambda: len(server.wire(label)) >= since + count)
    return server.wire(label)[since:]


@behaviour("shards/SH53")
@behaviour("shards/SH55")
@behaviour("shards/SH52")
def test_a_range_that_comes_is_listed_alone_and_one_that_goes_is_not(
    server: Server, label: str, objects: Objects, rig_with: Callable[..., ShardedRig]
) -> None:
    quarter = END // 8
    first = [(0, quarter), (2 * quarter, 3 * quarter)]
    new = (5 * quarter, END)
    rig = rig_with()
    rig.informer.add_indexers({"test": lambda obj: [obj.labels["test"]]})
    rig.hold(first)
    rig.start()
    rig.shows(*objects.within(*first))
    assert settled(server, label, 0, 2) == [("list", rig.selector(first)), ("watch", rig.selector(first))]
    rig.filled([*first, new])
    rig.shows(*objects.within(*first, new))
    assert settled(server, label, 2, 2) == [("list", rig.selector([new])), ("watch", rig.selector([*first, new]))]
    *_, watched, listed, resumed = server.queries(label)
    assert watched["resourceVersion"] == listed["resourceVersion"] == resumed["resourceVersion"]
    added = objects.create_in(*new)
    rig.shows(*objects.within(*first, new))
    eventually(lambda: sorted(rig.handler.events) == [("add", name) for name in rig.names])
    # A range goes, and with it its objects: no list, and no word of it.
    reached = rig.informer.last_resource_version
    rig.hold([*first])
    rig.shows(*objects.within(*first))
    assert settled(server, label, 4, 1) == [("watch", rig.selector(first))]
    assert int(server.queries(label)[-1]["resourceVersion"]) >= int(reached)
    assert added not in {obj.name for obj in rig.informer.indexer.by_index("test", label)}
    kept = objects.create_in(*first[0])
    rig.shows(*objects.within(*first))
    eventually(lambda: ("add", kept) in rig.handler.events)
    assert {kind for kind, _ in rig.handler.events} == {"add"}
    assert len(server.wire(label)) == 5
    # What a cache holds is what the server has of these ranges.
    assert rig.informer.check() == []
    places = sorted(place for name, place in objects.places.items() if name in rig.names)
    assert rig.factory.ranges.contents("uid", 0, END) == [(place, 1) for place in places]
    assert rig.factory.ranges.describe("uid", objects.places[kept]) == f"ConfigMap {SPACE}/{kept}"
    assert rig.factory.ranges.describe("uid", 7) == "hash 0000000000000007 of line uid"
    assert sorted(obj.name for obj in rig.informer.objects_of(*first[0])) == objects.within(first[0])


@behaviour("shards/SH57")
@pytest.mark.parametrize(
    ("server", "gate"),
    [("sandbox", True), ("sandbox", False), ("kube-apiserver", True)],
    indirect=["server"],
    scope="module",
)
@pytest.mark.parametrize("kind", [MAPS, GADGETS], ids=["builtin", "custom"])
@pytest.mark.parametrize(("watch_list", "reads"), [(False, None), (False, "metadata"), (True, None)])
def test_an_informer_learns_whether_the_server_filters(
    server: Server,
    label: str,
    rig_with: Callable[..., ShardedRig],
    watch_list: bool,
    reads: Any,
    kind: tuple[str, str],
    gate: bool,
) -> None:
    server.gates[GATE] = gate
    try:
        objects = Objects(server, label, kind)
        objects.create(8)
        while not (objects.within(*HALVES[0]) and objects.within(*HALVES[1])):
            objects.create()
        rig = rig_with(kind, watch_list=watch_list, reads=reads)
        rig.hold(HALVES[0])
        rig.start()
        rig.shows(*objects.within(*HALVES[0]))
        half = rig.selector(HALVES[0])
        # Lists of whole objects of the server's own kinds say it themselves.
        tells = kind == MAPS and not watch_list and reads is None
        wanted = [("stream", half)] if watch_list else [("list", half), ("watch", half)]
        if not tells:
            wanted.insert(0 if watch_list else 1, ("question", ""))
        assert settled(server, label, 0, len(wanted)) == wanted
        (part,) = rig.informer.parts
        eventually(lambda: part.filters is gate)
        assert rig.factory.ranges.unfiltered() == ([] if gate else [part.resource])
        name = objects.create_in(*HALVES[0][0])
        rig.shows(*objects.within(*HALVES[0]))
        assert name in rig.names
        assert (part.engine.stats()["filtered"] == 0) == gate
        families = {family.name: family for family in rig.factory.metrics.collect()}
        (sample,) = families["ctrlhost_shards_server_filtered"].samples
        assert sample.value == float(gate)
    finally:
        server.gates[GATE] = True


@behaviour("shards/SH58")
@pytest.mark.parametrize("server", ["sandbox"], indirect=True, scope="module")
def test_a_gate_may_go_off_and_on_between_two_connections(
    server: Server, label: str, objects: Objects, rig_with: Callable[..., ShardedRig]
) -> None:
    assert server.sandbox is not None
    rig = rig_with()
    rig.hold(HALVES[1])
    rig.start()
    (part,) = rig.informer.parts
    half = rig.selector(HALVES[1])
    requests = settled(server, label, 0, 2)
    try:
        for gate in (False, True):
            # A watch that has brought something is opened again without a list.
            objects.create_in(*HALVES[1][0])
            rig.shows(*objects.within(*HALVES[1]))
            server.gates[GATE] = gate
            server.sandbox.drop_watches()
            assert settled(server, label, len(requests), 2) == [("question", ""), ("watch", half)]
            requests = server.wire(label)
            eventually(lambda gate=gate: part.filters is gate)
            filtered = part.engine.stats()["filtered"]
            objects.create_in(*HALVES[0][0])
            objects.create_in(*HALVES[1][0])
            rig.shows(*objects.within(*HALVES[1]))
            assert (part.engine.stats()["filtered"] > filtered) != gate
    finally:
        server.gates[GATE] = True
    assert {kind for kind, _ in rig.handler.events} == {"add"}


@behaviour("shards/SH63")
def test_writes_carry_no_shard(
    server: Server, label: str, objects: Objects, rig_with: Callable[..., ShardedRig]
) -> None:
    rig = rig_with()
    rig.hold(HALVES[0])
    rig.start()
    api = server.client
    selector = f"test={label}"
    name = objects.within(*HALVES[0], *HALVES[1])[0]
    current = api.get("v1", "ConfigMap", name, SPACE)
    api.replace({**current, "data": {"a": "b"}})
    api.patch("v1", "ConfigMap", name, SPACE, {"data": {"a": "c"}})
    api.delete("v1", "ConfigMap", name, SPACE)
    api.delete_collection("v1", "ConfigMap", SPACE, label_selector=selector)
    rig.shows()
    # The whole collection is gone, not this replica's part of it.
    assert list(api.list("v1", "ConfigMap", SPACE, label_selector=selector)) == []
    deletions = server.queries(label, "deletecollection")
    assert len(deletions) == 1
    verbs = ("create", "update", "patch", "delete", "deletecollection")
    writes = [uri for verb, uri in server.audited() if verb in verbs]
    assert len(writes) > len(objects.places)
    assert not any("shardSelector" in uri for uri in writes)


@behaviour("shards/SH53")
def test_all_ranges_by_namespace_and_by_name(server: Server, label: str, rig_with: Callable[..., ShardedRig]) -> None:
    """A Namespace by its name is where its content is by its namespace."""
    spaces = [f"{label}-{number}" for number in range(3)]
    for space in spaces:
        labels = {"test": label}
        metadata = {"name": space, "labels": labels}
        server.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        metadata = {"name": "inside", "namespace": space, "labels": labels}
        server.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    rig = rig_with(MAPS, "namespace")
    namespaces = rig.factory.informer("v1", "Namespace", label_selector=f"test={label}", shard_by="name")
    place = shard_hash(spaces[1])
    rig.hold([(place, place + 1)])
    rig.start()
    assert [obj.namespace for obj in rig.informer.lister.list()] == [spaces[1]]
    assert [obj.name for obj in namespaces.lister.list()] == [spaces[1]]
    assert rig.factory.ranges.describe("namespace", place) == f"namespace {spaces[1]}"
    rig.filled(ALL)
    assert len(rig.names) == len(namespaces.lister.list()) == 3
    counted = [(shard_hash(space), 2) for space in spaces]
    eventually(lambda: rig.factory.ranges.contents("namespace", 0, END) == sorted(counted))
