"""Lists of ranges that come: four at a time, spread after a death, by the requests on a server that a test scripts."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from ctrlhost.client import Client
from ctrlhost.clock import Clock
from ctrlhost.informers import Informer, held_ranges
from ctrlhost.reflector.list_slots import SLOTS, ListSlots
from ctrlhost.testing import ManualClock
from tests.support.sharded_informers import ShardedRig, only
from tests.support.stub_api_server import (
    Answer,
    Computed,
    Failure,
    Frames,
    Json,
    ReceivedRequest,
    StubApiServer,
    event,
    pod,
    pod_list,
)
from tests.support.waiting import eventually

PODS = "/api/v1/pods"
A, B, C = "uid-a", "uid-b", "uid-c"
INFORMERS = 6


class Pods:
    """Informers of pods by label; the server answers lists while the gate is open, in which each has `a`, `b`, `c`."""

    def __init__(self, server: StubApiServer, client: Client, clock: Clock | None = None) -> None:
        self.rig = ShardedRig(client, label_selector="n=0", clock=clock)
        self.server = server
        self.gate = threading.Semaphore(0)
        #: The watch of each informer that was opened last.
        self.watches: dict[str, Frames] = {}
        self.failures: list[Failure] = []
        self.informers: dict[str, Informer] = {"n=0": self.rig.informer}
        self._lists: Counter[str] = Counter()
        server.on("GET", PODS, Computed(self._answer))

    def add(self, count: int) -> None:
        for number in range(1, count):
            label = f"n={number}"
            self.informers[label] = self.rig.factory.informer("v1", "Pod", label_selector=label, shard_by="uid")

    def _answer(self, request: ReceivedRequest) -> Answer:
        label = request.query["labelSelector"]
        if request.query.get("watch"):
            self.watches[label] = Frames()
            return self.watches[label]
        self._lists[label] += 1
        while not self.gate.acquire(timeout=0.05):
            if self.server.stopping.is_set():
                break
        return self.failures.pop() if self.failures else Json(pod_list(9, pod("a", 1), pod("b", 2), pod("c", 3)))

    @property
    def lists(self) -> int:
        return self._lists.total()

    def have(self, *names: str) -> bool:
        contents = [{obj.name for obj in informer.lister.list()} for informer in self.informers.values()]
        return contents == [set(names)] * len(self.informers)

    def asked(self) -> list[str]:
        """Return the informers that have requested lists, in order."""
        return [request.query["labelSelector"] for request in self.server.received(watch=False)]

    def listed(self, count: int) -> None:
        """Wait until so many lists were requested."""
        eventually(lambda: self.lists == count, what=f"{count} lists")

    def release(self, count: int = 1) -> None:
        self.gate.release(count)


@pytest.fixture
def client(server: StubApiServer) -> Iterator[Client]:
    client = Client(server.url)
    yield client
    client.close()


@pytest.fixture
def pods(server: StubApiServer, client: Client) -> Iterator[Pods]:
    pods = Pods(server, client)
    pods.add(INFORMERS)
    yield pods
    pods.release(1000)
    pods.rig.factory.stop()


def test_four_run_and_the_others_follow_in_order():
    slots, woken = ListSlots(), []
    granted = [slots.ask(number, lambda number=number: woken.append(number)) for number in range(SLOTS + 3)]
    assert granted == [True] * SLOTS + [False] * 3
    assert slots.ask(0, lambda: woken.append("again")), "its turn lasts"
    slots.end("nobody")
    assert not slots.ask(SLOTS + 1, lambda: woken.append("asked again")), "it keeps its place"
    slots.end(SLOTS)
    assert woken == [], "one that waits no longer makes no room"
    slots.end(0)
    assert woken == ["asked again"]
    assert slots.ask(SLOTS + 1, lambda: None)
    slots.end(1)
    assert woken == ["asked again", SLOTS + 2]
    for number in range(SLOTS + 3):
        slots.end(number)
    assert all(slots.ask(name, lambda: None) for name in "abcd")
    assert not slots.ask("e", lambda: None)


@pytest.mark.behaviour("shards/SH53")
def test_ranges_that_come_are_listed_by_four_informers_at_a_time_and_the_others_watch_on(pods):
    pods.rig.hold(only(A))
    pods.rig.factory.start()
    pods.listed(SLOTS)
    pods.release()
    pods.listed(SLOTS + 1)
    pods.release(INFORMERS - 1)
    eventually(lambda: pods.have("a") and len(pods.watches) == INFORMERS)
    first = dict(pods.watches)
    pods.rig.hold(only(A, B))
    pods.listed(INFORMERS + SLOTS)
    eventually(lambda: sum(frames.closed.is_set() for frames in first.values()) == SLOTS)
    waiting = [label for label, frames in first.items() if not frames.closed.is_set()]
    for label in waiting:
        first[label].send_event(event("DELETED", pod("a", 10)))
    eventually(lambda: all(not pods.informers[label].lister.list() for label in waiting), what="they watch on")
    assert pods.lists == INFORMERS + SLOTS
    # Those that wait list what is wanted when it is their turn.
    pods.rig.hold(only(A, C))
    pods.release()
    pods.listed(INFORMERS + SLOTS + 1)
    pods.release(1000)
    eventually(lambda: all({obj.name for obj in each.lister.list()} >= {"c"} for each in pods.informers.values()))
    assert not any("b" in {obj.name for obj in each.lister.list()} for each in pods.informers.values())


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_ranges, "ListSlots", lambda: ListSlots(1))


@pytest.mark.usefixtures("one_at_a_time")
def test_one_that_ends_makes_room_and_one_that_waits_can_end(server, client):
    pods = Pods(server, client)
    pods.add(3)
    try:
        pods.rig.hold(only(A))
        pods.rig.factory.start()
        pods.listed(1)
        reflectors = {label: informer.parts[0].reflector for label, informer in pods.informers.items()}
        (busy,) = pods.asked()
        first, second = sorted(reflectors.keys() - {busy})
        reflectors[first].stop()
        assert reflectors[first].join(30)
        reflectors[busy].stop()
        pods.release()
        pods.listed(2)
        assert pods.asked() == [busy, second]
    finally:
        pods.release(1000)
        pods.rig.factory.stop()


@pytest.mark.usefixtures("one_at_a_time")
def test_one_that_backs_off_lets_others_list_and_waits_as_long_as_the_server_says(server, client):
    clock = ManualClock()
    pods = Pods(server, client, clock)
    pods.add(2)
    pods.failures = [Failure(429, "TooManyRequests", "later", retry_after=7)]
    try:
        pods.rig.hold(only(A))
        pods.rig.factory.start()
        pods.listed(1)
        pods.release()
        pods.listed(2)
        refused, other = pods.asked()
        assert refused != other
        pods.release()
        eventually(lambda: pods.informers[other].lister.list())
        eventually(lambda: [deadline for _, deadline in clock.deadlines() if deadline == 7])
        assert pods.lists == 2
        clock.advance(7)
        pods.release()
        eventually(lambda: pods.have("a"))
    finally:
        pods.release(1000)
        pods.rig.factory.stop()


def test_lists_after_a_death_are_spread(server, client, monkeypatch):
    clock = ManualClock()
    pods = Pods(server, client, clock)
    try:
        pods.release(1000)
        pods.rig.hold(only(A))
        pods.rig.factory.start()
        eventually(lambda: pods.have("a") and pods.watches)
        monkeypatch.setattr(random, "uniform", lambda least, most: least + 0.75 * (most - least))
        pods.rig.hold(only(A, B), spread=1.0)
        eventually(lambda: [deadline for _, deadline in clock.deadlines() if deadline == 0.75])
        assert pods.lists == 1
        clock.advance(0.75)
        eventually(lambda: pods.have("a", "b"))
        pods.rig.hold(only(A, B, C))
        eventually(lambda: pods.have("a", "b", "c"), what="others are listed at once")
        assert clock.now() == 0.75
    finally:
        pods.rig.factory.stop()
