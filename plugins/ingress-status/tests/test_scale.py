"""Many Ingresses: the number of requests, and the delay of a single one."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_ingress_status.write_budget import WriteBudget

import ctrlhost

A, B = [{"ip": "203.0.113.1"}], [{"ip": "203.0.113.2"}]
COUNT = 300


@pytest.fixture
def many(cluster: Any) -> Any:
    """`COUNT` Ingresses of ours with the right status."""
    cluster.service(A)
    for number in range(COUNT):
        cluster.ingress(f"i{number:03}", status=A)
    return cluster


def test_a_changed_address_is_one_write_each_and_the_next_pass_none(cluster: Any) -> None:
    names = [f"i{number:03}" for number in range(1000)]
    cluster.service(A)
    for name in names:
        cluster.ingress(name)
    leader = cluster.start()
    assert sorted(write.name for write in leader.writes()) == names
    leader.forget()
    cluster.service(B)
    cluster.idle()
    cluster.after(1.1)
    assert sorted(write.name for write in leader.writes()) == names
    assert leader.written() == [B] * len(names)
    leader.forget()
    leader.plugin.publish()
    cluster.idle()
    assert leader.sent == []
    assert leader.metric("ctrlhost_ingress_status_objects", state="current") == len(names)


def test_a_new_leader_with_the_same_address_writes_nothing(many: Any) -> None:
    first = many.start()
    assert first.host.stop()
    many.replicas.clear()
    second = many.start()
    many.after(60, step=10)
    assert first.writes() == second.writes() == []
    assert second.runs() == 0


def test_other_classes_cause_neither_requests_nor_keys_in_the_queue(cluster: Any) -> None:
    cluster.service(A)
    leader = cluster.start()
    for number in range(COUNT):
        cluster.ingress(f"i{number}", field="nginx")
    cluster.idle()
    cluster.service(B)
    cluster.idle()
    cluster.after(2)
    assert leader.writes() == []
    assert leader.runs() == 0


def test_a_limited_pass_leaves_tokens_for_a_new_ingress(many: Any) -> None:
    leader = many.start(status_qps=100, status_burst=40)
    many.service(B)
    many.idle()
    begun = many.clock.now() + 1.0
    many.after(1.2)
    assert 0 < len(leader.writes()) < COUNT
    many.ingress("new")
    many.idle()
    assert [write.name for write in leader.writes("new")] == ["new"]
    while leader.metric("ctrlhost_ingress_status_objects", state="pending"):
        many.after(0.05)
    took = many.clock.now() - begun
    assert (COUNT - 40) / 100 <= took <= COUNT / 100 * 1.15
    assert len(leader.writes()) == COUNT + 1
    assert len({write.name for write in leader.writes()}) == COUNT + 1


@pytest.mark.slow
@pytest.mark.behaviour("findings/FP12")
def test_a_long_pass_shows_what_remains_and_how_long_it_takes(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ctrlhost.plugin.ingress-status")
    count = 10_000
    for number in range(count):
        cluster.ingress(f"i{number}")
    cluster.service(A)
    leader = cluster.start(status_qps=20)
    prefix = "ctrlhost_ingress_status_remaining"

    def progress() -> tuple[int, str]:
        # The burst but for its reserve goes at once.
        report = leader.plugin.report()
        assert leader.metric(f"{prefix}_writes") == report["remaining writes"]
        assert leader.metric(f"{prefix}_seconds") == report["remaining writes"] / 20
        return report["remaining writes"], report["estimated time"]

    assert progress() == (count - 30, f"{(count - 30) / 20:.0f} s")
    assert f"enqueued {count} statuses to write, about 500 s at status-qps 20" in caplog.text
    cluster.after(59.5, step=0.5)
    assert "left to write" not in caplog.text
    cluster.after(2, step=0.5)
    left, estimated = progress()
    assert left == count - len(leader.writes()) <= count - 30 - 60 * 20
    assert estimated == f"{left / 20:.0f} s"
    (line,) = [record.getMessage() for record in caplog.records if "left to write" in record.getMessage()]
    match = re.fullmatch(r"(\d+) statuses left to write, about (\d+) s at status-qps 20", line)
    assert match is not None
    assert left <= int(match[1]) < count
    assert int(match[2]) == round(int(match[1]) / 20)
    page = (Path(__file__).parents[3] / "docs/plugins/ingress-status.md").read_text(encoding="utf-8")
    assert "Raise `status-qps`" in page
    assert "`estimated time`" in page


def test_without_a_limit_no_time_is_estimated(many: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ctrlhost.plugin.ingress-status")
    leader = many.start(leads=False)
    many.service(B)
    many.idle()
    many.after(1.1)
    report = leader.plugin.report()
    assert (report["remaining writes"], report["estimated time"]) == (COUNT, "no limit")
    assert leader.metric("ctrlhost_ingress_status_remaining_seconds") == 0
    leader.elect()
    many.idle()
    assert f"enqueued {COUNT} statuses to write" in [record.getMessage() for record in caplog.records]
    assert leader.plugin.report()["remaining writes"] == 0


def test_every_failure_costs_one_more_write_and_loses_none(many: Any) -> None:
    leader = many.start(status_qps=0)
    chance, failed = random.Random(7), list[str]()
    faults, take = leader.host.faults, leader.host.faults.take

    def sometimes(request: Any) -> Any:
        if request.verb == "patch" and request.resource == "ingresses" and chance.random() < 0.5:
            failed.append(request.name)
            return chance.choice([ctrlhost.ServerError("oops"), ctrlhost.Conflict("newer")])
        return take(request)

    faults.take = sometimes
    many.service(B)
    many.idle()
    many.after(1.1)
    for _ in range(200):
        if not leader.metric("ctrlhost_ingress_status_objects", state="pending"):
            break
        many.after(0.5)
    assert all(many.status(f"i{number:03}") == B for number in range(0, COUNT, 10))
    assert leader.metric("ctrlhost_ingress_status_objects", state="current") == COUNT
    assert len(leader.writes()) == COUNT + len(failed)


def test_a_queue_of_ten_thousand_takes_little_memory_and_time() -> None:
    budget = WriteBudget(20, 40)
    waits = [budget.take(ctrlhost.Request(f"i{number}", "default"), 0.0, bulk=True) for number in range(10_000)]
    assert waits[:30] == [0.0] * 30
    assert max(waits) == pytest.approx((10_000 - 30) / 20)
    assert budget.waiting() == 10_000 - 30
