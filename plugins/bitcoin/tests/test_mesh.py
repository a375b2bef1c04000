"""The mesh: the peers of each node, retries, and what is reported."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from ctrlhost_bitcoin.rpc.client import RpcClient

from examples.bitcoind.fake_daemon import Fails, Raw, Reply, Silent, Slow
from examples.bitcoind.fake_servers import FakeDaemons
from plugins.bitcoin.tests.cluster import NAME


@pytest.fixture
def net(cluster: Any) -> Any:
    """A reconciled network of three."""
    cluster.start()
    cluster.net(3)
    return cluster


@pytest.mark.behaviour("bitcoin/B20")
def test_a_list_that_was_lost_is_filled_again(net: Any) -> None:
    first, second, _ = net.pods(3)
    status = net.status()
    first.forget()
    net.after(31)
    assert sorted(first.added) == ["10.0.0.2", "10.0.0.3"]
    assert sorted(second.added) == ["10.0.0.1", "10.0.0.3"]
    assert net.status() == status


@pytest.mark.behaviour("bitcoin/B20")
def test_a_failed_add_is_retried_though_the_status_is_unchanged(net: Any) -> None:
    first = net.daemon("10.0.0.1")
    first.script(Fails(-1), "addnode", times=1)
    net.daemon("10.0.0.2")
    net.pod(0, "10.0.0.1")
    net.pod(1, "10.0.0.2")
    assert len(net.status()["nodes"]) == 2
    assert net.condition("MeshConverged") == ("False", "Converging")
    net.after(1.1)
    assert first.added == ["10.0.0.2"]
    assert net.condition("MeshConverged") == ("True", "Converged")


@pytest.mark.behaviour("bitcoin/B21")
def test_a_change_that_is_done_already_is_no_failure(net: Any) -> None:
    first, second = net.pods(2)
    first.script(Fails(-23), "addnode", times=1)
    second.script(Fails(-24), "addnode")
    second.script(Fails(-29), "disconnectnode")
    first.forget()
    second.added.append("10.0.0.77")
    net.after(31)
    assert ["10.0.0.77", "remove"] in second.called("addnode")
    assert ["10.0.0.77"] in second.called("disconnectnode")
    assert first.called("addnode").count(["10.0.0.2", "add"]) >= 2
    assert not {"NodeUnreachable", "RPCUnauthorized"} & set(net.reasons())
    nodes = net.replicas[0].plugin.memory.all()[0][1].nodes
    assert [state.reason for state in nodes.values()] == [None, None]


@pytest.mark.behaviour("bitcoin/B22")
def test_entries_of_users_stay_and_a_node_is_not_its_own_peer(net: Any) -> None:
    first, _ = net.pods(2)
    users = ["peer.example", "10.0.0.9:19000", "[fd00::9]:18444"]
    first.added += [*users, "10.0.0.1"]
    net.idle()
    net.after(31)
    assert sorted(first.added) == sorted([*users, "10.0.0.2"])


@pytest.mark.behaviour("bitcoin/B23")
def test_an_unreached_peer_is_dialled_once_per_pass(net: Any) -> None:
    first = net.daemon("10.0.0.1", dials=False)
    second = net.daemon("10.0.0.2", dials=False)
    for daemon in (first, second):
        daemon.reaches = lambda _: False
    net.pod(0, "10.0.0.1")
    net.pod(1, "10.0.0.2")

    def dialled() -> int:
        return first.called("addnode").count(["10.0.0.2", "onetry"])

    assert dialled() == 1
    for wait, count in ((1.0, 2), (2.0, 3), (4.0, 4)):
        net.after(wait - 0.1)
        assert dialled() == count - 1
        net.after(0.2)
        assert dialled() == count
    assert net.condition("MeshConverged") == ("False", "Converging")
    for daemon in (first, second):
        daemon.reaches = lambda _: True
    net.after(8.1)
    assert dialled() == 5
    assert net.condition("MeshConverged") == ("True", "Converged")
    calls = len(first.calls)
    net.after(60, step=10)
    assert set(first.called()[calls:]) == {"getaddednodeinfo"}


@pytest.mark.behaviour("bitcoin/B25")
def test_ready_nodes_of_a_large_network_are_linked_by_ordinals(cluster: Any) -> None:
    cluster.start()
    cluster.net(12)
    daemons = {}
    for ordinal in (0, 3, 7):
        daemons[ordinal] = cluster.daemon(f"10.0.0.{ordinal + 1}")
        cluster.pod(ordinal, f"10.0.0.{ordinal + 1}")
    cluster.idle()
    assert {ordinal: daemon.added for ordinal, daemon in daemons.items()} == {
        0: ["10.0.0.4"],
        3: ["10.0.0.8"],
        7: ["10.0.0.1"],
    }


@pytest.mark.behaviour("bitcoin/B25")
def test_links_never_drop_where_the_rule_changes(cluster: Any) -> None:
    cluster.start()
    cluster.net(9)
    daemons = cluster.pods(9)

    def linked() -> bool:
        return all(
            daemon is second or second.host in daemon.links or daemon.host in second.links
            for daemon in daemons[:9]
            for second in daemons[:9]
        )

    assert linked()
    steps: list[tuple[str, str]] = []
    for daemon in daemons:
        answer = daemon._run

        def watched(method: str, params: Any, answer: Any = answer) -> Any:
            result = answer(method, params)
            if method != "getaddednodeinfo":
                steps.append((method, str(params)))
                assert linked(), steps
            return result

        daemon._run = watched
    cluster.edit(nodes=10)
    daemons += cluster.pods(10, first=9)
    cluster.idle()
    assert all(len(daemon.added) == 5 for daemon in daemons)
    cluster.edit(nodes=9)
    assert all(len(daemon.added) == 8 for daemon in daemons[:9])
    assert any("add" in params for _, params in steps)
    assert any("remove" in params for _, params in steps)
    assert cluster.condition("MeshConverged") == ("True", "Converged")


@pytest.mark.behaviour("bitcoin/B26")
@pytest.mark.parametrize(
    ("ips", "added"),
    [
        (("10.0.0.1", "10.0.0.2"), "10.0.0.2:19000"),
        (("fd00::1", "fd00::2"), "[fd00::2]:19000"),
    ],
)
def test_another_port_is_part_of_every_address(cluster: Any, ips: tuple[str, str], added: str) -> None:
    cluster.start()
    cluster.net(2, p2pPort=19000, rpcPort=19001)
    first, second = (cluster.daemon(ip, port=19001) for ip in ips)
    for daemon in (first, second):
        daemon.reaches = lambda _: True
    for ordinal, ip in enumerate(ips):
        cluster.pod(ordinal, ip)
    cluster.idle()
    assert first.added == [added]
    # RpcTarget takes the bare address; the client's tests cover the brackets in the URL.
    assert first.called("getaddednodeinfo")
    assert cluster.condition("MeshConverged") == ("True", "Converged")
    assert second.added == [added.replace("2", "1", 1) if "." not in added else "10.0.0.1:19000"]


@pytest.mark.behaviour("bitcoin/B27")
@pytest.mark.parametrize(
    ("behaviour", "reason", "wait"),
    [
        (None, "Refused", 1.0),
        (Silent(), "Timeout", 1.0),
        (Raw((b"garbage",)), "Protocol", 1.0),
        (Reply(503, b"Work queue depth exceeded"), "Busy", 2.0),
        (Fails(-28, "Loading block index…"), "WarmingUp", 1.0),
    ],
    ids=["refuses", "hangs", "sends garbage", "is busy", "warms up"],
)
def test_a_failing_node_delays_no_other(net: Any, behaviour: Any, reason: str, wait: float) -> None:
    first, third = net.daemon("10.0.0.1"), net.daemon("10.0.0.3")
    if behaviour is not None:
        net.daemon("10.0.0.2").script(behaviour)
    for ordinal in (0, 2):
        net.pod(ordinal, f"10.0.0.{ordinal + 1}")
    net.idle()
    post, ends = net.http.post, threading.Event()

    def post_and_hang(host: str, *content: Any, **limits: Any) -> Any:
        if host == "10.0.0.2":
            assert ends.wait(60)
        return post(host, *content, **limits)

    net.http.post, net.settles = post_and_hang, False
    net.pod(1, "10.0.0.2")
    # The others are done while the call to this one has no end yet.
    net.replicas[0].host.wait_for(lambda: "10.0.0.2" in first.added and "10.0.0.2" in third.added)
    ends.set()
    net.idle()
    (_, memory), *_ = net.replicas[0].plugin.memory.all()
    (state,) = [state for (_, ip), state in memory.nodes.items() if ip == "10.0.0.2"]
    assert (state.reason, state.failures) == (reason, 1)
    assert state.next_try == pytest.approx(net.clock.now() + wait)
    controller = net.replicas[0].controller
    assert controller.status().errors == 0
    net.after(wait - 0.1)
    assert state.failures == 1
    net.after(0.2)
    assert state.failures == 2
    assert controller.status().errors == 0


@pytest.mark.slow
@pytest.mark.behaviour("bitcoin/B28")
def test_hanging_daemons_delay_no_other_network(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlhost_bitcoin.parts.RpcClient", RpcClient)
    with FakeDaemons() as daemons:
        hanging = [daemons.start(f"127.0.9.{number + 1}") for number in range(20)]
        for daemon in hanging:
            daemon.script(Silent())
        fine = [daemons.start(f"127.0.9.{number + 101}") for number in range(3)]
        cluster.start(workers=2, mesh_deadline="1500ms", rpc_timeout="1s")
        cluster.net(20, name="bad")
        cluster.net(3)
        for number in range(20):
            cluster.pod(number, hanging[number].host, name="bad")
        for number in range(3):
            cluster.pod(number, fine[number].host)
        cluster.idle()
        assert all(len(daemon.added) == 2 for daemon in fine)
        assert cluster.condition("MeshConverged") == ("True", "Converged")
        # 20 nodes of a second each, eight at once, take longer than a pass may.
        assert cluster.condition("MeshConverged", "bad") == ("False", "Converging")
        begun = time.monotonic()
        cluster.replicas[0].enqueue("bad")
        cluster.edit(nodes=2)
        assert time.monotonic() - begun < 60
        assert all(len(daemon.added) == 1 for daemon in fine[:2])
        for daemon in hanging:
            daemon.behave()
        for _ in range(12):
            cluster.after(5)
        assert cluster.condition("MeshConverged", "bad") == ("True", "Converged")


@pytest.mark.behaviour("bitcoin/B38")
def test_a_node_is_reported_once_until_it_recovers(net: Any) -> None:
    first, second, third = net.pods(3)
    third.script(Silent())

    def reported() -> int:
        return sum((event.get("series") or {}).get("count", 1) for event in net.events("NodeUnreachable"))

    net.after(30)
    assert reported() == 0
    net.after(300, step=1)
    assert reported() == 1
    (event,) = net.events("NodeUnreachable")
    assert event["note"] == f"node {NAME}-sts-2 (10.0.0.3): Timeout"
    assert net.condition("MeshConverged") == ("False", "NodeUnreachable")
    metric = {"namespace": "test", "name": NAME, "state": "unreachable"}
    assert net.replicas[0].metric("ctrlhost_bitcoin_nodes", **metric) == 1
    assert sorted(first.added) == ["10.0.0.2", "10.0.0.3"]
    third.behave()
    net.after(31)
    assert net.condition("MeshConverged") == ("True", "Converged")
    assert net.replicas[0].metric("ctrlhost_bitcoin_nodes", **metric) == 0
    assert reported() == 1
    third.script(Silent())
    net.after(60, step=1)
    assert reported() == 2
    assert second.logins_refused == 0


def test_a_pod_with_a_new_address_replaces_its_old_one(net: Any) -> None:
    first, second, third = net.pods(3)
    assert len(net.events("MeshConverged")) == 1
    net.delete_pod(2)
    assert first.added == ["10.0.0.2"]
    assert first.links == {"10.0.0.2"}
    new = net.daemon("10.0.0.33")
    net.pod(2, "10.0.0.33")
    assert sorted(first.added) == sorted(first.links) == ["10.0.0.2", "10.0.0.33"]
    assert sorted(new.added) == ["10.0.0.1", "10.0.0.2"]
    assert sorted(second.added) == ["10.0.0.1", "10.0.0.33"]
    assert net.condition("Ready") == ("True", "Ready")
    assert third.called()


def test_a_restart_in_place_is_repaired_though_the_pod_stayed_ready(net: Any) -> None:
    first, second, _ = net.pods(3)
    first.forget()
    second.links.discard("10.0.0.1")
    net.set_pod(0, restarts=1)
    assert sorted(first.added) == sorted(first.links) == ["10.0.0.2", "10.0.0.3"]
    assert sorted(second.links) == ["10.0.0.1", "10.0.0.3"]


def test_a_single_node_has_no_peers(net: Any) -> None:
    daemon = net.daemon("10.0.0.1")
    daemon.added = ["10.0.0.2"]
    net.pod(0, "10.0.0.1")
    assert daemon.added == []
    net.edit(nodes=1)
    assert net.condition("MeshConverged") == ("True", "SingleNode")
    assert net.events("MeshConverged") == []


@pytest.mark.real
@pytest.mark.behaviour("findings/FP7")
@pytest.mark.parametrize("ready", [0, 1])
def test_a_mesh_without_pods_has_not_converged(net: Any, ready: int) -> None:
    net.pods(ready)
    net.pod(ready, "10.0.0.9", ready=False)
    assert net.condition("MeshConverged") == ("Unknown", "WaitingForPods")
    assert net.kubectl("get", "btcnet", NAME, "--no-headers").stdout.split()[1:4] == ["3", str(ready), "Unknown"]
    # With 0 s, kubectl checks once.
    wait = ("wait", "--for=condition=MeshConverged", f"btcnet/{NAME}", "--timeout=0s")
    assert net.kubectl(*wait).returncode != 0
    net.delete_pod(ready)
    net.pods(3, first=ready)
    assert net.condition("MeshConverged") == ("True", "Converged")
    assert net.kubectl(*wait).returncode == 0


@pytest.mark.behaviour("findings/FP7")
def test_a_mesh_whose_pods_are_all_lost_is_no_longer_converged(net: Any) -> None:
    net.edit(nodes=1)
    net.pods(1)
    assert net.condition("MeshConverged") == ("True", "SingleNode")
    net.set_pod(0, ready=False)
    assert net.condition("MeshConverged") == ("Unknown", "WaitingForPods")


def test_slow_daemons_are_waited_for(net: Any) -> None:
    first, _ = net.pods(2)
    first.script(Slow(1.0), times=1)
    net.after(31)
    assert first.added == ["10.0.0.2"]


def test_metrics_count_calls_and_links(net: Any) -> None:
    net.pods(3)
    metric = net.replicas[0].metric
    labels = {"namespace": "test", "name": NAME}
    assert metric("ctrlhost_bitcoin_mesh_links", **labels, state="wanted") == 6
    assert metric("ctrlhost_bitcoin_mesh_links", **labels, state="connected") == 6
    assert metric("ctrlhost_bitcoin_nodes", **labels, state="ready") == 3
    assert metric("ctrlhost_bitcoin_rpc_requests_total", method="getaddednodeinfo", outcome="ok")
    assert metric("ctrlhost_bitcoin_rpc_requests_total", method="addnode", outcome="ok")
    assert metric("ctrlhost_bitcoin_rpc_duration_seconds_count", method="addnode")
