"""The cost of a line that repeats an error, and is counted instead of being logged.

A call of the standard library whose handler drops every line is what sampling cannot save, since other
handlers may want the line.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctrlhost.host import logs
from tests.unit.host.conftest import loggers_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benches.ratios import Ratios

__all__ = ["loggers_of_process"]

CALLS = 10_000


class Dropped(logging.Handler):
    """Drops every line."""

    def createLock(self) -> None:  # noqa: N802 - the name is that of logging
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        del record
        return False


@pytest.mark.usefixtures("loggers_of_process")
def test_a_log_call_that_is_sampled_out(ratios: Ratios) -> None:
    bare = logging.getLogger("bench.dropped")
    bare.addHandler(Dropped())
    bare.propagate = False
    sampled = logging.getLogger("ctrlhost.plugin.noisy")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        writer = logs.configure("info", "json", nowhere, plugins=["noisy"])
        rounds = list(both(sampled, bare, 25))
        assert logs.dropped()["noisy", "sampled"] >= CALLS
        writer.close()
    ours, theirs = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    ratios.add("operations", "log call that is sampled out", "s", ours, handler_that_drops=theirs)


def both(sampled: logging.Logger, bare: logging.Logger, rounds: int) -> Iterator[tuple[float, float]]:
    """Measure both by turns, since the speed of a machine drifts."""
    for _ in range(rounds):
        yield seconds(sampled.error), seconds(bare.error)


def seconds(log: Callable[..., None]) -> float:
    """Return the processor time of one call."""
    began = time.thread_time()
    for _ in range(CALLS):
        log("cannot reconcile %s", "default/a")
    return (time.thread_time() - began) / CALLS
