"""Replicas that share keys: what they reconcile together, what each caches and receives, and the gaps of moves."""

from __future__ import annotations

import signal
import statistics
import time
from collections import defaultdict
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from benches.fleets import gated_sandbox, replicas
from benches.sandboxes import create, created_pod
from tests.host.conftest import Distributions
from tests.host.replicas import SHORT
from tests.host.sharded_replicas import HAMMER, ShardedReplicas
from tests.support.control_plane import SandboxControlPlane
from tests.support.host_process import HostProcess

if TYPE_CHECKING:
    from pathlib import Path

    from benches.fleets import Replicas
    from benches.ratios import Ratios
    from benches.sandboxes import SandboxProcess

pytestmark = pytest.mark.scale

NAMESPACES = 200
PODS = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("pods", lambda ctx, request: None, ctrlhost.For("v1", "Pod"), shard_by="namespace")
"""
#: Each run lasts 5 ms, and each key comes up again at once.
SLEEPER = """
import time
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    source = ctrlhost.For("v1", "ConfigMap")
    plugin.add_controller("sleeper", reconcile, source, shard_by="namespace", workers=1)

def reconcile(ctx, request):
    time.sleep(0.005)
    return ctrlhost.Result(requeue_after=0.001)
"""


def fill(server: SandboxProcess, resource: str, count: int, make: Any) -> None:
    """Create namespaces, and this many objects in them."""
    create(server, "/api/v1/namespaces", NAMESPACES, lambda number: {"metadata": {"name": f"team-{number}"}})
    each = count // NAMESPACES
    for number in range(NAMESPACES):
        create(server, f"/api/v1/namespaces/team-{number}/{resource}", each, make, first=number * each)


def reconciles(fleet: Replicas, seconds: float) -> float:
    """Return how many reconciles a second all replicas do together."""
    before, began = fleet.total("controller_runtime_reconcile_total"), time.monotonic()
    time.sleep(seconds)
    after, ended = fleet.total("controller_runtime_reconcile_total"), time.monotonic()
    return (after - before) / (ended - began)


@pytest.mark.behaviour("shards/SH89")
def test_reconciles_of_more_processes(ratios: Ratios, tmp_path: Path) -> None:
    """Each process has one worker, which always has keys; the server has nothing to do."""
    count, rates = NAMESPACES * 4, defaultdict[int, list[float]](list)
    with gated_sandbox(tmp_path) as server:
        fill(server, "configmaps", count, lambda number: {"metadata": {"name": f"c{number}"}})
        for turn in range(3):
            with replicas(server, tmp_path / f"turn-{turn}", SLEEPER, shards=1) as fleet:
                for size in (1, 2, 4):
                    fleet.start(size - len(fleet.all))
                    fleet.share("configmaps", count)
                    rates[size].append(reconciles(fleet, 5))
    alone = statistics.median(rates[1])
    for size, measured in rates.items():
        name = f"reconcile of 5 ms, processes with one worker each: {size}"
        ratios.add("shards", name, "s", 1 / statistics.median(measured), linear=1 / (size * alone))


@pytest.mark.behaviour("shards/SH90")
def test_what_replicas_cache_and_receive(ratios: Ratios, tmp_path: Path) -> None:
    """Four replicas beside a host without shards; `min_members` is four, so none lists more than its part."""
    count, size = 100_000, 4
    with gated_sandbox(tmp_path) as server:
        fill(server, "pods", count, created_pod)
        with replicas(server, tmp_path / "alone", PODS) as fleet:
            fleet.start(1)
            fleet.share("pods", count)
            alone = fleet.settled("pods")
        for gate in ("on", "off"):
            server.turn(gate)
            with replicas(server, tmp_path / gate, PODS, shards=size) as fleet:
                fleet.start(size)
                fleet.share("pods", count)
                figures = fleet.settled("pods")
            name = f"{count:,} pods, {size} replicas, gate {gate}"
            for what, values in figures.items():
                ratios.add("shards", f"{name}: {what} by a replica", "B", max(values), one_host=max(alone[what]))


def test_gaps_of_moves(ratios: Ratios, tmp_path: Path) -> None:
    """Between two writes of an object there are 0.2 s; a gap is what is between those of its former and next owner."""
    site = tmp_path / "site"
    site.mkdir()
    distributions = Distributions(site)
    distributions.add("hammer", HAMMER)
    control_plane = SandboxControlPlane(tmp_path, feature_gates={"ShardedListAndWatch": True})
    control_plane.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}})
    with ExitStack() as running:
        running.callback(control_plane.stop)

        def start(*options: str, plugins: str, **environment: str) -> HostProcess:
            complete = distributions.environment(**environment)
            return running.enter_context(HostProcess(f"--plugins={plugins}", *options, environment=complete))

        fleet = ShardedReplicas(control_plane, "fleet", start)
        hosts = {name: fleet.start(name) for name in "abcd"}
        fleet.wait_until_shared(*"abcd")
        hosts["d"].stop()
        fleet.wait_until_shared(*"abc")
        hosts["c"].signal(signal.SIGKILL)
        fleet.wait_until_shared(*"ab")
        fleet.check()
        gaps: dict[str, list[float]] = {"c": [], "d": []}
        for writes in fleet.writes().values():
            for (before, giver, _), (after, taker, _) in pairwise(writes):
                if giver in gaps and giver != taker:
                    gaps[giver].append(after - before)
    ratios.add("shards", "gap of a key at a clean stop, longest", "s", max(gaps["d"]), goal=1.0)
    above = max(max(gaps["c"]) - SHORT.lease_duration, 0.0)
    ratios.add("shards", "gap of a key at a kill above the lease duration, longest", "s", above, goal=1.0)
