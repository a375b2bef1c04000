"""Shards of lists, watches and deletions of collections, with the feature gate on and off."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ctrlhost_sandbox import Options, Sandbox

from sandbox.tests.conftest import Crd, crd_body
from sandbox.tests.verbs.shard_selectors import CANONICAL, INVALID, NAMESPACE, SPELLINGS, UID
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.http_client import TABLE, Api, names
from tests.support.objects import config_map, core
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

GATE = "ShardedListAndWatch"
HALF, WHOLE = 1 << 63, 1 << 64
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_serial = itertools.count(1)


def hash_of(text: str) -> int:
    """Return the 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % WHOLE
    return value


def shard(field: str, start: int, end: int) -> str:
    return f"shardRange({field}, '0x{start:016x}', '0x{end:016x}')"


def only(*objects: dict[str, Any]) -> str:
    """Return a selector of these objects alone, in canonical form."""
    hashes = [hash_of(obj["metadata"]["uid"]) for obj in objects]
    return " || ".join(shard(UID, value, value + 1) for value in hashes)


@pytest.fixture(scope="module", params=["sandbox", "kube-apiserver"])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the administrator's kubeconfig of each server with the gate on; no controller adds objects."""
    if request.param == "sandbox":
        with Sandbox(controllers=(), options=Options(feature_gates={GATE: True})) as sandbox:
            yield Path(sandbox.kubeconfig)
        return
    require_kube_apiserver()
    directory = tmp_path_factory.mktemp("sharded-kube-apiserver")
    with KubeApiserver(directory, flags=[f"--feature-gates={GATE}=true"]) as server:
        yield server.kubeconfig


@pytest.fixture
def sharded(kubeconfig: Path) -> Iterator[Api]:
    """The administrator of each server with the gate on."""
    with api_of(kubeconfig) as client:
        yield client


def new_namespace(api: Api) -> str:
    name = f"shard-{next(_serial)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    return name


@pytest.fixture
def maps(sharded: Api) -> str:
    """The path of the ConfigMaps of an empty namespace."""
    return core(new_namespace(sharded), "configmaps")


def create(api: Api, path: str, objects: Iterable[str], **metadata: Any) -> list[dict[str, Any]]:
    """Create ConfigMaps and return them."""
    return [api.post(path, config_map(name, **metadata)).expect(201) for name in objects]


@pytest.mark.behaviour("shards/SH64")
def test_two_halves_are_disjoint_and_together_everything(sharded: Api) -> None:
    spaces = sorted((new_namespace(sharded) for _ in range(4)), key=hash_of)
    label = {"test": spaces[0]}
    for space in spaces:
        create(sharded, core(space, "configmaps"), (f"c{index}" for index in range(10)), labels=label)
    query = {"labelSelector": f"test={spaces[0]}"}
    everything = sharded.get("/api/v1/configmaps", **query).expect(200)
    assert "shardInfo" not in everything["metadata"]
    assert len(everything["items"]) == 40
    for field, cut in ((UID, HALF), (NAMESPACE, hash_of(spaces[2]))):
        halves = []
        for start, end in ((0, cut), (cut, WHOLE)):
            selector = shard(field, start, end)
            half = sharded.get("/api/v1/configmaps", shardSelector=selector, **query).expect(200)
            assert half["metadata"]["shardInfo"] == {"selector": selector}
            name = field.rpartition(".")[2]
            assert all(start <= hash_of(item["metadata"][name]) < end for item in half["items"])
            halves.append(half["items"])
        assert [len(half) for half in halves] == [20, 20] or field == UID
        uids = [item["metadata"]["uid"] for half in halves for item in half]
        assert sorted(uids) == sorted(item["metadata"]["uid"] for item in everything["items"])


@pytest.mark.behaviour("shards/SH65")
@pytest.mark.parametrize("text", SPELLINGS)
def test_a_selector_is_echoed_in_canonical_form(sharded: Api, maps: str, text: str) -> None:
    created = create(sharded, maps, "abcd")
    listing = sharded.get(maps, shardSelector=text).expect(200)
    assert listing["metadata"]["shardInfo"] == {"selector": CANONICAL}
    # Everything but the last hash of the first half.
    assert len(listing["items"]) == len(created)


@pytest.mark.behaviour("shards/SH65")
def test_ranges_keep_their_order_and_repetitions(sharded: Api, maps: str) -> None:
    first, second, _ = create(sharded, maps, "abc")
    selector = only(second, first, second)
    listing = sharded.get(maps, shardSelector=selector)
    assert names(listing) == ["a", "b"]
    assert listing.json()["metadata"]["shardInfo"] == {"selector": selector}


