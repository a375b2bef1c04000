"""Jobs of a pass over the daemons, when the host stops in the middle of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from ctrlhost_bitcoin.mesh.bounded_pool import Lanes

FOR_EVER = 600.0


def test_nobody_waits_for_jobs_that_can_not_begin_any_more() -> None:
    pool, free, done = ThreadPoolExecutor(1), threading.Event(), []
    pool.submit(free.wait)
    lanes = Lanes(pool, 4, lambda: True)
    lanes.add(lambda: done.append("before"))
    pool.shutdown(wait=False, cancel_futures=True)
    lanes.add(lambda: done.append("after"))
    lanes.wait(FOR_EVER)
    assert not lanes.may_go_on()
    free.set()
    assert done == []


def test_jobs_of_jobs_are_waited_for() -> None:
    with ThreadPoolExecutor(2) as pool:
        lanes, done = Lanes(pool, 2, lambda: True), []

        def first() -> None:
            lanes.add(lambda: done.append("second"))
            done.append("first")

        lanes.add(first)
        assert lanes.wait(FOR_EVER)
        assert sorted(done) == ["first", "second"]
