"""What plugins that misbehave do to another plugin, to probes and to the end of the host.

A host reads 100 events a second; `good` reconciles nothing, and `benches.bad_plugin` misbehaves beside it. Absolute
times hold on two quiet cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from benches.bad_plugin import COMPUTES, CRASHES, HANGS
from benches.supervised import DRAIN, GOOD, Measured, bad, beside, host

if TYPE_CHECKING:
    from benches.ratios import Ratios

PODS, PACE = 200, 100
#: What a hanging entry may add to the latency of others: a tenth, and so many seconds.
MORE, ADDED = 1.1, 0.0005
#: All kinds of hanging entries in one host, a plugin each; and many plugins that crash.
ALL, CRASHING = ",".join(HANGS), ",".join(CRASHES)
NAMES = {ALL: "every kind that hangs", CRASHING: f"{len(CRASHES)} plugins that crash"}
NAMES["own/threads-compute"] = "threads-compute in a process of its own"
OTHERS = ("threads-compute", "keys-fail", "many-series")

Measure = Callable[[str], Measured]


@pytest.fixture(scope="module")
def measure(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Return a function that measures a kind, or several at once, and does so once; `own/KIND` is isolated."""
    events, requests = 2_000, 200
    results: dict[str, Measured] = {}

    def measured(named: str) -> Measured:
        if named not in results:
            own, _, kinds = named.rpartition("/")
            # A host waits for hooks before its informers start.
            settings = ["--set=supervision.deadlines.hook=1s", *([f"--isolate={kinds}"] if own else ())]
            plugins = GOOD | bad(*kinds.split(","))
            folder = tmp_path_factory.mktemp("host")
            with stub_pods(PODS, events, PACE) as url, host(folder, url, plugins, *settings) as process:
                results[named] = beside(process, events, PACE, requests)
        return results[named]

    return measured


def latency(kind: str) -> str:
    """Return the name of the figure for others beside this kind."""
    return f"100 events/s, event to reconcile, p99, beside: {NAMES.get(kind, kind)}"


def test_others_beside_nothing(ratios: Ratios, measure: Measure) -> None:
    ratios.add("supervision", latency("nothing"), "s", measure("nothing").p99)


@pytest.mark.behaviour("supervision/IN1")
@pytest.mark.behaviour("supervision/LC17")
def test_others_beside_entries_that_hang_and_plugins_that_crash(ratios: Ratios, measure: Measure) -> None:
    allowed = measure("nothing").p99 * MORE + ADDED
    for kind in (ALL, *HANGS, CRASHING):
        ratios.add("supervision", latency(kind), "s", measure(kind).p99, allowed=allowed)


@pytest.mark.behaviour("supervision/IN2")
@pytest.mark.behaviour("supervision/BU1")
@pytest.mark.behaviour("supervision/PI4")
@pytest.mark.parametrize("kind", [*COMPUTES, "keys-fail", "many-series", "own/threads-compute"])
def test_others_beside_what_computes(ratios: Ratios, measure: Measure, kind: str) -> None:
    ratios.add("supervision", latency(kind), "s", measure(kind).p99)


@pytest.mark.behaviour("supervision/PR1")
@pytest.mark.parametrize("kind", ["collector-hangs", "many-series"])
def test_metrics_beside_a_collector(ratios: Ratios, measure: Measure, kind: str) -> None:
    ratios.add("supervision", f"/metrics, p99, beside: {kind}", "s", measure(kind).metrics)


@pytest.mark.behaviour("supervision/PI4")
def test_the_host_beside_a_process_that_computes(ratios: Ratios, measure: Measure) -> None:
    busy, idle = measure("own/threads-compute"), measure("own/nothing")
    name = "processor time of the host in an event, beside a process that computes"
    ratios.add("supervision", name, "s", busy.cpu, idle_process=idle.cpu)


@pytest.mark.behaviour("supervision/LC19")
def test_probes_and_the_end_beside_everything(ratios: Ratios, measure: Measure) -> None:
    kinds = ["nothing", ALL, *HANGS, CRASHING, *COMPUTES, *OTHERS, "collector-hangs"]
    slowest = max(kinds, key=lambda kind: measure(kind).probe)
    ratios.add("supervision", "any probe beside any misbehaviour, p99", "s", measure(slowest).probe)
    longest = max(kinds, key=lambda kind: measure(kind).end)
    beyond = max(measure(longest).end - DRAIN, 0)
    ratios.add("supervision", "SIGTERM to the end beside any misbehaviour, beyond drain_timeout", "s", beyond)
    named = [NAMES.get(kind, kind) for kind in (slowest, longest)]
    ratios.note(f"Of all misbehaviours `{named[0]}` had the slowest probe, and `{named[1]}` the longest end.")
