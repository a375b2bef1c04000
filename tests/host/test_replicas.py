"""Two replicas with one leader through all failures, checked with the audit logs of both servers."""

from __future__ import annotations

import signal
import time

import pytest

from ctrlhost.testing.fault_proxy import FaultProxy
from tests.host.replicas import HAMMER, LIMIT, LONG, ON_THE_WAY, SHORT, Replicas
from tests.support.waiting import eventually


@pytest.fixture
def replicas(control_plane, namespace, start_host, distributions):
    distributions.add("hammer", HAMMER)
    return Replicas(control_plane, namespace, start_host)


def wait_for_standby(host, leader):
    eventually(lambda: f"standing by for {leader}_" in host.get("/healthz?verbose")[1], LIMIT)


def leader_and_standby(replicas, times):
    leader = replicas.start("a", times)
    replicas.wait_for_writes("a")
    standby = replicas.start("b", times)
    standby.line("plugin hammer running")
    wait_for_standby(standby, "a")
    return leader, standby


def test_a_standby_takes_over_from_a_killed_leader(replicas):
    first, second = leader_and_standby(replicas, SHORT)
    assert second.metric("leader_election_master_status", name="ctrlhost") == 0
    assert first.metric("leader_election_master_status", name="ctrlhost") == 1
    killed = time.time()
    first.signal(signal.SIGKILL)
    first.wait()
    replicas.wait_for_writes("b")
    assert replicas.lease()["leaseTransitions"] == 1
    taken = replicas.acquired("b", killed)
    last = max(at for at, holder in replicas.terms() if holder == "a")
    assert taken - last >= SHORT.lease_duration - ON_THE_WAY, "took over before the lease expired"
    assert second.metric("leader_election_master_status", name="ctrlhost") == 1
    assert second.stop() == 0
    assert replicas.holder() == ""
    replicas.check(SHORT)


@pytest.mark.slow
def test_a_paused_leader_detects_that_it_is_deposed_and_starts_no_write(replicas):
    first, second = leader_and_standby(replicas, SHORT)
    logged = len(first.lines)
    first.signal(signal.SIGSTOP)
    replicas.wait_for_writes("b")
    first.signal(signal.SIGCONT)
    first.line("stopped leading", after=logged)
    first.line("deposed", after=logged)
    replicas.wait_for_writes("b")
    assert replicas.holder() == "b"
    assert second.stop() == 0
    replicas.wait_for_writes("a")
    assert first.stop() == 0
    replicas.check(SHORT, paused=["a"])


def test_a_leader_that_shuts_down_hands_over_at_once(replicas):
    first, second = leader_and_standby(replicas, LONG)
    sent_at = time.time()
    assert first.stop() == 0
    assert "released lease" in first.text
    replicas.wait_for_writes("b")
    released, taken = replicas.released(sent_at), replicas.acquired("b", sent_at)
    assert taken >= released
    assert not [write for write in replicas.writes() if write.body["data"]["by"] == "a" and write.at > released]
    assert second.stop() == 0
    replicas.check(LONG)


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
def test_a_disconnected_leader_stops_before_another_starts(replicas, control_plane, silent):
    with FaultProxy(control_plane) as network:
        first = replicas.start("a", SHORT, kubeconfig=network.kubeconfig)
        replicas.wait_for_writes("a")
        second = replicas.start("b", SHORT)
        second.line("plugin hammer running")
        wait_for_standby(second, "a")
        # On a busy machine it may have lost and regained the lease before.
        logged = len(first.lines)
        network.cut(silent=silent)
        cut = time.time()
        first.line("stopped leading", after=logged)
        assert first.metric("leader_election_master_status", name="ctrlhost") == 0
        replicas.wait_for_writes("b")
        network.restore()
        wait_for_standby(first, "b")
        assert replicas.acquired("b", cut) - cut <= SHORT.lease_duration + ON_THE_WAY
        assert second.stop() == 0
        replicas.wait_for_writes("a")
        assert first.stop() == 0
    # Requests in flight during the cut arrive at the end.
    replicas.check(SHORT, paused=["a"] if silent else [])


def test_a_deleted_lease_stays_with_its_holder_and_a_manually_taken_one_must_expire(replicas):
    first, second = leader_and_standby(replicas, SHORT)

    replicas.client.delete("coordination.k8s.io/v1", "Lease", "ctrlhost", replicas.namespace)
    eventually(lambda: replicas.holder() == "a", LIMIT, "its holder creates it again")
    assert second.metric("leader_election_master_status", name="ctrlhost") == 0

    stolen, logged = time.time(), len(first.lines)
    replicas.edit(holderIdentity="gone_pod", leaseDurationSeconds=3, renewTime="2099-01-01T00:00:00.000000Z")
    first.line("stopped leading", after=logged)
    eventually(lambda: replicas.holder() in ("a", "b"), LIMIT, "an expired lease without a living holder is taken")
    taken = replicas.written(lambda holder: holder in ("a", "b"), stolen)
    assert taken - stolen >= 3 - ON_THE_WAY
    replicas.wait_for_writes(replicas.holder())
    for host in (first, second):
        assert host.stop() == 0
    replicas.check(SHORT, manual_holder="gone")


def test_two_plugins_may_have_their_leaders_in_different_replicas(control_plane, namespace, start_host, distributions):
    for plugin in ("left", "right"):
        distributions.add(plugin, HAMMER)
    replicas = Replicas(control_plane, namespace, start_host, "left", "right")
    own = "--set=host.leader_elect_plugins=left,right"
    metadata = {"name": "ctrlhost-right", "namespace": namespace}
    spec = {"holderIdentity": "b_to_come", "leaseDurationSeconds": 3600}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    replicas.client.create(lease)
    first = replicas.start("a", SHORT, own)
    replicas.wait_for_writes("a", "left")
    wait_for_standby(first, "b")
    second = replicas.start("b", SHORT, own)
    wait_for_standby(second, "a")
    replicas.client.delete("coordination.k8s.io/v1", "Lease", "ctrlhost-right", namespace)
    replicas.client.create({**lease, "spec": {}})
    eventually(lambda: replicas.holder("ctrlhost-right") in ("a", "b"), LIMIT)
    leader = replicas.holder("ctrlhost-right")
    replicas.wait_for_writes(leader, "right")
    assert first.stop() == 0
    for plugin in ("left", "right"):
        replicas.wait_for_writes("b", plugin)
        assert replicas.holder(f"ctrlhost-{plugin}") == "b"
    assert second.stop() == 0
    for plugin in ("left", "right"):
        replicas.check(SHORT, plugin=plugin, lease=f"ctrlhost-{plugin}")
