"""Fixtures that the tests of the work queue share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    from ctrlhost.testing import ManualClock


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock of the queue under test."""
    return manual_clock


@pytest.fixture
def work_queue(clock: ManualClock, request: pytest.FixtureRequest) -> WorkQueue:
    """A queue with metrics, called as its test."""
    return WorkQueue(request.node.name, clock=clock)
