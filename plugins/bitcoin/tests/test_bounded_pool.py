"""Jobs of a pass over the daemons, when the host stops in the middle of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from ctrlhost_bitcoin.mesh.bounded_pool import BoundedPool

FOR_EVER = 600.0


def test_nobody_waits_for_jobs_that_can_not_begin_any_more() -> None:
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


def test_jobs_of_jobs_are_waited_for() -> None:
    with ThreadPoolExecutor(2) as executor:
        pool, done = BoundedPool(executor, 2, lambda: True), []

        def first() -> None:
            pool.add(lambda: done.append("second"))
            done.append("first")

        pool.add(first)
        assert pool.wait(FOR_EVER)
        assert sorted(done) == ["first", "second"]
