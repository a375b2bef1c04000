"""Counters of reconciles while they run."""

from __future__ import annotations

import logging
import threading

import pytest
from prometheus_client import CollectorRegistry

from ctrlhost import Request
from tests.support.controllers import Bench


def counters(registry: CollectorRegistry) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in registry.collect()
        for sample in family.samples
        if family.type in ("counter", "histogram") and not sample.name.endswith("_created")
    }


@pytest.mark.slow
@pytest.mark.behaviour("supervision/BU16")
def test_no_counter_is_ever_lower_than_before(bench: Bench) -> None:
    # The log would be most of the work.
    logging.getLogger("ctrlhost.controller").setLevel(logging.CRITICAL)

    def reconcile(ctx: object, request: Request) -> None:
        if int(request.name) % 2:
            raise ValueError("every second one")

    controller = bench.controller(reconcile, workers=10)
    stop = threading.Event()

    def feed() -> None:
        number = 0
        while not stop.is_set():
            controller.queue.add_many([Request(str(number + offset)) for offset in range(100)])
            number += 100
            if len(controller.queue) > 1_000:
                stop.wait(0.001)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        last = counters(bench.registry)
        for _ in range(10_000):
            now = counters(bench.registry)
            assert {name: (last[name], now[name]) for name in last if now[name] < last[name]} == {}
            assert now.keys() >= last.keys()
            last = now
    finally:
        stop.set()
        feeder.join(10)
        logging.getLogger("ctrlhost.controller").setLevel(logging.NOTSET)
    assert bench.results()["error"] > 100
    assert bench.results()["success"] > 100
