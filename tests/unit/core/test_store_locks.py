"""Waits for the lock of a store, and what runs meanwhile."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost import _core
from ctrlhost.cache import Indexer, Object, SharedInformer
from ctrlhost.informers.lister import Lister
from tests.support.shared_informers import pod, relist
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@pytest.fixture
def indexer() -> Indexer:
    """More objects than are copied with the interpreter."""
    indexer = Indexer()
    indexer.replace(Object(pod(f"p{number}", node="one")) for number in range(2_000))
    indexer.add_indexers({"node": "metadata.node"})
    return indexer


CALLS: dict[str, Callable[[Indexer], Any]] = {
    "get": lambda indexer: indexer.get_by_key("ns/p1"),
    "list": lambda indexer: len(indexer.list()) == 2_000,
    "list_keys": lambda indexer: len(indexer.list_keys()) == 2_000,
    "by_index": lambda indexer: len(indexer.by_index("node", "one")) == 2_000,
    "index": lambda indexer: len(indexer.index("node", pod("p1", node="one"))) == 2_000,
    "select": lambda indexer: len(indexer.select("ns", [("gone", None, True)])) == 2_000,
    "len": lambda indexer: len(indexer) == 2_000,
    "add": lambda indexer: indexer.add(pod("p1", node="one")) is None,
    "add_indexers": lambda indexer: indexer.add_indexers({"other": "metadata.node"}) is None,
}


@behaviour("scale/SC116")
@pytest.mark.parametrize("call", list(CALLS))
def test_who_waits_for_the_lock_of_a_store_lets_others_compute(indexer: Indexer, call: str) -> None:
    held, release = threading.Event(), threading.Event()
    answers: list[Any] = []

    def hold() -> None:
        # The holder needs the interpreter, too: whoever waits for the lock with it would wait for ever.
        held.set()
        assert release.wait(30)

    before = _core._released()
    holder = threading.Thread(target=indexer._hold, args=(hold,))
    caller = threading.Thread(target=lambda: answers.append(CALLS[call](indexer)))
    counts = itertools.count()
    holder.start()
    try:
        assert held.wait(30)
        caller.start()
        # This thread computes while the caller waits, be it attached or not.
        if call in ("get", "len", "add", "list", "list_keys", "by_index", "select"):
            eventually(lambda: next(counts) and _core._released() > before)
        computed = next(counts)
        while next(counts) < computed + 100_000:
            assert caller.is_alive()
            assert not answers
    finally:
        release.set()
    for thread in (holder, caller):
        thread.join(30)
        assert not thread.is_alive()
    assert len(answers) == 1
    assert answers[0]


@behaviour("scale/SC116")
def test_no_order_of_holders_and_callers_is_a_deadlock(indexer: Indexer) -> None:
    """Each thread has the lock and computes under it, or calls the store, in turns that differ."""
    calls = [CALLS[name] for name in ("get", "list", "by_index", "add")]

    def work(first: int) -> None:
        for turn in range(first, first + 40):
            if turn % 3 == 0:
                assert indexer._hold(lambda: sum(range(1_000))) == 499_500
            else:
                assert calls[turn % len(calls)](indexer)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@behaviour("scale/SC116")
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("call", ["list", "list_keys", "by_index", "index", "select"])
def test_a_call_that_copies_many_pointers_lets_others_run(indexer: Indexer, call: str) -> None:
    ran: list[int] = []

    def run(begin: threading.Event) -> None:
        assert begin.wait(30)
        ran.append(1)

    # The other thread is ready to run during the call; when it does is up to the system.
    for _ in range(200):
        begin = threading.Event()
        other = threading.Thread(target=run, args=(begin,))
        other.start()
        begin.set()
        ran.clear()
        assert CALLS[call](indexer)
        during = list(ran)
        other.join(30)
        if during:
            return
    pytest.fail("no other thread ran during any of the calls")


@behaviour("scale/SC117")
def test_an_index_function_may_read_the_store_and_the_lister() -> None:
    informer = SharedInformer("pods", "v1", "Pod")
    indexer = informer.indexer
    lister = Lister(indexer)
    plain = Indexer()
    calls: list[int] = []

    def reading(obj: Object) -> list[str]:
        for store in (indexer, plain):
            store.get_by_key(obj.key)
            store.list_keys()
            len(store)
            store.by_index("namespace", obj.namespace)
        lister.list(obj.namespace, "app")
        lister.get(obj.name, obj.namespace)
        calls.append(1)
        return [obj.name]

    relist(informer, *[pod(f"p{number}", 1) for number in range(20)], version=1)
    plain.replace([pod(f"p{number}", 1) for number in range(20)])

    def add() -> None:
        for store in (indexer, plain):
            store.add_indexers({"reading": reading})

    def write() -> None:
        for version in range(2, 6):
            relist(informer, *[pod(f"p{number}", version) for number in range(20)], version=version)
            for number in range(20):
                plain.update(pod(f"p{number}", version))
            plain.transaction([("update", pod(f"p{number}", version)) for number in range(100)])

    threads = [threading.Thread(target=work) for work in (add, write, write)]
    for thread in threads[:2]:
        thread.start()
    for thread in threads[:2]:
        thread.join(60)
        assert not thread.is_alive()
    # Once more with the index in place.
    threads[2].start()
    threads[2].join(60)
    assert not threads[2].is_alive()
    assert calls
    for store, count in ((indexer, 20), (plain, 100)):
        assert len(store.list_index_func_values("reading")) == count
        assert [obj.name for obj in store.by_index("reading", "p7")] == ["p7"]
