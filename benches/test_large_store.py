"""What a store with a million objects costs those who use others, or only a part of it.

A pause that the code causes is in every round, one that the system causes is not: the least of a few rounds counts.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from benches.test_stalls import longest_pause
from ctrlhost.cache import SharedInformer
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.switch_interval import switching_after
from ctrlhost.informers.lister import Lister

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

pytestmark = pytest.mark.scale

ROUNDS = 3
EVENTS = 20_000
NAMESPACE = 200


@pytest.fixture(scope="module")
def pieces() -> list[bytes]:
    """A list in pieces; each namespace has 200 objects."""
    objects, step = 1_000_000, 10_000

    def item(number: int) -> bytes:
        labels = {"app": f"app-{number % 7}", "tier": "web", "pod-template-hash": f"{number % 50:010}"}
        namespace = f"team-{number // NAMESPACE}"
        metadata = {
            "name": f"pod-{number}",
            "namespace": namespace,
            "uid": f"{number:032}",
            "resourceVersion": "1",
            "labels": labels,
        }
        return json.dumps({"metadata": metadata}).encode()

    def part(first: int) -> bytes:
        return (b"," if first else b"") + b",".join(item(number) for number in range(first, first + step))

    return [b'{"kind":"PodList","items":[', *map(part, range(0, objects, step)), b"]}"]


def relist(informer: SharedInformer, pieces: list[bytes]) -> None:
    informer.begin_list()
    for piece in pieces:
        informer.feed_list(piece)
    informer.end_page()
    informer.replace("1")
    informer.process()


def filled(pieces: list[bytes]) -> SharedInformer:
    informer = SharedInformer("pods", "v1", "Pod")
    relist(informer, pieces)
    return informer


def delays(informer: SharedInformer, going: Callable[[], bool]) -> list[float]:
    """Return what events of an informer take, from their bytes to the store, one after the other."""
    taken = []
    for version in range(EVENTS):
        metadata = {"name": f"one-{version % 100}", "resourceVersion": str(version)}
        frame = json.dumps({"type": "MODIFIED", "object": {"metadata": metadata}}).encode() + b"\n"
        start = time.perf_counter()
        informer.feed_watch(frame)
        informer.process()
        taken.append(time.perf_counter() - start)
        if not going():
            break
    return taken


def p99(taken: list[float]) -> float:
    return sorted(taken)[len(taken) * 99 // 100]


@pytest.mark.behaviour("scale/SC124")
def test_events_beside_a_relist(ratios: Ratios, pieces: list[bytes]) -> None:
    """List a large informer anew, without a change, while another gets events."""
    large, small = filled(pieces), SharedInformer("pods", "v1", "Pod")
    alone, beside = [], []
    for _ in range(ROUNDS):
        alone.append(p99(delays(small, lambda: True)))
        thread = threading.Thread(target=relist, args=(large, pieces))
        thread.start()
        beside.append(p99(delays(small, thread.is_alive)))
        thread.join()
    name = "event of another informer beside a relist, p99"
    ratios.add("large store", name, "s", min(beside), alone=min(alone))


@pytest.mark.behaviour("scale/SC125")
def test_a_selector_in_a_namespace(ratios: Ratios, pieces: list[bytes]) -> None:
    informer = filled(pieces)
    lister, taken = Lister(informer.indexer), []
    for _ in range(500):
        start = time.perf_counter()
        objects = lister.list("team-7", "app in (app-1,app-2,app-3),!gone")
        taken.append(time.perf_counter() - start)
    assert NAMESPACE / 3 < len(objects) < NAMESPACE / 2
    ratios.add("large store", f"list of a namespace of {NAMESPACE} by labels", "s", min(taken))


@pytest.mark.behaviour("scale/SC127")
def test_the_end_of_a_large_store(ratios: Ratios, pieces: list[bytes]) -> None:
    def timed(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    pauses, callers, stops = [], [], []
    for _ in range(ROUNDS):
        indexers = [filled(pieces).indexer]
        pauses.append(longest_pause(indexers.clear))
        indexers = [filled(pieces).indexer]
        callers.append(timed(indexers.clear))
        informers = [filled(pieces)]

        def stop(informers: list[SharedInformer] = informers) -> None:
            informers[0].stop()
            informers.clear()

        stops.append(timed(stop))
    ratios.add("large store", "longest pause of other threads while a store is dropped", "s", min(pauses))
    ratios.add("large store", "pause of the caller that drops a store", "s", min(callers))
    ratios.add("large store", "pause of the caller that stops and drops an informer", "s", min(stops))


def waits(work: Callable[[], object], seconds: float) -> list[float]:
    """Return how much longer than asked for a thread slept each time, while `work` runs again and again in another."""
    working, taken = True, []

    def again() -> None:
        while working:
            work()

    thread = threading.Thread(target=again)
    thread.start()
    begun = time.perf_counter()
    while (start := time.perf_counter()) < begun + seconds:
        time.sleep(0.001)
        taken.append(time.perf_counter() - start - 0.001)
    working = False
    thread.join()
    return taken


@pytest.mark.behaviour("faster/FA9")
def test_other_threads_beside_a_store_of_100_000(ratios: Ratios, pieces: list[bytes]) -> None:
    """Write it by a list and read all of it by another one, against the same with a store of no objects.

    With the switch interval of a host.
    """
    of_100_000, of_none = [*pieces[:11], pieces[-1]], [pieces[0], pieces[-1]]
    rounds: list[list[float]] = []
    for content in (of_none, of_100_000):
        informer = filled(content)

        def write_and_list(informer: SharedInformer = informer, content: list[bytes] = content) -> None:
            relist(informer, content)
            informer.indexer.list()

        with switching_after(HostSettings().switch_interval):
            rounds.append([p99(waits(write_and_list, 2.0)) for _ in range(ROUNDS)])
    empty, full = rounds
    name = "wait of other threads while it is written and listed, p99"
    ratios.add("large store", name, "s", min(full), empty_store=min(empty))
