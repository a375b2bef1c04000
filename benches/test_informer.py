"""First list and watch events of 5 KB pods, against client-go, the official informer and kopf's way of decoding."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from benches.ratios import Ratios

OFFICIAL_EVENTS = 2_000


def run(which: str, url: str, events: int, *ca: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benches.informers", which, url, str(events), *ca]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=800)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def median(runs: list[dict[str, float]], figure: str) -> float:
    return sorted(run[figure] for run in runs)[len(runs) // 2]


@pytest.mark.headline
def test_list_and_events(
    benchmark: BenchmarkFixture,
    ratios: Ratios,
    go_peers: Callable[..., dict[str, float]],
    stub_pods: Callable[..., Any],
) -> None:
    pods, events, rounds = (2_000, 10_000, 1) if ratios.short else (10_000, 40_000, 5)
    with stub_pods(pods, events) as url:
        ours = benchmark.pedantic(lambda: [run("ctrlhost", url, events) for _ in range(rounds)], rounds=1)
        go = [go_peers("informer", url, str(events)) for _ in range(min(rounds, 3))]
        kopf = run("kopf", url, events)
    with stub_pods(pods, OFFICIAL_EVENTS) as url:
        official = run("official", url, OFFICIAL_EVENTS)
    client_go = {name: median(go, name) for name in go[0]} if go[0] else {}

    for name, figure, unit in (
        (f"first list of {pods:,} pods", "list_seconds", "s"),
        ("memory per pod", "bytes_per_pod", "B"),
    ):
        ratios.add(
            "informer",
            name,
            unit,
            median(ours, figure),
            client_go=client_go.get(figure, 0.0),
            official_informer=official[figure],
            kopf_decoding=kopf[figure],
        )
    ratios.add(
        "informer",
        "watch event to queued key",
        "s",
        1 / median(ours, "events_per_second"),
        client_go=1 / client_go["events_per_second"] if client_go else 0.0,
        official_informer=1 / official["events_per_second"],
        kopf_decoding=1 / kopf["events_per_second"],
    )


@pytest.mark.headline
def test_a_list_of_100_000_pods(
    benchmark: BenchmarkFixture,
    ratios: Ratios,
    go_peers: Callable[..., dict[str, float]],
    stub_pods: Callable[..., Any],
) -> None:
    pods = 10_000 if ratios.short else 100_000
    with stub_pods(pods, 0) as url:
        ours = benchmark.pedantic(lambda: run("ctrlhost", url, 0), rounds=1)
        go = go_peers("informer", url, "0")
    for name, figure, unit in (
        ("large list: time until indexed and queued", "list_seconds", "s"),
        ("large list: memory per pod", "bytes_per_pod", "B"),
    ):
        ratios.add("informer", name, unit, ours[figure], client_go=go.get(figure, 0.0))
    ratios.add("informer", "large list: peak of the memory to its steady state", "", ours["peak_to_steady"])


def test_an_event_reaches_its_reconcile(
    benchmark: BenchmarkFixture, ratios: Ratios, stub_pods: Callable[..., Any]
) -> None:
    pods, events, pace = 2_000, 100_000, 10_000
    for which, beside in (("latency", "alone"), ("latency-beside", "beside a thread of Python that only computes")):
        with stub_pods(pods, events, pace) as url:
            if which == "latency":
                figures = benchmark.pedantic(lambda url=url: run("latency", url, events), rounds=1)
            else:
                figures = run(which, url, events)
        for part in ("p50", "p99"):
            ratios.add("informer", f"event to the start of its reconcile, {beside}, {part}", "s", figures[part])


def test_informers_that_hear_nothing(
    benchmark: BenchmarkFixture, ratios: Ratios, stub_pods: Callable[..., Any]
) -> None:
    with stub_pods(10, 0) as url:
        figures = benchmark.pedantic(lambda: run("idle", url, 10), rounds=1)
    ratios.add("informer", "50 idle informers: part of a processor", "", figures["cpu"])
    ratios.add(
        "informer", "50 idle informers with 100 handlers: threads per informer", "", figures["threads_per_informer"]
    )
