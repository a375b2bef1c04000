"""The queue compared with a simple model in Python: random operations with keys of all kinds."""

from __future__ import annotations

import queue
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ctrlhost.request import Request
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ShutDown, WorkQueue

KEYS = ["a", "ns/a", "\ud800", 1, 2**80, (), ("a", "ns", ""), Request("a", "ns"), Request("b", "ns"), ((1,), "x")]
keys = st.sampled_from(KEYS)
priorities = st.none() | st.integers(-2, 2)
delays = st.sampled_from([-1, 0, 0.25, 0.5, 1, 4])


def highest(priorities: set[int | None]) -> int | None:
    """Return the highest priority, or None for that of the key."""
    named = [priority for priority in priorities if priority is not None]
    return max(named) if len(named) == len(priorities) or max(named, default=0) > 0 else None


class QueueMachine(RuleBasedStateMachine):
    """Queue and model are in the same state after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        limiter = ItemExponentialFailureRateLimiter(0.25, 2)
        self.queue = WorkQueue(clock=self.clock, rate_limiter=limiter, aging=None)
        self.waiting: dict[Any, tuple[int, int]] = {}
        """Key -> priority and position."""
        self.held: dict[Any, int | None] = {}
        self.delayed: dict[Any, tuple[float, int, set[int | None], bool]] = {}
        """Key -> deadline, number, the priorities of all adds, and whether it is a back-off."""
        self.failures: dict[Any, int] = {}
        self.objects: dict[Any, Any] = {}
        """The object added first, for each known key."""
        self.count = 0
        self.shut_down = self.forced = False

    def enqueue(self, key: Any, priority: int | None) -> None:
        self.count += 1
        self.objects.setdefault(key, key)
        if key in self.waiting:
            old, _ = self.waiting[key]
            if priority is not None and priority > old:
                self.waiting[key] = (priority, self.count)
        elif key in self.held:
            old_again = self.held[key]
            wanted = priority or 0 if old_again is None else max(old_again, old_again if priority is None else priority)
            self.held[key] = wanted
        else:
            self.waiting[key] = (priority or 0, self.count)

    def delay(self, key: Any, seconds: float, priority: int | None, back_off: bool) -> None:
        if seconds <= 0:
            self.enqueue(key, priority)
            return
        self.count += 1
        self.objects.setdefault(key, key)
        due = self.clock.now() + seconds
        if key not in self.delayed:
            self.delayed[key] = (due, self.count, {priority}, back_off)
            return
        old_due, number, old, was_back_off = self.delayed[key]
        self.delayed[key] = (min(old_due, due), number, old | {priority}, was_back_off or back_off)

    @rule(key=keys, priority=priorities)
    def add(self, key: Any, priority: int | None) -> None:
        self.queue.add(key, priority=priority)
        if not self.shut_down:
            self.enqueue(key, priority)

    @rule(some=st.lists(keys, max_size=5), priority=priorities)
    def add_many(self, some: list[Any], priority: int | None) -> None:
        self.queue.add_many(some, priority=priority)
        if not self.shut_down:
            for key in some:
                self.enqueue(key, priority)

    @rule(key=keys, seconds=delays, priority=priorities)
    def add_after(self, key: Any, seconds: float, priority: int | None) -> None:
        self.queue.add_after(key, seconds, priority=priority)
        if not self.shut_down:
            self.delay(key, seconds, priority, back_off=False)

    @rule(key=keys, priority=priorities)
    def add_rate_limited(self, key: Any, priority: int | None) -> None:
        self.queue.add_rate_limited(key, priority=priority)
        if not self.shut_down and not (key in self.delayed and self.delayed[key][3]):
            failures = self.failures.get(key, 0)
            self.failures[key] = failures + 1
            self.delay(key, min(2, 0.25 * 2**failures), priority, back_off=True)

    @rule(key=keys)
    def forget(self, key: Any) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)
        if key in self.delayed:
            self.delayed[key] = (*self.delayed[key][:3], False)

    @rule(most=st.integers(1, 4))
    def get_batch(self, most: int) -> None:
        order = sorted(self.waiting, key=lambda key: (-self.waiting[key][0], self.waiting[key][1]))[:most]
        if order:
            priority = self.waiting[order[0]][0]
            taken, taken_priority = self.queue.get_with_priority(timeout=0)
            assert (taken, taken_priority) == (order[0], priority)
            assert taken is self.objects[order[0]]
            if len(order) > 1:
                assert self.queue.get_batch(len(order) - 1) == order[1:]
            for key in order:
                del self.waiting[key]
                self.held[key] = None
            return
        over = self.forced or (self.shut_down and all(again is None for again in self.held.values()))
        with pytest.raises(ShutDown if over else queue.Empty):
            self.queue.get_nowait()

    @rule(some=st.lists(keys, min_size=1, max_size=3))
    def done(self, some: list[Any]) -> None:
        if len(some) == 1:
            self.queue.done(some[0])
        else:
            self.queue.done_many(some)
        for key in some:
            if key not in self.held:
                continue
            held = next(other for other in self.held if other == key)
            again = self.held.pop(key)
            if again is not None:
                self.count += 1
                self.waiting[held] = (again, self.count)

    @rule(seconds=st.sampled_from([0.25, 0.5, 1, 2]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        due = [key for key, delayed in self.delayed.items() if delayed[0] <= self.clock.now()]
        for key in sorted(due, key=lambda key: self.delayed[key][:2]):
            # An unnamed priority first: it leaves a key's own as it is, and gives 0 to a key without one.
            for priority in sorted(self.delayed.pop(key)[2], key=lambda value: (value is not None, value)):
                self.enqueue(key, priority)

    @precondition(lambda self: self.count > 20)
    @rule()
    def end(self) -> None:
        self.queue.shut_down()
        self.forced = self.shut_down
        self.shut_down = True
        self.delayed.clear()

    @invariant()
    def check_state(self) -> None:
        known = self.waiting.keys() | self.held.keys() | self.delayed.keys()
        self.objects = {key: first for key, first in self.objects.items() if key in known}
        snapshot = self.queue.snapshot()
        assert len(self.queue) == len(self.waiting)
        assert {(queued.key, queued.priority) for queued in snapshot.queued} == {
            (key, priority) for key, (priority, _) in self.waiting.items()
        }
        assert {held.key: held.again for held in snapshot.processing} == self.held
        now = self.clock.now()
        assert {delayed.key: (delayed.due_in, delayed.priority, delayed.back_off) for delayed in snapshot.delayed} == {
            key: (due - now, highest(priorities), back_off)
            for key, (due, _, priorities, back_off) in self.delayed.items()
        }
        assert {key: self.queue.num_requeues(key) for key in self.failures} == self.failures


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWorkQueueModel = QueueMachine.TestCase
