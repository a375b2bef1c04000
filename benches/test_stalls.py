"""What a large store and a large object cost other threads and loops.

A pause that the code causes is in every round, one that the system causes is not: the least of five rounds counts.

The rows are findings/FQ12, FQ13 and FQ15; the tests of the mechanisms name them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.cache import Indexer, Object, SharedInformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

ROUNDS = 5
OBJECTS = 100_000
KEYS = 16_000


def longest_pause(work: Callable[[], object]) -> float:
    """Return the longest time for which a thread that computes in Python had to pause during `work`, in seconds."""
    longest, working = 0.0, True

    def compute() -> None:
        nonlocal longest
        last = time.perf_counter()
        while working:
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now
        # It may have had no turn since.
        longest = max(longest, time.perf_counter() - last)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        work()
    finally:
        working = False
        thread.join()
    return longest


def pods(version: int) -> bytes:
    items = [
        {
            "metadata": {"name": f"pod-{number}", "namespace": f"team-{number % 20}", "resourceVersion": str(version)},
            "spec": {"nodeName": f"node-{number % 500}"},
        }
        for number in range(OBJECTS)
    ]
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": items}).encode()


@pytest.fixture(scope="module")
def lists() -> list[bytes]:
    return [pods(version) for version in (1, 2)]


def relist(informer: SharedInformer, page: bytes) -> None:
    informer.begin_list()
    informer.feed_list(page)
    informer.replace(informer.end_page().resource_version)
    informer.process()


def test_a_reader_of_a_store_that_is_written(ratios: Ratios, lists: list[bytes]) -> None:
    """A thread may keep the interpreter for a switch interval at any time, so no pause counts as shorter than that."""
    informer = SharedInformer("pods", "v1", "Pod")
    relist(informer, lists[0])
    pauses: dict[bool, list[float]] = {False: [], True: []}

    def read(ending: threading.Event) -> None:
        while not ending.wait(0.0005):
            informer.indexer.get_by_key("team-7/pod-7")
            len(informer.indexer)

    for turn in range(1, 2 * ROUNDS + 1):
        ending = threading.Event()
        reader = threading.Thread(target=read, args=(ending,))
        if reads := turn % 2 == 0:
            reader.start()
        # Without the interpreter, as a reflector.
        pauses[reads].append(longest_pause(partial(relist, informer, lists[turn % 2])))
        ending.set()
        if reads:
            reader.join()
    ratios.add(
        "store",
        "longest pause of a computing thread while 100,000 objects are written and others read",
        "s",
        min(pauses[True]),
        without_reader=max(min(pauses[False]), sys.getswitchinterval()),
    )


def test_an_index_on_a_large_store(ratios: Ratios, lists: list[bytes]) -> None:
    indexer = Indexer()
    indexer.replace([Object(json.dumps(item)) for item in json.loads(lists[0])["items"]])
    functions: dict[str, Any] = {"a path": "spec.nodeName", "a function": lambda obj: [obj.name]}
    for name, function in functions.items():
        pauses = [
            longest_pause(partial(indexer.add_indexers, {f"{name} {number}": function})) for number in range(ROUNDS)
        ]
        ratios.add("store", f"longest pause of other threads while {name} indexes 100,000 objects", "s", min(pauses))


def fastest(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def test_a_loop_over_a_view_of_16_000_keys(ratios: Ratios) -> None:
    data = {f"key-{number}": f"value-{number}" for number in range(KEYS)}
    text = json.dumps({"metadata": {"name": "a"}, "data": data, "list": list(data.values())})

    def look_up_keys() -> None:
        view = Object(text)["data"]
        for key in view:
            view[key]

    def look_up_positions() -> None:
        view = Object(text)["list"]
        for at in range(len(view)):
            view[at]

    def all_items() -> None:
        Object(text)["data"].items()

    items = fastest(all_items)
    ratios.add("view", "look-up of each of 16,000 keys", "s", fastest(look_up_keys), items=items)
    ratios.add("view", "look-up of each of 16,000 positions", "s", fastest(look_up_positions), items=items)
