"""The threads of the webhooks of one plugin."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from ctrlhost.entries import Entries
from ctrlhost.host.webhooks.pool import QUEUE, THREADS, Ended, Full, WebhookPool
from tests.support.waiting import eventually

PATH = "/validate/p/w"


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def entries(failures: list[str]) -> Entries:
    return Entries("p", fail=failures.append)


@pytest.fixture
def pool(entries: Entries) -> WebhookPool:
    return WebhookPool("p", entries)


def submitted(pool: WebhookPool, released: threading.Event, count: int, seconds: float = 5.0) -> list[Future[Any]]:
    return [pool.submit(PATH, lambda: released.wait(30), seconds) for _ in range(count)]


def test_a_pool_runs_eight_calls_and_queues_sixty_four(pool: WebhookPool) -> None:
    released = threading.Event()
    calls = submitted(pool, released, THREADS + QUEUE)
    with pytest.raises(Full):
        pool.submit(PATH, lambda: None, 5.0)
    eventually(lambda: pool.load() == (THREADS, 0, QUEUE))
    # A call that nobody waits for any more leaves the queue.
    assert calls[-1].cancel()
    assert not calls[0].cancel()
    assert pool.load().queued == QUEUE - 1
    calls[-1] = pool.submit(PATH, lambda: True, 5.0)
    released.set()
    assert [call.result(30) for call in calls] == [True] * len(calls)
    eventually(lambda: pool.load() == (0, 0, 0))


def test_what_a_call_raises_reaches_the_caller_and_the_thread_goes_on(pool: WebhookPool) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        pool.submit(PATH, leave, 5.0).result(30)
    assert pool.submit(PATH, lambda: 7, 5.0).result(30) == 7


def test_at_the_end_what_waits_fails_and_what_runs_may_finish(pool: WebhookPool) -> None:
    released = threading.Event()
    *running, waiting = submitted(pool, released, THREADS + 1)
    eventually(lambda: pool.load().running == THREADS)
    pool.end()
    with pytest.raises(Ended):
        waiting.result(30)
    with pytest.raises(Ended):
        pool.submit(PATH, lambda: None, 5.0)
    released.set()
    assert all(call.result(30) for call in running)


def test_a_call_that_hangs_is_overdue_at_its_deadline_and_restarts_the_plugin_after_a_minute(
    pool: WebhookPool, entries: Entries, failures: list[str]
) -> None:
    released = threading.Event()
    submitted(pool, released, 1, seconds=4.5)
    (entry,) = eventually(entries.running)

    def pass_by(seconds: float) -> None:
        entry.excuse(-seconds)
        entries.check(0.0)

    pass_by(4.0)
    assert pool.load().overdue == 0
    pass_by(1.0)
    assert (pool.load().overdue, pool.overdue(PATH), pool.overdue("/validate/p/other")) == (1, 1, 0)
    assert f"webhook of {PATH} is beyond its deadline of 4.5 s" in entries.degraded["slow"]
    # The threads of webhooks are never more than eight, so they are not counted as those that hang.
    assert (entries.stuck(), failures) == (0, [])
    pass_by(60.0)
    (reason,) = failures
    assert reason.startswith(f"webhook of {PATH} has not returned after 6")
    released.set()
    eventually(lambda: not entries.degraded)
