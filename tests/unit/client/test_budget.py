"""The budget of a plugin's requests: which waits count as throttled."""

from __future__ import annotations

import time

import pytest

from ctrlhost import TransportError
from ctrlhost.client.budget import Budget
from ctrlhost.transport.steps import carry_out
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background


def turn(budget: Budget, timeout: float) -> float:
    return carry_out(budget.turn(timeout, "get"))


def test_a_request_that_finds_a_token_is_not_throttled() -> None:
    throttled: list[float] = []
    budget = Budget(10.0, throttled.append)
    begun = time.monotonic()
    with budget._turn:
        request = Background(turn, budget, 30.0)
        # Longer than any wait that is too short to be noticed.
        eventually(lambda: time.monotonic() - begun > 0.05)
    assert request.result() > 0
    assert throttled == []


def test_requests_without_a_token_are_throttled() -> None:
    throttled: list[float] = []
    # One at once, and then one each ten seconds.
    budget = Budget(0.1, throttled.append)
    turn(budget, 30.0)
    assert throttled == []
    for count in (1, 2):
        with pytest.raises(TransportError, match="no turn within"):
            turn(budget, 0.01)
        assert len(throttled) == count
