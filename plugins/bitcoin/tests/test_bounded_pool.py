"""The jobs of a pass, also when the host stops during it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from ctrlhost_bitcoin.mesh.bounded_pool import BoundedPool

FOR_EVER = 600.0


def test_wait_returns_when_the_executor_starts_no_more_jobs() -> None:
    executor, free, done = ThreadPoolExecutor(1), threading.Event(), []
    executor.submit(free.wait)
    pool = BoundedPool(executor, 4, lambda: True)
    pool.add(lambda: done.append("before"))
    executor.shutdown(wait=False, cancel_futures=True)
    pool.add(lambda: done.append("after"))
    pool.wait(FOR_EVER)
    assert not pool.may_continue()
    free.set()
    assert done == []


def test_wait_includes_jobs_added_by_jobs() -> None:
    with ThreadPoolExecutor(2) as executor:
        pool, done = BoundedPool(executor, 2, lambda: True), []

        def first() -> None:
            pool.add(lambda: done.append("second"))
            done.append("first")

        pool.add(first)
        assert pool.wait(FOR_EVER)
        assert sorted(done) == ["first", "second"]
