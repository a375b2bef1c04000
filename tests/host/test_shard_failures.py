"""Replicas that share keys, each in a process, which are killed, stopped and cut off; judged by the audit log."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from ctrlhost.testing.fault_proxy import FaultProxy
from tests.host.replicas import LONG, ON_THE_WAY, SHORT, Times
from tests.host.sharded_replicas import HAMMER, ShardedReplicas, runs
from tests.support.control_plane import WRITES, ControlPlane, KubeApiserver, SandboxControlPlane, require_kube_apiserver

GATE = "ShardedListAndWatch"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("sandbox", True), id="sandbox, gate on"),
        pytest.param(("sandbox", False), id="sandbox, gate off", marks=pytest.mark.slow),
        pytest.param(
            ("kube-apiserver", True), id="kube-apiserver, gate on", marks=[pytest.mark.real, pytest.mark.slow]
        ),
        pytest.param(
            ("kube-apiserver", False), id="kube-apiserver, gate off", marks=[pytest.mark.real, pytest.mark.slow]
        ),
    ],
)
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return each server with the feature gate on and off."""
    kind, gate = request.param
    directory = tmp_path_factory.mktemp(kind)
    if kind == "sandbox":
        sandbox = SandboxControlPlane(directory, feature_gates={GATE: gate})
        yield sandbox
        sandbox.stop()
        return
    require_kube_apiserver()
    with KubeApiserver(directory, audit=[WRITES], flags=[f"--feature-gates={GATE}={str(gate).lower()}"]) as server:
        yield server


@pytest.fixture
def replicas(control_plane, namespace, start_host, distributions):
    distributions.add("hammer", HAMMER)
    return ShardedReplicas(control_plane, namespace, start_host)


@pytest.mark.behaviour("shards/SH78")
def test_the_ranges_of_a_killed_replica_rest_until_its_lease_has_expired(replicas):
    replicas.start("a")
    second = replicas.start("b")
    replicas.wait_until_shared("a", "b")
    second.signal(signal.SIGKILL)
    second.wait()
    lost = replicas.owned_by("b")
    assert lost
    replicas.wait_until_shared("a")
    last = replicas.renewals("b")[-1]
    for name in lost:
        written = replicas.writes()[name]
        ended = max(at for at, by, _ in written if by == "b")
        taken = min(at for at, by, _ in written if by == "a" and at > ended)
        assert taken >= last + SHORT.lease_duration - ON_THE_WAY, "taken before the Lease expired"


@pytest.mark.slow
@pytest.mark.behaviour("shards/SH79")
def test_a_replica_that_slept_for_too_long_comes_back_with_nothing(replicas):
    first, second = replicas.start("a"), replicas.start("b")
    owners = replicas.wait_until_shared("a", "b")
    second.signal(signal.SIGSTOP)
    replicas.wait_until_shared("a")
    woken = time.time()
    second.signal(signal.SIGCONT)
    # It joins again, and gets some back.
    replicas.wait_until_shared("a", "b")
    joined = next(at for at in replicas.renewals("b") if at > woken)
    slept = [name for name, owner in owners.items() if owner == "b"]
    for name in slept:
        late = [(at, code) for at, by, code in replicas.writes()[name] if by == "b" and woken < at < joined]
        assert all(code == 409 for _, code in late), f"the sleeper wrote {name}: {late}"
    assert (first.stop(), second.stop()) == (0, 0)
    replicas.check()


