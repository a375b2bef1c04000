"""The metrics of shards: of two replicas on a sandbox, when one joins, waits for a run, and stops."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from ctrlhost_sandbox import Options, Sandbox
from prometheus_client.parser import text_string_to_metric_families

from ctrlhost import Request
from ctrlhost.coordination import unbalanced
from ctrlhost.testing import HostUnderTest
from tests.host.test_shards import LIMIT, Fleet, Stamper, stamped
from tests.support.waiting import eventually


class Metrics:
    """The metrics of one replica at one moment."""

    def __init__(self, host: HostUnderTest) -> None:
        text = urlopen(f"http://{host.host.address}/metrics").read().decode()
        families = list(text_string_to_metric_families(text))
        self._samples = {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    def __call__(self, name: str, *labels: str) -> float:
        return self._samples[name, *sorted(labels)]

    def shards(self, name: str, *labels: str) -> float:
        return self(f"ctrlhost_shards_{name}", *labels)

    def handovers(self, phase: str) -> float:
        return self.shards("handover_seconds_count", phase)


@pytest.fixture
def fleet(ctrlhost_host: Any) -> Iterator[Fleet]:
    with Sandbox(options=Options(feature_gates={"ShardedListAndWatch": True})) as sandbox:
        fleet = Fleet(sandbox, ctrlhost_host)
        yield fleet
        for host in fleet.hosts.values():
            host.host.stop(0)


def test_each_metric_follows_what_moves(fleet):
    first = fleet.start("a")
    eventually(lambda: len(set(fleet.stampers["a"].runs)) == 120, LIMIT)
    alone = Metrics(first)
    assert (alone.shards("members"), alone.shards("share"), alone.shards("imbalance")) == (1, 1, 1)
    assert alone("ctrlhost_writes_refused_total", "stamper", "shard") == 0
    assert {alone.shards("moves_total", reason) for reason in ("join", "leave", "death", "balance")} == {0}
    assert alone.shards("server_filtered", "configmaps") == 1
    member = first.host.state.shards.membership.name
    assert alone("leader_election_master_status", member) == 1
    assert alone("leader_election_slowpath_total", member) >= 0

    second = fleet.start("b")
    eventually(lambda: fleet.balanced("a", "b"), LIMIT, pause=0.05)

    def at_rest() -> bool:
        a, b, owners = Metrics(first), Metrics(second), fleet.owners()
        taken = b.shards("moves_total", "join")
        return (
            b.shards("ranges", "open") == owners.get(second.host.state.shards.membership.name)
            and a.shards("ranges", "open") + b.shards("ranges", "open") == sum(owners.values())
            and taken > 0
            and {b.handovers("warm"), b.handovers("open"), a.handovers("drain")} == {taken}
        )

    eventually(at_rest, LIMIT, "what b took, a has drained", pause=0.05)
    a, b = Metrics(first), Metrics(second)
    for metrics in (a, b):
        assert metrics.shards("members") == 2
        assert 1 <= metrics.shards("imbalance") <= 1.5
        assert (metrics.shards("unowned"), metrics.shards("stuck")) == (0, 0)
        assert metrics.shards("dropped_total", "stamper/stamps") >= 0
        assert metrics.shards("map_conflicts_total") >= 0
        assert metrics.shards("filtered_total", "configmaps") >= 0
        assert metrics.shards("ranges", "closing") == metrics.shards("ranges", "warming") == 0
    assert a.shards("share") + b.shards("share") == pytest.approx(1)
    assert a.shards("moves_total", "join") == 0
    assert a.handovers("warm") == 0

    assert first.host.stop(), "its work ended in time"
    eventually(lambda: len(fleet.cached("b")) == 120, LIMIT, pause=0.05)
    eventually(lambda: Metrics(second).shards("moves_total", "leave") > 0, LIMIT)
    last = Metrics(second)
    assert last.shards("moves_total", "death") == 0
    assert last.shards("share") == 1


@pytest.mark.behaviour("shards/SH31")
def test_a_range_whose_run_outlasts_the_drain_timeout_is_stuck(fleet):
    stamper, go_on, entered = Stamper("a"), threading.Event(), threading.Event()
    key = Request("stuck", "team-0")

    def during(_ctx: Any, request: Request) -> None:
        if request == key:
            entered.set()
            assert go_on.wait(LIMIT)

    stamper.during = during
    first = fleet.start("a", stamper, {"drain_timeout": "500ms"})
    fleet.client.create(stamped(key.name, key.namespace))
    assert entered.wait(LIMIT)
    second = fleet.start("b")
    eventually(lambda: len(fleet.cached("b")) > 30, LIMIT, pause=0.05)
    leaving = threading.Thread(target=first.host.state.shards.hand_over, args=(LIMIT,))
    leaving.start()
    try:
        eventually(lambda: Metrics(first).shards("stuck") == 1, LIMIT, pause=0.05)
        report = json.loads(urlopen(f"http://{first.host.address}/debug/shards").read())
        (here,) = [row for row in report["map"]["ranges"] if "state" in row]
        assert (here["state"], here["keys"]) == ("closing", [str(key)])
        assert here["claimant"] == second.host.state.shards.membership.name
        assert not second.host.plugins[0].controllers[0].owns(key), "it is not given"
    finally:
        go_on.set()
        leaving.join(LIMIT)
    eventually(lambda: second.host.plugins[0].controllers[0].owns(key), LIMIT, pause=0.05)
    assert Metrics(first).shards("stuck") == 0


@pytest.mark.behaviour("shards/SH17")
def test_a_namespace_that_no_balance_can_even_out_is_named(fleet, caplog, monkeypatch):
    monkeypatch.setattr(unbalanced, "LASTING", 0.5)
    for number in range(200):
        fleet.client.create(stamped(f"more-{number}", "team-0"))
    hosts = [fleet.start("a"), fleet.start("b")]
    eventually(lambda: sum(len(fleet.cached(name)) for name in "ab") == 320, LIMIT, pause=0.05)
    text = "shards: namespace team-0 has 1.27 times the share of a replica"
    eventually(lambda: [record for record in caplog.records if text in record.getMessage()], LIMIT, pause=0.05)
    wanted = [pytest.approx(3 * 2 / 320), pytest.approx(203 * 2 / 320)]
    eventually(lambda: sorted(Metrics(host).shards("heaviest_share") for host in hosts) == wanted, LIMIT, pause=0.05)
