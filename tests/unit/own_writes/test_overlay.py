"""Reads that see the plugin's own writes: the overlay on an informer with versions set by the test."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ctrlhost import _core
from ctrlhost.cache import Object
from ctrlhost.controller.caches import Cache, CachedKind
from ctrlhost.declarative.async_cache import AsyncCache
from ctrlhost.declarative.awaits import Calls
from ctrlhost.errors import Stale
from ctrlhost.informers.lister import Lister
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.models.kinds import kind_of
from ctrlhost.own_writes import lister as own_lister
from ctrlhost.own_writes.lister import PluginLister
from ctrlhost.own_writes.overlay import OwnWrites, PendingWrites


def pod(name: str, version: int, uid: str = "u1", namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(version),
        "labels": labels,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


class ScriptedInformer:
    """An informer engine fed by the test instead of a reflector."""

    def __init__(self, **scope: Any) -> None:
        self.scope = Scope("v1", "Pod", **scope)
        self._engine = _core.SharedInformer("pods", "v1", "Pod")
        self._engine.indexer.add_indexers({"demo/app": lambda obj: [obj.labels["app"]] if "app" in obj.labels else []})
        self.lister = Lister(self._engine.indexer)
        self.restores = 0

    def covers(self, namespace: str) -> bool:
        return self.scope.namespaces is None or namespace in self.scope.namespaces  # type: ignore[operator]

    def over_budget_in(self, _namespace: str) -> str:
        return ""

    def version_in(self, _namespace: str) -> str:
        return self._engine.last_resource_version

    def relist(self, version: int, *objects: dict[str, Any]) -> None:
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}, "items": objects}
        self._engine.begin_list()
        self._engine.feed_list(json.dumps(body).encode())
        self._engine.end_page()
        self._engine.replace(str(version))
        self._engine.process()

    def event(self, kind: str, obj: dict[str, Any]) -> None:
        self._engine.feed_watch(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
        self._engine.process()


@pytest.fixture
def informer() -> ScriptedInformer:
    informer = ScriptedInformer()
    informer.relist(1)
    return informer


@pytest.fixture
def kind(informer: ScriptedInformer) -> PendingWrites:
    return PendingWrites(informer)  # type: ignore[arg-type]


@pytest.fixture
def lister(informer: ScriptedInformer, kind: PendingWrites) -> PluginLister:
    return PluginLister(informer, kind, {"app": "demo/app"})  # type: ignore[arg-type]


def version(obj: Object | None) -> int | None:
    return None if obj is None else int(obj.resource_version)


@pytest.mark.behaviour("informers/MC1")
@pytest.mark.behaviour("naming/M1")
@pytest.mark.behaviour("naming/M2")
@pytest.mark.behaviour("naming/M3")
@pytest.mark.parametrize(("seen", "visible", "pending"), [(2, 2, False), (3, 3, False), (1, 2, True)])
def test_a_write_is_shown_until_the_cache_has_it_or_a_newer_version(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister, seen: int, visible: int, pending: bool
) -> None:
    kind.wrote(pod("web", 2))
    assert version(lister.get("web", "default")) == 2
    informer.event("ADDED", pod("web", seen))
    assert version(lister.get("web", "default")) == visible
    assert bool(kind) is pending


@pytest.mark.behaviour("informers/MC2")
@pytest.mark.behaviour("naming/M4")
@pytest.mark.behaviour("naming/M5")
@pytest.mark.behaviour("naming/M6")
@pytest.mark.parametrize(
    ("uid", "deleted_at", "visible"),
    [("u1", 4, None), ("u2", 4, None), ("u2", 1, 3)],
)
def test_a_later_deletion_hides_the_write(
    informer: ScriptedInformer,
    kind: PendingWrites,
    lister: PluginLister,
    uid: str,
    deleted_at: int,
    visible: int | None,
) -> None:
    # Upstream compares versions of the deleted object; here the position of the informer shows which came first.
    informer.event("ADDED", pod("web", 1, uid))
    kind.wrote(pod("web", 3, uid))
    informer.event("DELETED", pod("web", deleted_at, uid))
    assert version(lister.get("web", "default")) == visible


@pytest.mark.behaviour("informers/MC2")
@pytest.mark.behaviour("naming/M9")
@pytest.mark.parametrize("known", [True, False])
def test_a_newer_list_without_the_object_hides_the_write(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister, known: bool
) -> None:
    # The tombstone then has the state before the write, version 1 of the same uid.
    if known:
        informer.event("ADDED", pod("web", 1))
    kind.wrote(pod("web", 3))
    assert version(lister.get("web", "default")) == 3
    informer.relist(5)
    assert lister.get("web", "default") is None
    assert not kind


@pytest.mark.behaviour("informers/MC3")
@pytest.mark.behaviour("naming/M7")
@pytest.mark.behaviour("naming/Y10")
def test_the_answer_of_a_write_after_its_deletion_is_ignored(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister
) -> None:
    informer.event("ADDED", pod("web", 2))
    informer.event("DELETED", pod("web", 3))
    kind.wrote(pod("web", 2))
    assert lister.get("web", "default") is None
    assert not kind


@pytest.mark.behaviour("informers/MC4")
@pytest.mark.behaviour("naming/M8")
def test_the_answer_of_a_write_to_a_replaced_object_is_ignored(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister
) -> None:
    informer.event("ADDED", pod("web", 3, "u2"))
    kind.wrote(pod("web", 2, "u1"))
    obj = lister.get("web", "default")
    assert obj is not None
    assert (obj.uid, version(obj)) == ("u2", 3)
    assert not kind


@pytest.mark.behaviour("informers/MC5")
def test_an_index_shows_a_write_once_the_cache_does(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Upstream merges the written object into the index; here the read waits, so that all reads agree.
    monkeypatch.setattr(own_lister, "WAIT_SECONDS", 0.01)
    kind.wrote(pod("web", 2, app="shop"))
    with pytest.raises(Stale, match="default/web"):
        lister.by_index("app", "shop")
    # A map does not wait: the write's own event is mapped later.
    at_once = lister.without_waiting()
    assert (at_once.by_index("app", "shop"), at_once.list()) == ([], [])
    assert at_once.get("web", "default") == lister.get("web", "default") is not None
    informer.event("ADDED", pod("web", 2, app="shop"))
    assert [obj.name for obj in lister.by_index("app", "shop")] == ["web"]
    informer.event("DELETED", pod("web", 3, app="shop"))
    assert lister.by_index("app", "shop") == []


@pytest.mark.behaviour("informers/CR10")
def test_a_deleted_object_disappears_at_once_and_a_list_waits_for_it(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_lister, "WAIT_SECONDS", 0.01)
    informer.event("ADDED", pod("web", 2))
    kind.deleted(("default", "web"), "u1")
    assert lister.get("web", "default") is None
    with pytest.raises(Stale):
        lister.list()
    informer.event("DELETED", pod("web", 3))
    assert lister.list() == []
    assert not kind


def test_an_object_recreated_after_its_deletion_is_shown(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister
) -> None:
    informer.event("ADDED", pod("web", 2, "u1"))
    kind.deleted(("default", "web"), "u1")
    informer.event("MODIFIED", pod("web", 4, "u2"))
    obj = lister.get("web", "default")
    assert obj is not None
    assert obj.uid == "u2"


def test_a_list_of_another_namespace_does_not_wait(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_lister, "WAIT_SECONDS", 0.01)
    kind.wrote(pod("web", 2))
    assert lister.list("other") == []
    with pytest.raises(Stale):
        lister.list("default")
    with pytest.raises(Stale):
        list(lister)


def test_a_list_does_not_wait_for_the_later_writes_of_others(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister
) -> None:
    kind.wrote(pod("own", 2))
    steps = lister.catch_up()
    for number in range(3):
        next(steps)
        kind.wrote(pod(f"other-{number}", number + 3))
    informer.event("ADDED", pod("own", 2))
    assert list(steps) == []
    assert bool(kind)
    assert [obj.name for obj in lister.without_waiting().list()] == ["own"]


def test_an_awaited_list_does_not_wait_for_the_later_writes_of_others(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister
) -> None:
    async def run() -> list[str]:
        cache = AsyncCache(Cache(CachedKind(lister, kind_of("v1/Pod"), namespaced=True), "default", ""), Calls("demo"))
        listing = asyncio.ensure_future(cache.list())
        await asyncio.sleep(0)
        assert not listing.done()
        kind.wrote(pod("other", 3))
        informer.event("ADDED", pod("own", 2))
        return [obj.name for obj in await listing]

    kind.wrote(pod("own", 2))
    assert asyncio.run(run()) == ["own"]


def test_a_list_does_not_wait_for_an_object_outside_the_selector() -> None:
    informer = ScriptedInformer(label_selector="app=shop", namespaces=("default",))
    informer.relist(1)
    kind = PendingWrites(informer)  # type: ignore[arg-type]
    lister = PluginLister(informer, kind, {})  # type: ignore[arg-type]
    kind.wrote(pod("web", 2, app="other"))
    kind.wrote(pod("web", 2, namespace="elsewhere", app="shop"))
    assert lister.list() == []
    assert lister.get("web", "default") is None


def test_a_list_waits_for_an_object_that_a_write_takes_out_of_the_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_lister, "WAIT_SECONDS", 0.01)
    informer = ScriptedInformer(label_selector="app=shop")
    informer.relist(2, pod("web", 2, app="shop"))
    kind = PendingWrites(informer)  # type: ignore[arg-type]
    lister = PluginLister(informer, kind, {})  # type: ignore[arg-type]
    kind.wrote(pod("web", 3, app="other"))
    with pytest.raises(Stale):
        lister.list()
    informer.event("DELETED", pod("web", 3, app="shop"))
    assert lister.list() == []


def test_an_unchanged_write_is_already_in_the_cache(
    informer: ScriptedInformer, kind: PendingWrites, lister: PluginLister
) -> None:
    informer.event("ADDED", pod("web", 5))
    kind.wrote(pod("web", 5))
    assert [obj.name for obj in lister.list()] == ["web"]
    assert not kind


def test_answers_out_of_order_keep_the_newer_write(kind: PendingWrites, lister: PluginLister) -> None:
    kind.wrote(pod("web", 4))
    kind.wrote(pod("web", 3))
    assert version(lister.get("web", "default")) == 4


def test_non_numeric_versions_are_not_compared(kind: PendingWrites, lister: PluginLister) -> None:
    odd = pod("web", 1)
    odd["metadata"]["resourceVersion"] = "opaque"
    kind.wrote(odd)
    assert lister.get("web", "default") is None
    assert lister.list() == []


def test_writes_that_are_never_read_do_not_accumulate(informer: ScriptedInformer, kind: PendingWrites) -> None:
    for number in range(1000):
        kind.wrote(pod(f"web-{number}", number + 2, f"u{number}"))
        informer.event("ADDED", pod(f"web-{number}", number + 2, f"u{number}"))
    assert len(kind.behind(None)) == 0
    assert not kind


def test_an_undeclared_index_is_named(lister: PluginLister) -> None:
    with pytest.raises(KeyError, match="no index `host`"):
        lister.by_index("host", "a")


def test_a_plugin_observes_a_kind_in_any_version_and_each_informer_once(informer: ScriptedInformer) -> None:
    own = OwnWrites()
    followed = own.follow("apps/v1", "Deployment", informer)  # type: ignore[arg-type]
    assert own.follow("apps/v1", "Deployment", informer) is followed  # type: ignore[arg-type]
    assert own.of("apps", "Deployment") == [followed]
    assert own.of("extensions", "Deployment") == []


@pytest.mark.behaviour("findings3/NC9")
def test_writes_that_a_restore_has_undone_are_forgotten(informer: ScriptedInformer, kind: PendingWrites) -> None:
    kind.wrote(pod("made", 900, "u2"))
    kind.deleted(("default", "back"), "u3")
    kind.wrote(pod("changed", 901, "u4", app="new"))
    informer.relist(500, pod("back", 300, "u3"), pod("changed", 301, "u4", app="old"))
    assert sorted(kind.behind(None)) == ["default/back", "default/changed", "default/made"]
    informer.restores = 1
    assert kind.resolve(("default", "made"), None) is None
    back = kind.resolve(("default", "back"), informer.lister.get("back", "default"))
    assert back is not None
    assert back.resource_version == "300"
    assert kind.behind(None) == []
    # Writes after it count, whatever their versions.
    kind.wrote(pod("made", 501, "u5"))
    assert kind.behind(None) == ["default/made"]
    obj = kind.resolve(("default", "made"), None)
    assert obj is not None
    assert obj.uid == "u5"


@pytest.mark.behaviour("shards/SH54a")
@pytest.mark.parametrize("by", ["namespace", "uid", "owner"])
def test_a_write_of_what_other_replicas_hold_is_not_waited_for(by: Any) -> None:
    informer: Any = ScriptedInformer(shard_by=by)
    informer.relist(1)
    held = {_core.shard_hash("mine")}
    informer.has_place = held.__contains__
    kind = PendingWrites(informer)

    def written(name: str, text: str) -> dict[str, Any]:
        obj = pod(name, 5, uid=text if by == "uid" else "u", namespace=text if by == "namespace" else "default")
        if by == "owner":
            reference = {"apiVersion": "v1", "kind": "Set", "name": "s", "uid": text, "controller": bool(text)}
            obj["metadata"]["ownerReferences"] = [reference]
        kind.wrote(obj)
        return obj

    own = written("own", "mine")["metadata"]
    foreign = written("foreign", "others")["metadata"]
    for metadata, visible in ((own, True), (foreign, False)):
        obj = kind.resolve((metadata["namespace"], metadata["name"]), None)
        assert (obj is not None) == visible
    if by == "owner":
        written("nobody", "")
    assert kind.behind(None) == [f"{own['namespace']}/own"]
    # Once the range has gone, its writes are not waited for either.
    held.clear()
    assert kind.behind(None) == []
