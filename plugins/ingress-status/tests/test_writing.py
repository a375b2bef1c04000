"""Writes: what is sent, what is skipped, and how failures are handled."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import ctrlhost
from ctrlhost.cache import Object
from tests.support.cut_watches import cut_watches

A, B, C = [{"ip": "203.0.113.1"}], [{"ip": "203.0.113.2"}], [{"hostname": "lb-3.example.net"}]
INGRESS = ("networking.k8s.io/v1", "Ingress")


@pytest.fixture
def leader(cluster: Any) -> Any:
    """A host that leads and knows address A."""
    cluster.service(A)
    replica = cluster.start()
    replica.forget()
    return replica


@pytest.mark.behaviour("ingress-status/R1")
def test_a_new_ingress_gets_exactly_one_patch_of_its_status(cluster: Any, leader: Any) -> None:
    uid = cluster.ingress("web")["metadata"]["uid"]
    cluster.idle()
    cluster.after(60)
    (sent,) = leader.writes()
    assert (sent.method, sent.path) == ("PATCH", "/apis/networking.k8s.io/v1/namespaces/default/ingresses/web/status")
    assert sent.query == {"fieldManager": "ctrlhost-ingress-status"}
    assert sent.content_type == "application/merge-patch+json"
    assert sent.body == {"metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": A}}}
    assert cluster.status("web") == A
    assert leader.metric("ctrlhost_status_update_success_total") >= 1


@pytest.mark.behaviour("ingress-status/R2")
def test_a_right_status_is_counted_and_not_written(cluster: Any, leader: Any) -> None:
    cluster.ingress("web", field="elsewhere", status=A)
    cluster.edit("web", spec={"ingressClassName": "contour"})
    cluster.idle()
    before = leader.metric("ctrlhost_status_update_noop_total")
    cluster.edit("web", metadata={"labels": {"a": "b"}})
    cluster.idle()
    assert leader.metric("ctrlhost_status_update_noop_total") == before + 1
    ingress = leader.host.controllers["ingress-status/ingress-status"].informers[0]
    cached = ingress.lister.get("web", "default")
    padded = cluster.client.get(*INGRESS, "web", "default")
    padded["status"]["loadBalancer"]["ingress"] = [{**A[0], "hostname": "", "ports": []}]
    events = [(None, cached), (cached, cached), (cached, Object(padded)), (None, Object(padded))]
    for number, (old, new) in enumerate(events, start=2):  # adds, a resync, an update
        assert leader.plugin.writer.wakes(old, new) is False
        assert leader.metric("ctrlhost_status_update_noop_total") == before + number
    assert leader.writes() == []


@pytest.mark.behaviour("ingress-status/R3")
@pytest.mark.behaviour("ingress-status/R4")
def test_another_order_is_kept_and_a_surplus_entry_is_removed(cluster: Any) -> None:
    cluster.service([*A, *C])
    cluster.ingress("other-order", status=[*C, *A])
    cluster.ingress("too-many", status=[*A, *B, *C])
    leader = cluster.start()
    assert [write.name for write in leader.writes()] == ["too-many"]
    assert leader.written() == [[*A, *C]]
    assert cluster.status("other-order") == [*C, *A]


@pytest.mark.behaviour("ingress-status/R5")
def test_nothing_is_written_before_an_address_is_known_and_everything_then(cluster: Any) -> None:
    leader = cluster.start()
    for number in range(100):
        cluster.ingress(f"i{number}")
    cluster.idle()
    assert leader.writes() == []
    cluster.service(A)
    cluster.idle()
    assert sorted(write.name for write in leader.writes()) == sorted(f"i{number}" for number in range(100))
    assert leader.written() == [A] * 100


@pytest.mark.behaviour("ingress-status/R6")
def test_a_changed_address_reaches_ours_and_no_others(cluster: Any, leader: Any) -> None:
    for name in ("one", "two", "three"):
        cluster.ingress(name)
    for name in ("four", "five"):
        cluster.ingress(name, field="nginx", status=C)
    cluster.idle()
    leader.forget()
    cluster.service(B)
    cluster.idle()
    cluster.after(1.5)
    assert sorted(write.name for write in leader.writes()) == ["one", "three", "two"]
    assert leader.written() == [B] * 3
    assert cluster.status("four") == cluster.status("five") == C


@pytest.mark.behaviour("ingress-status/R7")
def test_an_address_that_changes_during_a_pass_is_never_followed_by_an_older_one(cluster: Any) -> None:
    cluster.service(A)
    for number in range(20):
        cluster.ingress(f"i{number:02}", status=A)
    leader = cluster.start(status_qps=10, status_burst=1)
    cluster.service(B)
    cluster.idle()
    cluster.after(1.1)
    cluster.after(1.05, step=0.05)
    half = {write.name for write in leader.writes()}
    assert 8 <= len(half) <= 12
    cluster.service(C)
    cluster.idle()
    cluster.after(1.01)
    cluster.after(6, step=0.05)
    assert all(cluster.status(f"i{number:02}") == C for number in range(20))
    for number in range(20):
        sent = [write.body["status"]["loadBalancer"]["ingress"] for write in leader.writes(f"i{number:02}")]
        assert sent in ([B, C], [C])
        assert len(sent) == 2 or f"i{number:02}" not in half
    only_c = sum(len(leader.writes(f"i{number:02}")) == 1 for number in range(20))
    assert only_c >= 1


@pytest.mark.behaviour("ingress-status/R8")
@pytest.mark.behaviour("ingress-status/R9")
def test_deleted_and_terminating_ingresses_are_not_written(cluster: Any) -> None:
    cluster.service(A)
    leader = cluster.start(status_qps=1, status_burst=1)
    for name in ("first", "gone"):
        cluster.ingress(name)
        cluster.idle()
    assert [write.name for write in leader.writes()] == ["first"]
    cluster.client.delete(*INGRESS, "gone", "default")
    cluster.idle()
    cluster.after(5, step=1)
    finalizer = {"finalizers": ["example.com/wait"]}
    with leader.host.faults.hold_watches():
        cluster.ingress("going", field="elsewhere")
        cluster.edit("going", metadata=finalizer)
        cluster.client.delete(*INGRESS, "going", "default")
        cluster.edit("going", spec={"ingressClassName": None})
    cluster.after(5, step=1)
    assert [write.name for write in leader.writes()] == ["first"]


@pytest.mark.behaviour("ingress-status/R10")
def test_an_ingress_that_is_not_found_is_not_retried(cluster: Any, leader: Any) -> None:
    leader.host.faults.next("patch", ctrlhost.NotFound("gone"), resource="ingresses")
    cluster.ingress("web")
    cluster.after(120, step=30)
    assert len(leader.writes()) == 1
    assert leader.metric("ctrlhost_status_update_failed_total", reason="gone") == 1
    assert leader.metric("ctrlhost_status_update_duration_seconds_count", error="true") == 1


@pytest.mark.behaviour("ingress-status/R11")
def test_a_conflicting_replacement_is_built_again_from_the_servers_object(cluster: Any) -> None:
    cluster.service(A)
    leader = cluster.start(write_method="update")
    leader.host.faults.next("replace", ctrlhost.Conflict("newer"), resource="ingresses", times=2)
    cluster.ingress("web")
    cluster.after(0.5, step=0.1)
    methods = [request.method for request in leader.sent if request.name == "web"]
    assert methods == ["PUT", "GET", "PUT", "GET", "PUT"]
    assert cluster.status("web") == A
    assert leader.metric("ctrlhost_status_update_conflict_total") == 2
    # The event of our own write counts as well, as needless.
    needless = leader.metric("ctrlhost_status_update_noop_total")
    assert leader.metric("ctrlhost_status_update_success_total") == needless + 1
    assert leader.metric("ctrlhost_status_update_duration_seconds_count", error="true") == 0


@pytest.mark.behaviour("ingress-status/R12")
def test_four_conflicts_delay_a_write_and_lose_none(cluster: Any) -> None:
    cluster.service(A)
    leader = cluster.start(write_method="update")
    leader.host.faults.next("replace", ctrlhost.Conflict("newer"), resource="ingresses", times=4)
    cluster.ingress("web")
    cluster.after(3, step=0.1)
    assert cluster.status("web") == A
    # The delayed one is a new try, from the cache.
    assert [request.method for request in leader.sent if request.name == "web"] == ["PUT", "GET"] * 3 + ["PUT", "PUT"]
    assert leader.metric("ctrlhost_status_update_conflict_total") == 4
    assert leader.metric("ctrlhost_status_update_failed_total", reason="conflict") == 1


def test_a_replacement_keeps_what_others_wrote_and_stops_when_it_is_needless(cluster: Any) -> None:
    cluster.service(A)
    leader = cluster.start(write_method="update")
    with leader.host.faults.hold_watches():
        cluster.ingress("web")
        cluster.edit("web", metadata={"labels": {"a": "b"}})
    cluster.idle()
    assert cluster.client.get(*INGRESS, "web", "default")["metadata"]["labels"] == {"a": "b"}
    leader.host.faults.next("replace", ctrlhost.Conflict("newer"), resource="ingresses")
    cluster.ingress("right")
    cluster.idle()
    with leader.host.faults.hold_watches():
        cluster.edit_status("right", A)
        cluster.clock.advance(0.1)
        leader.host.wait_for(
            lambda: [request for request in leader.sent if request.method == "GET" and request.name == "right"]
        )
    cluster.idle()
    assert [request.method for request in leader.sent if request.name == "right"] == ["PUT", "GET"]


@pytest.mark.behaviour("ingress-status/R13")
def test_an_address_that_the_server_refuses_is_not_sent_again(
    cluster: Any, leader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cause = {"field": "status.loadBalancer.ingress[0].ip", "reason": "FieldValueInvalid", "message": "bad"}
    leader.host.faults.next("patch", ctrlhost.Invalid("refused", causes=[cause]), resource="ingresses", times=2)
    cluster.ingress("web")
    cluster.after(3600, step=600)
    assert len(leader.writes()) == 1
    assert any("status.loadBalancer.ingress[0].ip" in record.getMessage() for record in caplog.records)
    assert [event["reason"] for event in leader.host.events()] == ["InvalidAddress"]
    cluster.edit("web", metadata={"labels": {"a": "b"}})
    cluster.idle()
    assert len(leader.writes()) == 2
    cluster.service(B)
    cluster.idle()
    cluster.after(2)
    assert leader.written() == [A, A, B]
    assert cluster.status("web") == B
    assert leader.metric("ctrlhost_status_update_failed_total", reason="invalid") == 2


@pytest.mark.behaviour("ingress-status/R14")
def test_a_busy_server_is_retried_after_the_time_that_it_asks_for(cluster: Any, leader: Any) -> None:
    leader.host.faults.next("patch", ctrlhost.TooManyRequests("busy", retry_after=2), resource="ingresses")
    cluster.ingress("web")
    cluster.idle()
    cluster.after(1.9, step=0.1)
    assert len(leader.writes()) == 1
    cluster.after(0.2)
    assert len(leader.writes()) == 2
    assert cluster.status("web") == A
    assert leader.metric("ctrlhost_status_update_failed_total", reason="throttled") == 1


@pytest.mark.behaviour("ingress-status/R15")
def test_a_recreated_ingress_gets_no_write_meant_for_the_old_one(cluster: Any, leader: Any) -> None:
    cluster.ingress("web", field="elsewhere")
    cluster.idle()
    with leader.host.faults.hold_watches():

        def anew() -> None:
            leader.at_write = None
            cluster.client.delete(*INGRESS, "late", "default")
            cluster.ingress("late", field="contour")

        leader.at_write = anew
        cluster.ingress("late")
    cluster.idle()
    first, second = leader.writes("late")
    uid = cluster.client.get(*INGRESS, "late", "default")["metadata"]["uid"]
    assert first.body["metadata"]["uid"] != uid == second.body["metadata"]["uid"]
    assert leader.metric("ctrlhost_status_update_failed_total", reason="replaced") == 1
    assert cluster.status("late") == A


@pytest.mark.behaviour("ingress-status/R19")
def test_a_write_of_ours_causes_no_other(cluster: Any, leader: Any) -> None:
    cluster.ingress("web")
    cluster.idle()
    cached = leader.host.controllers["ingress-status/ingress-status"].informers[0].lister.get("web", "default")
    for _ in range(6):
        cluster.after(600)
        assert leader.plugin.writer.wakes(cached, cached) is False
    assert len(leader.writes()) == 1
    assert leader.runs() == 1


@pytest.mark.behaviour("ingress-status/R24")
def test_an_ingress_that_becomes_ours_is_written_and_one_that_leaves_keeps_its_status(
    cluster: Any, leader: Any
) -> None:
    cluster.ingress("web", annotation="nginx", status=C)
    cluster.idle()
    cluster.edit("web", metadata={"annotations": {"kubernetes.io/ingress.class": "contour"}})
    cluster.idle()
    assert cluster.status("web") == A
    cluster.edit("web", metadata={"annotations": {"kubernetes.io/ingress.class": "nginx"}})
    cluster.service(B)
    cluster.after(5, step=1)
    assert cluster.status("web") == A
    assert leader.written() == [A]


@pytest.mark.behaviour("ingress-status/R27")
def test_a_manual_edit_is_reverted_until_it_becomes_contention(cluster: Any, leader: Any) -> None:
    cluster.ingress("web")
    cluster.idle()
    for edit in range(5):
        cluster.edit_status("web", C)
        cluster.idle()
        assert cluster.status("web") == A
        assert len(leader.writes()) == edit + 2
    cluster.edit_status("web", C)
    cluster.idle()
    cluster.after(50, step=10)
    assert cluster.status("web") == C
    assert leader.metric("ctrlhost_ingress_status_contested_total") == 1
    assert leader.plugin.report()["contested"] == ["default/web"]
    assert [event["reason"] for event in leader.host.events()] == ["IngressStatusContested"]
    cluster.after(11)
    assert cluster.status("web") == A
    cluster.edit_status("web", C)
    cluster.idle()
    cluster.after(110, step=10)
    assert cluster.status("web") == C
    cluster.after(11)
    assert cluster.status("web") == A


@pytest.mark.behaviour("ingress-status/R28")
def test_a_missing_right_is_logged_once_a_minute_and_recovered_from(
    cluster: Any, leader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    error = ctrlhost.Forbidden("not allowed")
    leader.host.faults.next("patch", error, resource="ingresses", name="web", times=5)
    leader.host.faults.next("patch", error, resource="ingresses", name="web2", times=5)
    for name in ("web", "web2", "fine"):
        cluster.ingress(name)
    cluster.idle()
    assert cluster.status("fine") == A
    leader.host.faults.next("patch", error, resource="ingresses", name="web3", times=1)
    cluster.ingress("web3")
    cluster.idle()
    assert leader.plugin.report()["conditions"] == ["StatusWritesForbidden for 0 s"]
    assert [plugin.state for plugin in leader.host.host.plugins] == ["running"]
    cluster.after(50, step=1)
    assert cluster.status("web") == cluster.status("web2") == A
    told = [
        record for record in caplog.records if "not allowed" in record.getMessage() and record.levelno >= logging.INFO
    ]
    assert len(told) == 1
    assert leader.plugin.report()["conditions"] == []


@pytest.mark.behaviour("ingress-status/R29")
def test_changes_missed_by_a_broken_watch_are_written_once(cluster: Any, leader: Any) -> None:
    for name in ("kept", "gone"):
        cluster.ingress(name)
    cluster.idle()
    leader.forget()
    cut_watches(leader.host, "ingresses")
    cluster.ingress("missed")
    cluster.client.delete(*INGRESS, "gone", "default")
    cluster.edit_status("kept", C)
    cluster.after(60, step=10)
    assert leader.host.faults.left() == 0
    lists = [request for request in leader.sent if request.method == "STREAM" and request.path.endswith("/ingresses")]
    assert [request for request in lists if not request.query.get("watch") or "sendInitialEvents" in request.query], (
        "a relist"
    )
    assert cluster.status("missed") == cluster.status("kept") == A
    assert sorted(write.name for write in leader.writes()) == ["kept", "missed"]


@pytest.mark.parametrize(
    "error", [ctrlhost.ServerError("oops"), ctrlhost.TransportError("cut"), ctrlhost.BadRequest("what")]
)
def test_any_other_failure_is_retried_with_growing_waits(cluster: Any, leader: Any, error: Exception) -> None:
    leader.host.faults.next("patch", error, resource="ingresses", times=8)
    cluster.ingress("web")
    cluster.idle()
    for _ in range(40):
        cluster.after(0.05)
    assert cluster.status("web") == A
    assert len(leader.writes()) == 9
