"""What the check of term and deadline costs each write of a plugin."""

from __future__ import annotations

import timeit
from typing import TYPE_CHECKING

from ctrlhost.clock import SystemClock
from ctrlhost.coordination.term import Tenure
from ctrlhost.coordination.writes import Permit, Refusals, Writes

if TYPE_CHECKING:
    from benches.ratios import Ratios

CALLS = 200_000
ROUNDS = 5


def test_check_of_a_write(ratios: Ratios) -> None:
    tenure = Tenure(SystemClock())
    tenure.begin(tenure.now() + 3600)
    permit = Permit(Writes("demo", tenure, Refusals()), 1)
    seconds = min(timeit.repeat(permit, number=CALLS, repeat=ROUNDS)) / CALLS
    ratios.add("writes", "check of term and deadline", "s", seconds)
