"""Threads, signals, forks and the exit of the interpreter."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from typing import Any

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ShutDown, WorkQueue
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background, wait_for_sleepers

CYCLES = int(os.environ.get("CTRLHOST_LEAK_CYCLES", "200000"))
STRESS_ADDS = int(os.environ.get("CTRLHOST_STRESS_ADDS", "1000"))


def test_a_blocked_thread_does_not_block_others() -> None:
    work_queue = WorkQueue()
    getter = Background(work_queue.get)
    assert sum(range(100_000)) > 0
    work_queue.add("foo")
    assert getter.result() == "foo"


class Interrupted(Exception):
    pass


@pytest.fixture
def alarm() -> Any:
    """Raise in the main thread shortly, through a signal."""

    def handler(*_: object) -> None:
        raise Interrupted

    former = signal.signal(signal.SIGALRM, handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["machine", "manual"])
def test_a_signal_interrupts_the_main_thread(alarm: Any, clock: ManualClock | None) -> None:
    work_queue = WorkQueue(clock=clock)
    work_queue.add_after("later", 3600)
    for wait in (work_queue.get, work_queue.get_with_priority, lambda: work_queue.get_batch(3)):
        alarm()
        with pytest.raises(Interrupted):
            wait()
    work_queue.add("held")
    work_queue.get()
    alarm()
    with pytest.raises(Interrupted):
        work_queue.shut_down_with_drain()
    assert work_queue.shutting_down


def test_a_signal_handler_may_use_the_queue_that_blocks_the_main_thread() -> None:
    work_queue = WorkQueue()

    def handler(*_: object) -> None:
        work_queue.add("inner")
        assert work_queue.get() == "inner"
        work_queue.done("inner")
        work_queue.add_many(["from the handler"])
        assert len(work_queue) == 1

    former = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert work_queue.get(timeout=20) == "from the handler"
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_key_added_together_with_a_signal_is_not_lost(alarm: Any) -> None:
    work_queue = WorkQueue()
    clock = ManualClock()
    other_queue = WorkQueue(clock=clock)
    for _ in range(3):
        patient = Background(other_queue.get)
        wait_for_sleepers(clock)
        adder = threading.Timer(0.05, other_queue.add, ["foo"])
        alarm()
        adder.start()
        try:
            taken = other_queue.get(timeout=3600)
        except Interrupted:
            taken = None
        adder.join()
        if taken is not None:
            other_queue.done(taken)
            other_queue.add("foo")
        assert patient.result() == "foo"
        other_queue.done("foo")
    assert len(work_queue) == 0


def test_sixty_four_threads_neither_lose_nor_share_keys() -> None:
    work_queue = WorkQueue("stress", fair_by=lambda key: str(key % 7))
    held: set[int] = set()
    runs: Counter[int] = Counter()
    added: Counter[int] = Counter()
    lock = threading.Lock()
    per_thread = 300

    def produce(seed: int) -> None:
        for number in range(per_thread):
            key = (seed * 31 + number * 17) % 101
            with lock:
                added[key] += 1
            if number % 3 == 0:
                work_queue.add_many([key, key], priority=number % 5)
            elif number % 3 == 1:
                work_queue.add_after(key, 0.0005)
            else:
                work_queue.add(key)

    def consume(batch: int) -> None:
        while True:
            try:
                keys = work_queue.get_batch(batch)
            except ShutDown:
                return
            with lock:
                assert held.isdisjoint(keys)
                held.update(keys)
                runs.update(keys)
            with lock:
                held.difference_update(keys)
            work_queue.done_many(keys)

    consumers = [Background(consume, 1 + number % 4) for number in range(32)]
    for producer in [Background(produce, seed) for seed in range(32)]:
        producer.result()
    pause = threading.Event()
    while work_queue.snapshot() != ([], [], []):
        pause.wait(0.001)
    assert work_queue.shut_down_with_drain() is True
    for consumer in consumers:
        consumer.result()
    assert set(runs) == set(added)
    assert all(runs[key] <= 2 * added[key] for key in runs)


def test_every_blocked_thread_gets_its_own_key() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    getters = [Background(work_queue.get) for _ in range(20)]
    wait_for_sleepers(clock, 20)
    work_queue.add_many(range(20))
    assert sorted(getter.result() for getter in getters) == list(range(20))


def test_stress_with_64_threads_neither_loses_nor_duplicates_keys() -> None:
    # CTRLHOST_STRESS_ADDS=100000 for the long run: adds per producer.
    work_queue, keys = WorkQueue("stress"), [f"namespace/name-{number}" for number in range(50)]
    written, read = dict.fromkeys(keys, 0), dict.fromkeys(keys, 0)
    writing = {key: threading.Lock() for key in keys}
    held: dict[str, int] = {}

    def produce(seed: int) -> None:
        chosen = random.Random(seed)
        for number in range(STRESS_ADDS):
            key = chosen.choice(keys)
            with writing[key]:
                written[key] += 1
            match number % 4:
                case 0:
                    work_queue.add_after(key, chosen.random() / 1000)
                case 1:
                    work_queue.add_many([key, chosen.choice(keys)])
                case _:
                    work_queue.add(key, priority=chosen.choice([None, -100, 0, 10]))

    def consume(me: int) -> int:
        handed = 0
        while True:
            try:
                batch = work_queue.get_batch(1 + me % 3)
            except ShutDown:
                return handed
            for key in batch:
                assert held.setdefault(key, me) == me, f"{key} is held by {held[key]} and {me}"
                read[key] = written[key]
                del held[key]
            work_queue.done_many(batch)
            handed += len(batch)

    consumers = [Background(consume, number) for number in range(32)]
    producers = [Background(produce, number) for number in range(32)]
    for producer in producers:
        producer.result()
    eventually(lambda: work_queue.snapshot() == ([], [], []), what="an idle queue")
    work_queue.shut_down()
    assert sum(consumer.result() for consumer in consumers) >= len(keys)
    assert read == written


def test_memory_is_flat_over_many_cycles() -> None:
    # CTRLHOST_LEAK_CYCLES=10000000 for the long run.
    work_queue = WorkQueue("flat")

    def cycles(count: int) -> None:
        for number in range(count):
            key = f"namespace/name-{number}"
            work_queue.add(key)
            work_queue.add_rate_limited(("failed", key))
            work_queue.forget(("failed", key))
            work_queue.done(work_queue.get())
            if number % 1000 == 0:
                for delayed in work_queue.get_batch(10_000) if len(work_queue) else []:
                    work_queue.done(delayed)

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    cycles(CYCLES // 4)
    before = resident()
    cycles(CYCLES)
    assert resident() - before < 8 * 2**20


def test_the_memory_of_a_burst_is_freed() -> None:
    # In a separate process: other tests change how the allocator keeps large blocks.
    code = textwrap.dedent("""
        import os
        from ctrlhost.workqueue import WorkQueue
        def resident():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        keys = list(range(500_000))
        work_queue = WorkQueue()
        before = resident()
        work_queue.add_many(keys)
        for key in keys:
            work_queue.add_after(key, 3600)
        peak = resident()
        work_queue.done_many(work_queue.get_batch(len(keys)))
        work_queue.shut_down()
        assert work_queue.snapshot() == ([], [], [])
        after = resident()
        assert peak - before > 40 * 2**20, (before, peak, after)
        assert after - before < (peak - before) / 3, (before, peak, after)
    """)
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_forked_child_cannot_use_the_queue_of_its_parent() -> None:
    clock = ManualClock()
    work_queue = WorkQueue("forked", clock=clock)
    getter = Background(work_queue.get)
    wait_for_sleepers(clock)
    code = textwrap.dedent("""
        import os, sys, threading
        from ctrlhost.workqueue import WorkQueue
        from ctrlhost.host.queue_metrics import QueueCollector
        work_queue = WorkQueue("parent")
        waiting = threading.Thread(target=work_queue.get)
        waiting.start()
        calls = [lambda: work_queue.add("x"), lambda: work_queue.get(timeout=0), lambda: len(work_queue),
                 work_queue.shut_down, work_queue.shut_down_with_drain, lambda: work_queue.done("x"),
                 lambda: work_queue.forget("x"), lambda: work_queue.num_requeues("x"), work_queue.snapshot]
        child = os.fork()
        if child == 0:
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    assert "made before fork" in str(error)
                else:
                    os._exit(2)
            own = WorkQueue("child")
            own.add("y")
            names = {s.labels["name"] for f in QueueCollector().collect() for s in f.samples}
            os._exit(0 if own.get() == "y" and names == {"child"} else 3)
        _, status = os.waitpid(child, 0)
        work_queue.add("x")
        waiting.join()
        sys.exit(os.waitstatus_to_exitcode(status))
    """)
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert ended.returncode == 0
    work_queue.add("parent lives")
    assert getter.result() == "parent lives"


@pytest.mark.parametrize("timeout", ["", "0.001", "3600"])
def test_the_interpreter_exits_while_daemon_threads_are_blocked(timeout: str) -> None:
    code = textwrap.dedent(f"""
        import queue, threading
        from ctrlhost.workqueue import WorkQueue
        work_queue = WorkQueue("ending")
        def wait():
            while True:
                try:
                    work_queue.get({timeout})
                except queue.Empty:
                    pass
        for _ in range(8):
            threading.Thread(target=wait, daemon=True).start()
        work_queue.add_after("x", 0.001)
    """)
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b"")


def test_workers_that_keep_the_interpreter_alive_end_at_shutdown() -> None:
    code = textwrap.dedent("""
        import threading
        from ctrlhost.workqueue import ShutDown, WorkQueue
        work_queue = WorkQueue()
        def work():
            try:
                while True:
                    work_queue.done(work_queue.get())
            except ShutDown:
                print("gone")
        threading.Thread(target=work).start()
        work_queue.add("x")
        work_queue.shut_down()
    """)
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "gone\n")


def test_the_wall_clock_has_no_effect() -> None:
    # The queue never reads it: monotonic time does not depend on `time.time`.
    work_queue = WorkQueue()
    before = time.monotonic()
    work_queue.add_after("foo", 0.02)
    assert work_queue.get(timeout=20) == "foo"
    assert time.monotonic() - before >= 0.02
    with pytest.raises(queue.Empty):
        work_queue.get(timeout=0)


@pytest.mark.parametrize("wrong", [object(), 3, time])
def test_a_clock_written_in_python_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="clock must be"):
        WorkQueue(clock=wrong)
