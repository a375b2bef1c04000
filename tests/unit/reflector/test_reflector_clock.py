"""Clock jumps: a reflector uses the monotonic clock, and even a leap of that is harmless."""

from __future__ import annotations

import time

import pytest

from ctrlhost.informers import BackoffOptions
from ctrlhost.testing import ManualClock
from tests.support.stub_api_server import Failure, Frames, Json, event, pod, pod_list
from tests.support.waiting import eventually

FIRST = Json(pod_list(1, pod("foo", 1)))
LEAP = 1_000_000.0


def test_a_clock_leap_neither_ends_a_watch_nor_relists(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, resync=0)
    frames = Frames()
    rig.serve([FIRST], [frames]).synced()
    clock.advance(LEAP)
    frames.send_event(event("ADDED", pod("a", 2)))
    rig.holds(foo=1, a=2)
    assert (rig.pods.state, len(rig.lists), len(rig.watches)) == ("watching", 1, 1)
    assert rig.errors == []


def test_a_clock_leap_ends_the_current_pause_and_resets_the_delays(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, backoff=BackoffOptions(jitter=0))
    rig.serve([*[Failure(500, "InternalError")] * 4, FIRST]).start()
    for count, delay in ((1, 0.8), (2, 1.6), (3, LEAP), (4, 0.8)):
        eventually(lambda count=count: len(rig.errors) == count and clock.waiters() == 1)
        clock.advance(delay + 0.001)
    rig.holds(foo=1)


@pytest.mark.parametrize("jump", [-LEAP, LEAP])
def test_a_jump_of_the_wall_clock_has_no_effect(rig_with, monkeypatch, jump):
    rig = rig_with()
    first = Frames()
    rig.serve([FIRST], [first, Frames(event("ADDED", pod("b", 3)))]).synced()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    first.send_event(event("ADDED", pod("a", 2)))
    first.end()
    rig.holds(foo=1, a=2, b=3)
    assert len(rig.lists) == 1
    assert rig.errors == []
