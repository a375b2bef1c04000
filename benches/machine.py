"""How slow this machine is now, beside the quiet one whose figures `budget.toml` is of; measured without ctrlhost."""

from __future__ import annotations

import logging
import statistics
import time

#: Seconds of processor time of a call that logs nothing, on the machine of docs/benchmarks.md.
_QUIET = 3.83e-6
_CALLS, _ROUNDS = 2_000, 15
#: Naps of so many seconds, whose delays are those of threads that wait for an event.
_NAP, _NAPS = 0.001, 1_500


class Dropped(logging.Handler):
    """Drops every line."""

    def createLock(self) -> None:  # noqa: N802 - the name is that of logging
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        del record
        return False


def slowness() -> float:
    """Return how many times as long the standard library takes as on the quiet machine, at least 1."""
    logger = logging.Logger("machine")  # noqa: LOG001 - no other code is to find it
    logger.addHandler(Dropped())
    return max(1.0, statistics.median(_seconds(logger) for _ in range(_ROUNDS)) / _QUIET)


def wake_up_delay() -> float:
    """Return the seconds by which one nap in a hundred is late while nothing else runs."""
    delays = []
    for _ in range(_NAPS):
        began = time.perf_counter()
        time.sleep(_NAP)
        delays.append(time.perf_counter() - began - _NAP)
    return statistics.quantiles(delays, n=100)[-1]


def _seconds(logger: logging.Logger) -> float:
    began = time.thread_time()
    for _ in range(_CALLS):
        logger.error("cannot reconcile %s", "default/a")
    return (time.thread_time() - began) / _CALLS
