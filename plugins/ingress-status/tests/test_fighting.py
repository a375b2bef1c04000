"""Services that keep changing, and other controllers of the same statuses."""

from __future__ import annotations

from typing import Any

A, B = [{"ip": "203.0.113.1"}], [{"ip": "203.0.113.2"}]
THEIRS = [{"ip": "198.51.100.1"}]
NAMES = ("one", "two", "three")


def test_a_service_that_flaps_ten_times_a_second_costs_a_write_in_five_seconds(cluster: Any) -> None:
    cluster.service(A)
    for name in NAMES:
        cluster.ingress(name, status=A)
    leader = cluster.start()
    for _ in range(100):
        for addresses in (B, A):
            cluster.service(addresses)
            cluster.idle()
            cluster.after(0.1)
    # A change that is reverted within the hold-off is none, so few are left.
    assert len(leader.writes()) <= len(NAMES) * (20 / 5 + 1)
    cluster.service(B)
    cluster.idle()
    cluster.after(1.1)
    assert [cluster.status(name) for name in NAMES] == [B] * len(NAMES)
    leader.forget()
    cluster.after(60, step=10)
    assert leader.writes() == []


def test_a_service_that_flaps_between_an_address_and_none_removes_nothing(cluster: Any) -> None:
    cluster.service(A)
    cluster.ingress("one")
    leader = cluster.start()
    for _ in range(50):
        for addresses in ([], A):
            cluster.service(addresses)
            cluster.idle()
            cluster.after(0.1)
    assert leader.written() == [A]
    assert cluster.status("one") == A


def test_two_controllers_of_the_same_ingresses_soon_stop_contending(cluster: Any) -> None:
    for name in NAMES:
        cluster.ingress(name)
    ours = cluster.start(ingress_status_address="203.0.113.1")
    theirs = cluster.start(ingress_status_address="198.51.100.1", settle=False)
    theirs.host.wait_for(lambda: theirs.plugin.desired.elected)
    cluster.idle()
    # Each reverts the other five times, and one of them pauses first; two changes that arrive as one count as none.
    assert max(len(ours.writes(name)) for name in NAMES) <= 15
    assert max(len(theirs.writes(name)) for name in NAMES) <= 15
    contested = [replica.metric("ctrlhost_ingress_status_contested_total") for replica in (ours, theirs)]
    assert sum(contested) >= len(NAMES)
    assert all(cluster.status(name) in (A, THEIRS) for name in NAMES)
    reasons = [event["reason"] for event in cluster.client.list("events.k8s.io/v1", "Event", "default")]
    assert "IngressStatusContested" in reasons
    # A new Ingress of another class is not involved, and one of ours is written as usual.
    ours.forget()
    theirs.forget()
    cluster.ingress("foreign", field="nginx")
    for _ in range(60):
        cluster.after(60)
    assert cluster.status("foreign") is None
    # Pauses of 1, 2, 4, … 30 minutes leave a few rounds in an hour.
    for replica in (ours, theirs):
        assert max(len(replica.writes(name)) for name in NAMES) <= 30
