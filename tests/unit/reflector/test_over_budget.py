"""Informers whose objects the memory budget has no room for."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ctrlhost.testing import ManualClock
from tests.support.informer_rig import PODS, Rig
from tests.support.recording_handler import RecordingHandler
from tests.support.stub_api_server import (
    Answer,
    Computed,
    Frames,
    Json,
    ReceivedRequest,
    StubApiServer,
    bookmark,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import eventually

BUDGET = 1 << 20
#: The budget holds about 100 pods of this size.
SIZE = 10_000
#: Seconds after which an informer over the budget lists again.
RETRY = 300.0
#: By how much a budget may be exceeded: one buffer and one object.
BEYOND = (256 << 10) + SIZE


class Pods:
    """Large pods of a server, which it lists in pages or as a stream."""

    def __init__(self, server: StubApiServer, count: int, path: str = PODS, kind: str = "Pod") -> None:
        self.kind = kind
        self.version = 1000
        self.pods = {name: self._pod(name, 1) for name in range(count)}
        self.watches: list[Frames] = []
        self.lists = 0
        server.on("GET", path, Computed(self._answer))

    def _pod(self, name: int, version: int) -> dict[str, Any]:
        types = {"kind": self.kind, "apiVersion": "v1"}
        return {**types, **pod(f"pod-{name:03}", version), "spec": {"nodeName": "x" * SIZE}}

    def _answer(self, request: ReceivedRequest) -> Answer:
        query = request.query
        if query.get("watch"):
            initial = []
            if query.get("sendInitialEvents"):
                self.lists += 1
                initial = [event("ADDED", pod) for pod in self.pods.values()]
                initial.append(bookmark(self.version, initial_end=True))
            self.watches.append(Frames(*initial))
            return self.watches[-1]
        names, first = sorted(self.pods), int(query.get("continue", 0))
        limit = int(query.get("limit", 0)) or len(names)
        self.lists += first == 0 and limit != 1
        items = [self.pods[name] for name in names[first : first + limit]]
        rest = len(names) - first - len(items)
        page = {"continue_": str(first + limit), "remaining": rest} if rest else {}
        return Json({**pod_list(self.version, *items, **page), "kind": f"{self.kind}List"})

    def add(self, *names: int) -> None:
        for name in names:
            self.version += 1
            self.pods[name] = self._pod(name, self.version)
            self._tell("ADDED", self.pods[name])

    def delete(self, *names: int) -> None:
        for name in names:
            self.version += 1
            gone = self.pods.pop(name)
            gone["metadata"]["resourceVersion"] = str(self.version)
            self._tell("DELETED", gone)

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        """Send an event to the newest watch; nobody reads one that was closed."""
        eventually(lambda: self.watches)
        self.watches[-1].send_event(event(kind, obj))


def value(rig: Rig, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(rig.factory.metrics)
    informer = {"name": rig.pods.key, "group": "", "version": "v1", "resource": "pods"}
    return registry.get_sample_value(name, labels if name == "ctrlhost_memory_budget_bytes" else informer | labels)


def memory(informer: Any) -> int:
    return sum(sum(part.engine.stats()["memory"].values()) for part in informer.parts)


def over_budget(rig: Rig, clock: ManualClock) -> str:
    """Wait until the informer waits for its next attempt; return the reason."""
    eventually(lambda: rig.pods.state == "over budget" and clock.waiters() == 1)
    return str(rig.pods.reason)


def attempt(rig: Rig, clock: ManualClock, pods: Pods) -> None:
    """Advance the clock to the next attempt, before which there is none."""
    lists = pods.lists
    clock.advance(RETRY - 1)
    over_budget(rig, clock)
    assert pods.lists == lists
    clock.advance(1)
    eventually(lambda: pods.lists > lists)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_first_list_that_fits_only_compressed_is_tried_again_once_there_is_a_dictionary(rig_with, streaming):
    clock = ManualClock()
    rig = rig_with(clock=clock, memory_budget=3 * BUDGET, page_size=50, watch_list=streaming)
    pods = Pods(rig.server, 600)
    rig.start()
    assert "memory budget" in over_budget(rig, clock)

    def synced() -> bool:
        # An attempt may find that the dictionary is still being learnt.
        if clock.waiters() and rig.pods.state == "over budget":
            clock.advance(5)
        return bool(rig.pods.has_synced)

    eventually(synced)
    assert pods.lists > 1
    assert len(rig.pods.indexer) == 600
    assert memory(rig.pods) <= 3 * BUDGET


@pytest.mark.behaviour("scale/SC109")
@pytest.mark.parametrize("streaming", [False, True])
def test_a_first_list_over_the_budget_ends_and_is_tried_again(rig_with, streaming, caplog):
    clock = ManualClock()
    rig = rig_with(clock=clock, memory_budget=BUDGET, page_size=20, watch_list=streaming)
    pods, handler = Pods(rig.server, 1000), RecordingHandler()
    small = {**pod_list(5, pod("other", 4)), "kind": "ConfigMapList"}
    initial = [event("ADDED", {**pod("other", 4), "kind": "ConfigMap"}), bookmark(5, initial_end=True)]
    serve(rig.server, "/api/v1/configmaps", [Json(small)], [Frames(*(initial if streaming else []))])
    other = rig.factory.informer("v1", "ConfigMap")
    handler.to(rig.pods)
    rig.start()
    reason = over_budget(rig, clock)
    counts = reason.removeprefix("memory budget of 1 MiB reached after ").removesuffix(" more were to come")
    objects, more = (int(count) for count in counts.split(" objects; about "))
    assert 90 < objects < 105
    assert objects + more == 1000
    eventually(lambda: other.has_synced)
    assert rig.factory.budget.used == memory(other)
    assert (rig.pods.status().objects, memory(rig.pods)) == (0, 0)
    assert not rig.pods.has_synced
    assert value(rig, "ctrlhost_informer_over_budget") == 1
    assert value(rig, "ctrlhost_informer_state", state="over budget") == 1
    assert value(rig, "ctrlhost_memory_budget_bytes") == BUDGET
    assert handler.events == []
    assert f"cannot list Pod: {reason}" in caplog.text
    attempt(rig, clock, pods)
    assert over_budget(rig, clock) == reason
    pods.pods = {name: pod for name, pod in pods.pods.items() if name < 50}
    attempt(rig, clock, pods)
    eventually(lambda: (rig.pods.state, rig.pods.reason) == ("watching", ""))
    eventually(lambda: rig.pods.has_synced and len(handler.events) == 50)
    assert value(rig, "ctrlhost_informer_over_budget") == 0
    assert [obj.name for obj in other.lister.list()] == ["other"]


@pytest.mark.behaviour("scale/SC109")
def test_an_informer_over_the_budget_lists_again_when_others_end_or_are_declared(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, memory_budget=BUDGET)
    pods = Pods(rig.server, 60)
    held = Pods(rig.server, 60, "/api/v1/configmaps", "ConfigMap")
    other = rig.factory.informer("v1", "ConfigMap")
    other.start()
    eventually(lambda: other.has_synced)
    rig.start()
    over_budget(rig, clock)
    lists = pods.lists
    rig.factory.declare("v1", "Secret")
    eventually(lambda: pods.lists > lists)
    over_budget(rig, clock)
    assert held.lists == 1
    other.release()
    eventually(lambda: rig.pods.has_synced)


@pytest.mark.behaviour("scale/SC110")
@pytest.mark.parametrize("streaming", [False, True])
def test_a_cache_that_grows_over_the_budget_waits_complete_until_a_list_fits(rig_with, streaming, caplog):
    clock = ManualClock()
    rig = rig_with(clock=clock, memory_budget=BUDGET, watch_list=streaming)
    pods, handler = Pods(rig.server, 70), RecordingHandler()
    handler.to(rig.pods)
    rig.synced()
    eventually(lambda: len(handler.events) == 70)
    pods.add(*range(100, 150))
    reason = over_budget(rig, clock)
    held = rig.held()
    added = len(held) - 70
    # All up to a version, and nothing of what came after it.
    assert set(held) == {f"pod-{name:03}" for name in [*range(70), *range(100, 100 + added)]}
    assert rig.pods.last_resource_version == str(1000 + added)
    stays = f"the cache stays as of version {1000 + added}"
    assert reason == f"memory budget of 1 MiB reached after {len(held)} objects; {stays}"
    assert pods.watches[-1].closed.wait(10)
    assert rig.pods.has_synced
    assert value(rig, "ctrlhost_informer_over_budget") == 1
    assert value(rig, "ctrlhost_informer_synced") == 1
    assert value(rig, "informer_store_resource_version") == 1000 + added
    assert rig.pods.status().state_age == 0
    assert rig.factory.budget.used == memory(rig.pods) <= BUDGET + BEYOND
    assert "informers use" in caplog.text
    eventually(lambda: len(handler.events) == 70 + added)

    # More than fits is there still.
    pods.delete(0, 1, 2)
    attempt(rig, clock, pods)
    over_budget(rig, clock)
    assert rig.held() == held
    assert len(handler.events) == 70 + added
    assert rig.pods.last_resource_version == str(1000 + added)

    # What is gone makes room for what is new.
    pods.delete(*range(3, 60))
    attempt(rig, clock, pods)
    eventually(lambda: rig.pods.state == "watching")
    rig.holds(**{pod["metadata"]["name"]: int(pod["metadata"]["resourceVersion"]) for pod in pods.pods.values()})
    assert rig.pods.last_resource_version == str(pods.version)
    missing = [f"pod-{name:03}" for name in range(100 + added, 150)]
    eventually(lambda: len(handler.events) == 70 + added + len(missing) + 60)
    differences = handler.events[70 + added :]
    assert sorted(name for kind, name in differences if kind == "add") == missing
    assert sorted(name for kind, name in differences if kind == "delete") == [f"pod-{name:03}" for name in range(60)]
    assert value(rig, "ctrlhost_informer_over_budget") == 0
    pods.add(200)
    eventually(lambda: "pod-200" in rig.held())


@pytest.mark.behaviour("scale/SC111")
def test_informers_share_one_budget_and_only_the_one_whose_event_does_not_fit_waits(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, memory_budget=BUDGET)
    kinds = ["Pod", "ConfigMap", "Secret", "Service", "Endpoints"]
    served = {}
    for kind in kinds:
        served[kind] = Pods(rig.server, 15, f"/api/v1/{kind.lower().removesuffix('s')}s", kind)
    informers = {kind: rig.factory.informer("v1", kind) for kind in kinds}
    rig.synced()
    served["Pod"].add(*range(100, 150))
    over_budget(rig, clock)
    used = sum(memory(informer) for informer in informers.values())
    assert rig.factory.budget.used == used <= BUDGET + BEYOND
    assert len(informers["Pod"].lister.list()) > 30
    for kind in kinds[1:]:
        served[kind].delete(3, 4)
        eventually(lambda kind=kind: len(informers[kind].lister.list()) == 13)
        assert informers[kind].state == "watching"
    assert rig.pods.state == "over budget"
