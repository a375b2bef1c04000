"""What it costs to sample the stacks of a host, in parts of a core. The row is oncall/OC31."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from ctrlhost.host.profile import PERIOD, Samples

if TYPE_CHECKING:
    from benches.ratios import Ratios

#: Threads of a host with many plugins, of which some work in each sample.
THREADS, BUSY = 40, 8
SAMPLES = 200
DEPTH = 20


@pytest.mark.behaviour("oncall/OC31")
def test_the_sampler(ratios: Ratios) -> None:
    ends = threading.Event()

    def deep(frames: int, *, busy: bool) -> None:
        if frames:
            deep(frames - 1, busy=busy)
        while busy and not ends.wait(PERIOD / 10):
            sum(range(100))
        ends.wait()

    threads = [
        threading.Thread(target=deep, args=(DEPTH,), kwargs={"busy": number < BUSY}, daemon=True)
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    samples, spent = Samples(), 0.0
    for _ in range(SAMPLES):
        ends.wait(PERIOD)
        began = time.thread_time()
        samples.take()
        spent += time.thread_time() - began
    ends.set()
    for thread in threads:
        thread.join()
    ratios.add("operations", f"profile of {THREADS} threads: part of a core", "", spent / (SAMPLES * PERIOD))
