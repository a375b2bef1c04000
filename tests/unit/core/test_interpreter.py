"""Threads that wait for a lock of the core, or work long in it, let others run Python meanwhile."""

from __future__ import annotations

import threading

import pytest

from ctrlhost import _core
from ctrlhost.cache import Indexer, Object, SharedInformer
from tests.support.shared_informers import pod, relist
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@behaviour("findings/FQ12")
def test_a_reader_that_waits_for_a_writer_of_the_store_has_released_the_interpreter() -> None:
    informer = SharedInformer("pods", "v1", "Pod")
    pods = [[pod(f"p{number}", version) for number in range(10_000)] for version in (1, 2)]
    ending = threading.Event()

    def write() -> None:
        version = 0
        while not ending.is_set():
            version += 1
            relist(informer, *pods[version % 2], version=version)

    def read() -> None:
        while not ending.is_set():
            informer.indexer.get_by_key("ns/p1")
            len(informer.indexer)

    before = _core._released()
    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        # This thread runs while the reader waits: it sees the count of such waits grow.
        eventually(lambda: _core._released() > before + 2)
    finally:
        ending.set()
        for thread in threads:
            thread.join(30)
    assert len(informer.indexer) == 10_000


@behaviour("findings/FQ13")
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("work", ["add_indexers", "replace"])
def test_other_threads_run_while_a_large_store_is_changed(work: str) -> None:
    objects = [Object(pod(f"p{number}", node=f"n{number % 7}")) for number in range(20_000)]
    indexer = Indexer()
    indexer.replace(objects)
    ran: list[int] = []
    attempts = 0

    def run(begin: threading.Event) -> None:
        assert begin.wait(30)
        ran.append(1)

    # The other thread is ready to run during the call; when it does is up to the system.
    while not ran:
        attempts += 1
        assert attempts < 20
        begin = threading.Event()
        other = threading.Thread(target=run, args=(begin,))
        other.start()
        begin.set()
        ran.clear()
        if work == "replace":
            indexer.replace(objects)
        else:
            indexer.add_indexers({f"node {attempts}": "metadata.node"})
            assert len(indexer.by_index(f"node {attempts}", "n3")) == len(range(3, 20_000, 7))
        during = list(ran)
        other.join(30)
        ran[:] = during