@pytest.mark.behaviour("shards/SH80")
def test_a_replica_that_is_cut_off_stops_at_its_deadline_and_comes_back_with_nothing(replicas, control_plane):
    with FaultProxy(control_plane) as network:
        hosts = [replicas.start("a"), replicas.start("b"), replicas.start("c", kubeconfig=network.kubeconfig)]
        replicas.wait_until_shared("a", "b", "c")
        network.cut(silent=True)
        cut, lost = time.time(), replicas.owned_by("c")
        assert lost
        replicas.wait_until_shared("a", "b")
        assert replicas.owned_by("c") == []
        last, restored = replicas.renewals("c")[-1], time.time()
        network.restore()
        # It joins again, and gets some back.
        replicas.wait_until_shared("a", "b", "c")
        joined = next(at for at in replicas.renewals("c") if at > restored)
        began = runs(hosts[-1])
        assert any(at > cut for at in began), "it goes on until its deadline"
        assert not [at for at in began if last + SHORT.renew_deadline + ON_THE_WAY < at < joined], "it did not stop"
        assert any(at > joined for at in began)
        for name, writes in replicas.writes().items():
            if name in lost:
                taken = min(at for at, by, _ in writes if by != "c" and at > cut)
                assert taken >= last + SHORT.lease_duration, f"{name} was taken before the Lease expired"
            # What was on the way at the cut came then; what waited comes at the end.
            late = [(at, code) for at, by, code in writes if by == "c" and restored < at < joined]
            assert all(code == 409 for _, code in late), f"{name} was written late: {late}"
        assert [host.stop() for host in hosts] == [0, 0, 0]
    replicas.check()


@pytest.mark.behaviour("shards/SH81")
def test_after_a_crash_of_all_the_next_ones_wait_until_the_leases_have_expired(replicas):
    killed = [replicas.start("a"), replicas.start("b")]
    replicas.wait_until_shared("a", "b")
    for host in killed:
        host.signal(signal.SIGKILL)
    for host in killed:
        host.wait()
    started = time.time()
    after = [replicas.start("c"), replicas.start("d")]
    replicas.wait_until_shared("c", "d")
    for host in after:
        # They count the silence of a Lease from when they saw it.
        assert min(runs(host)) >= started + SHORT.lease_duration
    replicas.check()


@pytest.mark.behaviour("shards/SH81")
def test_after_a_clean_stop_of_all_the_next_ones_run_at_once(replicas):
    """No wait here is long enough for a Lease to expire."""
    stopped = [replicas.start("a", times=LONG), replicas.start("b", times=LONG)]
    replicas.wait_until_shared("a", "b")
    for host in stopped:
        host.signal(signal.SIGTERM)
    assert [host.wait() for host in stopped] == [0, 0]
    for name in ("c", "d"):
        replicas.start(name, times=LONG)
    replicas.wait_until_shared("c", "d")
    replicas.check()


#: The defaults: the time in which a Lease expires is far from that of a move.
DEFAULT = Times(15, 10, 2)


@pytest.mark.behaviour("shards/SH82")
def test_a_rolling_restart_under_load(replicas):
    """As a Deployment does it: a replica stops once its successor is ready."""
    least = 2

    def start(name: str) -> Any:
        host = replicas.start(name, f"--set=shards.min_members={least}", times=DEFAULT)
        host.eventually(lambda: host.get("/readyz")[0] == 200, f"{name} is ready")
        return host

    # The first one alone takes its part, and no more.
    running = [start(name) for name in ("a", "b", "c")]
    replicas.wait_until_shared("a", "b", "c")
    for name in ("d", "e", "f"):
        running.append(start(name))
        assert running.pop(0).stop() == 0
    replicas.wait_until_shared("d", "e", "f")
    replicas.check()
    for name, writes in replicas.writes().items():
        for (before, giver, _), (after, taker, _) in pairwise(writes):
            if giver != taker:
                # One that waited for a Lease would wait for the most part of its duration.
                assert after - before < DEFAULT.lease_duration - DEFAULT.retry_period - ON_THE_WAY, f"gap of {name}"
    for _, shards in replicas.maps():
        line = shards.lines["namespace"]
        total = sum(entry.weight for entry in line)
        for owner in {entry.owner for entry in line} - {None}:
            owned = [entry.weight for entry in line if entry.owner == owner]
            assert sum(owned) <= total / least or sum(weight > 0 for weight in owned) == 1
