"""Candidates for one Lease, on the sandbox and a manual clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.client import HttpRequest, Response, Transport
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.config.settings import LeaderElectionConfig
from ctrlhost.coordination.leadership import LeaderElectionCollector
from ctrlhost.coordination.lease import API_VERSION, LeaderElectionRecord, LeaseLock
from ctrlhost.coordination.term import Tenure
from ctrlhost.coordination.writes import Permit, Refusals, Writes
from ctrlhost.errors import ConfigError, Forbidden, NotLeading
from ctrlhost.testing import ManualClock
from tests.support.waiting import eventually
from tests.unit.coordination.elector_rig import LIMIT, Rig


@pytest.fixture(scope="module")
def server() -> Iterator[Sandbox]:
    with Sandbox() as running:
        yield running


@pytest.fixture
def rig(server: Sandbox) -> Iterator[Rig]:
    client = ctrlhost.Client.load(server.kubeconfig)
    candidates = Rig(client, ManualClock())
    yield candidates
    if client.find(API_VERSION, "Lease", "foo", "default"):
        candidates.delete()
    client.close()


@pytest.mark.behaviour("informers/LE1")
def test_the_first_candidate_creates_a_missing_lease_and_leads(rig):
    elector = rig.elector("a")
    elector.attempt()
    assert elector.leading
    assert rig.recording.operations == ["get", "create"]
    spec = rig.lease["spec"]
    assert spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert rig.events["a"] == ["leader a", "started"]


@pytest.mark.behaviour("informers/LE2")
@pytest.mark.parametrize("spec", [{}, {"seconds": 1000, "leaseTransitions": 4}], ids=["empty", "without a holder"])
def test_an_unheld_lease_is_taken_and_counts_as_a_transition(rig, spec):
    rig.put(**spec)
    elector = rig.elector("a")
    elector.attempt()
    assert elector.leading
    assert rig.recording.operations == ["get", "update"]
    assert rig.record.holder_identity == "a"
    assert rig.record.lease_transitions == spec.get("leaseTransitions", 0) + 1


@pytest.mark.behaviour("informers/LE3")
def test_the_duration_in_the_lease_is_respected(rig):
    rig.put("other", 3)
    elector = rig.elector("a")
    assert elector.attempt() <= 3
    assert not elector.leading
    rig.clock.advance(2.9)
    elector.attempt()
    assert not elector.leading
    rig.clock.advance(0.2)
    elector.attempt()
    assert elector.leading
    assert rig.record.lease_duration == 15


@pytest.mark.behaviour("informers/LE4")
def test_a_lease_is_held_for_its_duration_after_its_last_observed_change(rig):
    rig.put("other", 15)
    elector = rig.elector("a")
    elector.attempt()
    assert elector.leader == "other"
    assert rig.events["a"] == ["leader other"]
    rig.clock.advance(14)
    rig.edit(renewTime="2026-01-01T00:00:14.000000Z")
    elector.attempt()
    rig.clock.advance(14)
    elector.attempt()
    assert not elector.leading, "the last observed renewal is 14 s old"
    rig.clock.advance(2)
    elector.attempt()
    assert elector.leading
    assert rig.record.lease_transitions == 1


@pytest.mark.behaviour("informers/LE5")
def test_an_own_lease_is_renewed_without_a_transition(rig):
    rig.put("a", 15, acquireTime="2025-12-31T00:00:00.000000Z", leaseTransitions=2)
    elector = rig.elector("a")
    elector.attempt()
    assert elector.leading
    record = rig.record
    assert (record.acquire_time, record.lease_transitions) == ("2025-12-31T00:00:00.000000Z", 2)
    assert record.renew_time == "2026-01-01T00:00:00.000000Z"


@pytest.mark.behaviour("informers/LE6")
def test_a_release_clears_the_holder_despite_concurrent_changes(rig):
    elector = rig.elector("a")
    elector.attempt()
    rig.recording.operations.clear()
    conflicts = iter(["x", "y"])

    def disturb(operation):
        if operation == "update" and (label := next(conflicts, None)):
            rig.client.patch(API_VERSION, "Lease", "foo", "default", {"metadata": {"labels": {"hand": label}}})

    rig.recording.before = disturb
    elector.release()
    assert rig.recording.operations == ["get", "update"] * 3
    assert (rig.record.holder_identity, rig.record.lease_duration) == ("", 1)
    assert rig.lease["metadata"]["labels"] == {"hand": "y"}
    assert not elector.leading
    assert rig.events["a"][-1] == "leader"


def test_a_release_does_not_affect_the_current_holder(rig):
    elector = rig.elector("a")
    elector.attempt()
    rig.edit(holderIdentity="other")
    elector.release()
    assert rig.record.holder_identity == "other"


@pytest.mark.behaviour("informers/LE7")
@pytest.mark.parametrize(("operation", "step"), [("update", 2), ("get", 15)])
def test_an_elector_stopped_during_a_request_still_releases(rig, operation, step):
    elector = rig.elector("a")
    elector.start()
    eventually(lambda: elector.leading and rig.clock.waiters() == 1, LIMIT)
    arrived, proceed = threading.Event(), threading.Event()

    def block(current):
        if current == operation:
            arrived.set()
            assert proceed.wait(LIMIT)

    rig.recording.before = block
    rig.clock.advance(step)
    assert arrived.wait(LIMIT)
    stopping = threading.Thread(target=elector.stop, args=(LIMIT,), kwargs={"release": True})
    stopping.start()
    eventually(lambda: elector._stop.is_set(), LIMIT)
    assert not elector.leading, "it no longer leads before another may"
    proceed.set()
    stopping.join(LIMIT)
    assert rig.record.holder_identity == ""
    assert rig.events["a"][-1] == "leader"
    assert rig.events["a"].count("stopped") == 1


@pytest.mark.behaviour("informers/LE8")
def test_invalid_settings_are_refused(rig):
    with pytest.raises(ValueError, match="Lock identity is empty"):
        rig.elector("")
    for times, message in {
        (10, 10, 2): "lease_duration must be greater than renew_deadline",
        (15, 2.4, 2): r"renew_deadline must be greater than 1.2 \* retry_period",
        (0, 10, 2): "lease_duration must be greater than zero",
        (15, -1, 2): "renew_deadline must be greater than zero",
        (15, 10, 0): "retry_period must be greater than zero",
        (float("inf"), 10, 2): "lease_duration must be",
    }.items():
        with pytest.raises(ValueError, match=message):
            LeaderElectionConfig(*times)
    assert LeaderElectionConfig() == LeaderElectionConfig(15, 10, 2)


@pytest.mark.behaviour("informers/LE9")
def test_a_leader_writes_its_remembered_lease_without_reading(rig):
    elector = rig.elector("a")
    for _ in range(3):
        elector.attempt()
        rig.clock.advance(2)
    assert rig.recording.operations == ["get", "create", "update", "update"]
    assert elector.slow_paths == 0


@pytest.mark.behaviour("informers/LE10")
def test_a_leader_whose_write_conflicts_reads_and_writes_again(rig):
    elector = rig.elector("a")
    elector.attempt()
    elector.attempt()
    rig.client.patch(API_VERSION, "Lease", "foo", "default", {"metadata": {"labels": {"by": "hand"}}})
    elector.attempt()
    elector.attempt()
    assert rig.recording.operations == ["get", "create", "update", "update", "get", "update", "update"]
    assert elector.leading
    assert rig.lease["metadata"]["labels"] == {"by": "hand"}
    families = {family.name: family for family in LeaderElectionCollector([elector]).collect()}
    assert families["leader_election_master_status"].samples[0][1:3] == ({"name": "foo"}, 1.0)
    assert families["leader_election_slowpath"].samples[0][:3] == (
        "leader_election_slowpath_total",
        {"name": "foo"},
        1,
    )


@pytest.mark.behaviour("informers/LE11")
@pytest.mark.behaviour("findings3/NC18")
def test_only_an_own_expired_lease_is_unhealthy(rig):
    own, others = rig.elector("a"), rig.elector("b")
    own.check()
    own.attempt()
    others.attempt()
    own.check()
    rig.clock.advance(15 + 20)
    own.check()
    rig.clock.advance(0.1)
    others.check()
    with pytest.raises(RuntimeError, match="failed election to renew leadership on lease foo"):
        own.check()


@pytest.mark.behaviour("informers/LE11")
@pytest.mark.behaviour("findings3/NC15")
def test_reads_of_an_own_lease_that_cannot_be_renewed_renew_nothing(rig):
    elector = rig.elector("a")
    elector.attempt()

    def refuse(operation):
        if operation == "update":
            raise Forbidden("a quota, a webhook or an authorizer refuses")

    rig.recording.before = refuse
    for second in range(1, 36):
        rig.clock.advance(1)
        elector.attempt()
        assert elector.observed_age == second
        assert elector.leading is (second < 10)
    assert rig.recording.operations.count("get") > 20
    elector.check()
    rig.clock.advance(0.1)
    elector.attempt()
    with pytest.raises(RuntimeError, match="failed election to renew leadership on lease foo"):
        elector.check()
    rig.recording.before = lambda _: None
    elector.attempt()
    elector.check()
    assert (elector.leading, elector.observed_age) == (True, 0)


@pytest.mark.behaviour("informers/LE12")
def test_an_assigned_lease_is_renewed_and_never_taken(rig, monkeypatch):
    # A server with CoordinatedLeaderElection keeps the fields that others drop.
    monkeypatch.setattr("ctrlhost_sandbox.kinds.coordination._COORDINATED", ())
    rig.put("other", 3, strategy="OldestEmulationVersion")
    elector = rig.elector("a")
    elector.attempt()
    rig.clock.advance(60)
    elector.attempt()
    assert not elector.leading
    rig.edit(holderIdentity="a")
    elector.attempt()
    assert elector.leading
    assert rig.record.strategy == "OldestEmulationVersion"
    rig.edit(preferredHolder="other")
    rig.clock.advance(2)
    elector.attempt()
    rig.clock.advance(8)
    elector.attempt()
    assert not elector.leading
    assert rig.events["a"][-1] == "stopped"


def test_leadership_ends_exactly_on_time_and_before_another_may_begin(rig):
    leader, candidate = rig.elector("a"), rig.elector("b")
    leader.attempt()
    candidate.attempt()
    rig.clock.advance(9.75)
    assert leader.leading
    rig.clock.advance(0.25)
    assert not leader.leading, "leadership expires without an attempt"
    candidate.attempt()
    assert not candidate.leading
    rig.clock.advance(5)
    candidate.attempt()
    assert candidate.leading
    leader.attempt()
    assert rig.events["a"] == ["leader a", "started", "leader b", "stopped"]


def test_a_renewal_counts_from_when_it_was_sent_and_not_from_its_answer(rig):
    elector = rig.elector("a")
    rig.recording.before = lambda operation: rig.clock.advance(7) if operation == "create" else None
    elector.attempt()
    assert elector.leading
    rig.clock.advance(3)
    assert not elector.leading


def test_a_leader_recreates_its_deleted_lease(rig):
    elector = rig.elector("a")
    elector.attempt()
    rig.delete()
    rig.clock.advance(2)
    elector.attempt()
    assert elector.leading
    assert rig.record.holder_identity == "a"


def test_a_leader_that_finds_another_holder_stops_at_once(rig):
    elector = rig.elector("a")
    elector.attempt()
    rig.edit(holderIdentity="hand")
    rig.clock.advance(2)
    elector.attempt()
    assert not elector.leading
    assert rig.events["a"] == ["leader a", "started", "leader hand", "stopped"]
    rig.clock.advance(15)
    elector.attempt()
    assert elector.leading


def test_a_holder_with_a_clock_years_ahead_is_judged_by_its_changes(rig):
    rig.put("other", 15, renewTime="2099-01-01T00:00:00.000000Z", acquireTime="2099-01-01T00:00:00.000000Z")
    elector = rig.elector("a")
    elector.attempt()
    assert not elector.leading
    rig.clock.advance(15)
    elector.attempt()
    assert elector.leading
    assert rig.record.renew_time == "2026-01-01T00:00:15.000000Z"


def test_labels_are_added_and_other_labels_kept(rig):
    rig.put("", 1)
    rig.client.patch(API_VERSION, "Lease", "foo", "default", {"metadata": {"labels": {"team": "x"}}})
    rig.elector("a", app="ctrlhost").attempt()
    assert rig.lease["metadata"]["labels"] == {"team": "x", "app": "ctrlhost"}


def test_a_lock_that_was_never_read_writes_nothing(rig):
    lock = LeaseLock(rig.client, "default", "foo", "a")
    with pytest.raises(ctrlhost.CtrlhostError, match="lease not initialized, call get or create first"):
        lock.update(LeaderElectionRecord(), timeout=1)


def test_invalid_times_are_an_error_of_the_settings():
    from ctrlhost.config.load import Configuration

    gathered = Configuration.gather(assignments=["host.leader_elect_renew_deadline=20s"])
    with pytest.raises(
        ConfigError, match="`leader_elect_lease_duration` must be greater than `leader_elect_renew_deadline`"
    ):
        gathered.host()


def test_a_write_is_not_retried_after_losing_leadership():
    tenure, sent = Tenure.endless(), []

    class Busy(Transport):
        def send(self, request: HttpRequest) -> Response:
            request.permit()
            sent.append(request.method)
            tenure.end()
            return Response(429, {"retry-after": "0"}, b"{}")

    writes = Writes("demo", tenure, Refusals())
    client = ctrlhost.Client.over(GovernedTransport(Busy(), None, writes.read, Permit(writes)))
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
    with pytest.raises(NotLeading):
        client.create(config_map)
    assert sent == ["POST"]


@pytest.mark.behaviour("findings3/NC17")
def test_a_lease_that_was_deleted_is_taken_again_for_a_new_term(rig):
    elector = rig.elector("a")
    elector.attempt()
    term = elector.tenure.term
    rig.delete()
    rig.clock.advance(2)
    elector.attempt()
    assert elector.leading
    # Another replica may have held the lease in between.
    assert elector.tenure.term != term
    assert rig.events["a"] == ["leader a", "started", "stopped", "started"]