@pytest.mark.behaviour("shards/SH66")
def test_objects_of_the_cluster_are_all_in_one_shard_of_namespaces(sharded: Api) -> None:
    new_namespace(sharded)
    everything = names(sharded.get("/api/v1/namespaces"))
    halves = [shard(NAMESPACE, 0, HALF), shard(NAMESPACE, HALF, WHOLE)]
    listed = [names(sharded.get("/api/v1/namespaces", shardSelector=half)) for half in halves]
    assert listed == [[], everything]
    exact = shard(NAMESPACE, 0xCBF29CE484222325, 0xCBF29CE484222326)
    assert names(sharded.get("/api/v1/namespaces", shardSelector=exact)) == everything


def refusal(text: str) -> dict[str, Any]:
    """Return the Status for an invalid selector, which has no reason."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"invalid shard selector: {text}",
        "code": 500,
    }


@pytest.mark.behaviour("shards/SH67")
def test_an_invalid_selector_is_refused(sharded: Api, maps: str) -> None:
    answers = {text: sharded.get(maps, shardSelector=text) for text in INVALID}
    assert {text: answer.json() for text, answer in answers.items()} == {
        text: refusal(why) for text, why in INVALID.items()
    }
    assert {answer.status for answer in answers.values()} == {500}


@pytest.mark.behaviour("shards/SH67")
def test_a_watch_and_a_deletion_refuse_it_too(sharded: Api, maps: str) -> None:
    wanted = refusal(INVALID["x"])
    create(sharded, maps, "a")
    for accept in (None, TABLE, PARTIAL_LIST):
        assert sharded.get(maps, accept, shardSelector="x").json() == wanted
    assert sharded.get(maps, watch="true", shardSelector="x", timeoutSeconds=1).json() == wanted
    assert sharded.delete(maps, shardSelector="x").json() == wanted
    assert names(sharded.get(maps)) == ["a"]


#: Other faults of the same request, and the code of the answer: 500 is that of the selector.
FAULTS: list[tuple[int, dict[str, str]]] = [
    (400, {"limit": "x"}),
    (400, {"fieldSelector": "foo=1"}),
    (400, {"labelSelector": "(("}),
    (422, {"resourceVersionMatch": "Exact"}),
    (500, {"resourceVersion": "x"}),
    (500, {"resourceVersion": "999999999"}),
    (500, {"continue": "garbage"}),
    (500, {"continue": "garbage", "resourceVersion": "5"}),
]


@pytest.mark.behaviour("shards/SH67")
def test_it_is_checked_after_other_options_and_before_versions(sharded: Api, maps: str) -> None:
    for code, fault in FAULTS:
        assert sharded.get(maps, shardSelector="x", **fault).status == code, fault
        if "continue" not in fault:
            watched = sharded.get(maps, watch="true", timeoutSeconds=1, shardSelector="x", **fault)
            assert watched.status == code, fault
    assert sharded.delete(maps, {"propagationPolicy": "x"}, shardSelector="x").status == 422


@pytest.mark.behaviour("shards/SH68")
def test_which_parameter_counts(sharded: Api, maps: str) -> None:
    first, second = create(sharded, maps, "ab")
    for query in ("shardSelector=", "shardSelector", "shardSelector=&shardSelector=x"):
        listing = sharded.get(f"{maps}?{query}").expect(200)
        assert (len(listing["items"]), "shardInfo" in listing["metadata"]) == (2, False)
    one, other = (quote(only(obj)) for obj in (first, second))
    assert names(sharded.get(f"{maps}?shardSelector={one}&shardSelector={other}")) == ["a"]
    assert names(sharded.get(f"{maps}?shardSelector={one}&shardSelector=x")) == ["a"]
    assert sharded.get(f"{maps}?shardSelector=x&shardSelector={one}").status == 500
    assert sharded.get(f"{maps}/a", shardSelector="x").expect(200)["metadata"]["name"] == "a"
    # Computed objects are not sharded.
    for selector in ("x", shard(UID, 0, 1)):
        assert len(sharded.get("/api/v1/componentstatuses", shardSelector=selector).expect(200)["items"]) == 3
    assert sharded.delete(f"{maps}/a", shardSelector="x").status == 200


@pytest.mark.behaviour("shards/SH69")
def test_lists_in_other_forms(sharded: Api, kubeconfig: Path, maps: str) -> None:
    _, second = create(sharded, maps, "ab")
    selector = only(second)
    partial = sharded.get(maps, PARTIAL_LIST, shardSelector=selector).expect(200)
    assert [item["metadata"]["name"] for item in partial["items"]] == ["b"]
    table = sharded.get(maps, TABLE, shardSelector=selector).expect(200)
    assert [row["object"]["metadata"]["name"] for row in table["rows"]] == ["b"]
    for listing in (partial, table):
        assert listing["metadata"].keys() == {"resourceVersion"}
    answer = sharded.get(maps, f"{PROTOBUF}, application/json", shardSelector=selector).expect(200)
    if isinstance(answer, bytes):
        # ListMeta's field 5 is ShardInfo, whose field 1 is the selector.
        text = selector.encode()
        assert b"\x2a" + bytes([len(text) + 2]) + b"\x0a" + bytes([len(text)]) + text in answer
    else:
        assert answer["metadata"]["shardInfo"] == {"selector": selector}


@pytest.mark.behaviour("shards/SH69")
def test_lists_of_custom_objects_are_filtered_and_do_not_say_so(sharded: Api, group: str) -> None:
    crd = Crd(sharded, crd_body(group)).establish()
    path = crd.path(new_namespace(sharded))
    eventually(lambda: sharded.get(path).status == 200)
    _, second = (sharded.post(path, crd.obj(name, size=1)).expect(201) for name in "ab")
    selector = only(second)
    for accept in (None, PARTIAL_LIST):
        listing = sharded.get(path, accept, shardSelector=selector).expect(200)
        assert [item["metadata"]["name"] for item in listing["items"]] == ["b"]
        assert "shardInfo" not in listing["metadata"]
    assert sharded.get(path, shardSelector="x").json() == refusal(INVALID["x"])


@pytest.mark.behaviour("shards/SH70")
@pytest.mark.parametrize("labels", [{}, {"labelSelector": "k=v"}])
def test_pages_have_own_objects_and_count_all(sharded: Api, maps: str, labels: dict[str, str]) -> None:
    every = [f"c{index:02}" for index in range(30)]
    created = create(sharded, maps, every, labels={"k": "v"})
    own = [every[index] for index in (1, 2, 7, 8, 9, 10, 20, 21, 28)]
    selector = only(*(obj for obj in created if obj["metadata"]["name"] in own))
    pages, token = [], ""
    while token or not pages:
        more = {"continue": token} if token else {}
        page = sharded.get(maps, limit=4, shardSelector=selector, **labels, **more).expect(200)
        assert page["metadata"]["shardInfo"] == {"selector": selector}
        pages.append(page)
        token = page["metadata"].get("continue", "")
    # The last page is empty but for one: the server cannot know that no object of this shard follows.
    assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [own[:4], own[4:8], own[8:]]
    # Of 30 objects, and of the 21 behind the first page, each less the limit, whatever was skipped.
    counts = [page["metadata"].get("remainingItemCount") for page in pages]
    assert counts == ([None] * 3 if labels else [26, 17, None])


@pytest.mark.behaviour("shards/SH70")
def test_the_last_page_may_be_empty(sharded: Api, maps: str) -> None:
    created = create(sharded, maps, "abcd")
    page = sharded.get(maps, limit=2, shardSelector=only(*created[:2])).expect(200)
    assert len(page["items"]) == 2
    # A token is not bound to a selector: here with none, then with the same.
    more = {"continue": page["metadata"]["continue"], "limit": 2}
    assert names(sharded.get(maps, **more)) == ["c", "d"]
    assert names(sharded.get(maps, shardSelector=only(*created[:2]), **more)) == []


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


@pytest.mark.behaviour("shards/SH71")
def test_a_watch_has_the_events_of_its_shard(sharded: Api, maps: str) -> None:
    own, other = create(sharded, maps, "ab")
    selector = only(own)
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = sharded.watch(maps, shardSelector=selector, **initial)
    assert told(watch.next()) == ("ADDED", "a")
    bookmark = watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert "shardInfo" not in bookmark["object"]["metadata"]
    for name in "ba":
        sharded.patch(f"{maps}/{name}", {"data": {"k": "w"}}).expect(200)
    for name in "ba":
        sharded.delete(f"{maps}/{name}").expect(200)
    assert [told(event) for event in watch.take(2)] == [("MODIFIED", "a"), ("DELETED", "a")]
    # Without any object the bookmark comes all the same.
    empty = sharded.watch(maps, shardSelector=only(other), **initial)
    assert empty.next()["type"] == "BOOKMARK"


@pytest.mark.behaviour("shards/SH71")
def test_a_watch_with_other_selectors_too(sharded: Api, maps: str) -> None:
    own, _ = create(sharded, maps, "ab", labels={"k": "v"})
    version = sharded.revision(maps)
    by_label = sharded.watch(maps, shardSelector=only(own), labelSelector="k=v", resourceVersion=version)
    by_name = sharded.watch(maps, shardSelector=only(own), fieldSelector="metadata.name=b", resourceVersion=version)
    by_both = sharded.watch(maps, shardSelector=only(own), fieldSelector="metadata.name=a", resourceVersion=version)
    for value in ("w", "v"):
        for name in "ba":
            sharded.patch(f"{maps}/{name}", {"metadata": {"labels": {"k": value}}}).expect(200)
    assert [told(event) for event in by_label.take(2)] == [("DELETED", "a"), ("ADDED", "a")]
    assert [told(event) for event in by_both.take(2)] == [("MODIFIED", "a"), ("MODIFIED", "a")]
    by_name.close()
    again = {"resourceVersion": version, "timeoutSeconds": 1, "fieldSelector": "metadata.name=b"}
    assert sharded.watch(maps, shardSelector=only(own), **again).rest() == []


@pytest.mark.behaviour("shards/SH71")
def test_a_watch_of_custom_objects(sharded: Api, group: str) -> None:
    crd = Crd(sharded, crd_body(group)).establish()
    path = crd.path(new_namespace(sharded))
    eventually(lambda: sharded.get(path).status == 200)
    own, other = (sharded.post(path, crd.obj(name, size=1)).expect(201) for name in "ab")
    watch = sharded.watch(path, shardSelector=only(own), resourceVersion=other["metadata"]["resourceVersion"])
    for name in "ba":
        sharded.patch(f"{path}/{name}", {"spec": {"size": 2}}).expect(200)
    assert told(watch.next()) == ("MODIFIED", "a")


@pytest.mark.behaviour("shards/SH72")
def test_a_watch_continues_with_a_wider_selector(sharded: Api, maps: str) -> None:
    first, second, third = create(sharded, maps, "abc")
    version = sharded.revision(maps)
    narrow = sharded.watch(maps, shardSelector=only(first), resourceVersion=version)
    for name in "abc":
        sharded.patch(f"{maps}/{name}", {"data": {"k": "w"}}).expect(200)
    seen = narrow.next()
    assert told(seen) == ("MODIFIED", "a")
    narrow.close()
    older = sharded.watch(maps, shardSelector=only(first, second), resourceVersion=version)
    assert [told(event) for event in older.take(2)] == [("MODIFIED", "a"), ("MODIFIED", "b")]
    wider = only(first, second, third)
    last = sharded.watch(maps, shardSelector=wider, resourceVersion=seen["object"]["metadata"]["resourceVersion"])
    assert [told(event) for event in last.take(2)] == [("MODIFIED", "b"), ("MODIFIED", "c")]


@pytest.mark.behaviour("shards/SH73")
def test_a_deletion_of_a_collection_deletes_its_shard(sharded: Api, maps: str) -> None:
    created = create(sharded, maps, "abcd")
    selector = only(*created[:2])
    rehearsed = sharded.delete(maps, shardSelector=selector, dryRun="All").expect(200)
    deleted = sharded.delete(maps, shardSelector=selector).expect(200)
    for listing in (rehearsed, deleted):
        assert [item["metadata"]["name"] for item in listing["items"]] == ["a", "b"]
        assert listing["metadata"]["shardInfo"] == {"selector": selector}
    assert names(sharded.get(maps)) == ["c", "d"]


@pytest.mark.behaviour("shards/SH73")
@pytest.mark.behaviour("shards/SH74")
def test_without_the_gate_the_parameter_is_ignored(each_api: Api, namespace: str) -> None:
    path = core(namespace, "secrets")
    created = [each_api.post(path, {"metadata": {"name": name}}).expect(201) for name in "abc"]
    for selector in (only(created[0]), shard(UID, 0, HALF), *INVALID):
        listing = each_api.get(path, shardSelector=selector).expect(200)
        assert (len(listing["items"]), "shardInfo" in listing["metadata"]) == (3, False)
    page = each_api.get(path, shardSelector="x", limit=2).expect(200)
    assert (len(page["items"]), page["metadata"]["remainingItemCount"]) == (2, 1)
    watch = each_api.watch(path, shardSelector=only(created[0]))
    assert {told(event) for event in watch.take(3)} == {("ADDED", name) for name in "abc"}
    assert each_api.watch(path, shardSelector="x", resourceVersion=0).next()["type"] == "ADDED"
    assert len(each_api.delete(path, shardSelector=only(created[0])).expect(200)["items"]) == 3
    assert names(each_api.get(path)) == []
