"""Networks of real daemons: start, idle state, scaling and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ctrlhost
from tests.support.bitcoin_cluster import NETWORK, POD, SERVICE, SOAK, STATEFUL_SET
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.bitcoin_cluster import Cluster

behaviour = pytest.mark.behaviour
RESYNC = "30s" if SOAK else "1s"


@behaviour("bitcoin/E1")
def test_a_network_comes_up_and_one_mined_block_reaches_all_its_nodes(cluster: Cluster) -> None:
    cluster.start()
    cluster.secret("rpc")
    cluster.network("net", 3, "rpc")
    cluster.within(5, lambda: cluster.meshed("net", 3), "E1")
    assert cluster.find(SERVICE, "net-svc") is not None
    assert cluster.find(STATEFUL_SET, "net-sts") is not None
    assert [ordinal for ordinal, ready, _ in cluster.nodes("net") if ready] == [0, 1, 2]
    pods = cluster.pods("net", 3)
    cluster.mine(pods[0], pods)
    eventually(lambda: cluster.is_ready("net"))
    wanted = ["Created", "Created", "MeshConverged"]
    eventually(lambda: len(cluster.reasons("net")) >= len(wanted))
    assert cluster.reasons("net") == wanted


@behaviour("bitcoin/E2", "bitcoin/E17")
@pytest.mark.timeout(600 if SOAK else 120)
def test_an_idle_network_costs_one_call_per_node_and_keeps_entries_of_users(cluster: Cluster) -> None:
    host = cluster.start(resync=RESYNC)
    pods = cluster.up("net", 3)
    eventually(lambda: cluster.is_ready("net"))
    look = ("getaddednodeinfo", "ok")

    def resyncs(count: int) -> None:
        begun = host.calls()[look]
        eventually(lambda: host.calls()[look] >= begun + 3 * count, 40 * count if SOAK else 30, f"{count} resyncs")

    # The last change is checked again soon after it, independently of resyncs.
    resyncs(2)
    writes, calls = list(host.writes), host.calls()
    resyncs(2)
    assert host.writes == writes
    assert {**host.calls(), look: 0} == {**calls, look: 0}

    cluster.rpc(pods[0], "addnode", "extra.example:18444", "add")
    resyncs(3)
    assert cluster.added(pods[0]) == {pods[1].address, pods[2].address, "extra.example:18444"}
    assert host.writes == writes


@behaviour("bitcoin/E7")
def test_a_network_is_scaled_up_and_down_through_its_subresource(cluster: Cluster) -> None:
    host = cluster.start()
    cluster.up("net", 3)
    cluster.scale("net", 5)
    cluster.within(10, lambda: cluster.meshed("net", 5), "E7 up")
    before = host.calls()
    cluster.scale("net", 2)
    cluster.within(10, lambda: cluster.meshed("net", 2), "E7 down")
    first, second = cluster.pods("net", 2)
    assert (cluster.added(first), cluster.added(second)) == ({second.address}, {first.address})
    eventually(lambda: set(cluster.kubelet.pods()) == {"net-sts-0", "net-sts-1"}, 30)
    # Stopping daemons answer with 503 and refuse afterwards, but are not called. One that closed its connections before
    # they were cut is no failure.
    ended = ("disconnectnode", "RpcError")
    failed = {key: count for key, count in host.calls().items() if key[1] != "ok" and key != ended}
    assert failed == {key: count for key, count in before.items() if key[1] != "ok" and key != ended}


@behaviour("bitcoin/E8")
def test_twelve_nodes_are_all_linked_though_none_dials_more_than_eight(cluster: Cluster) -> None:
    cluster.start()
    cluster.network("net", 12)
    ring = [{(node + offset) % 12 for offset in range(1, 7)} for node in range(12)]

    def meshed() -> bool:
        running = cluster.kubelet.pods()
        if len(running) < 12 or cluster.conditions("net").get("MeshConverged", ("", ""))[0] != "True":
            return False
        pods = cluster.pods("net", 12)
        return len(cluster.nodes("net")) == 12 and cluster.links_are(
            {pod: {pods[other].address for other in others} for pod, others in zip(pods, ring, strict=True)}
        )

    cluster.within(15, meshed, "E8")
    pairs = {frozenset((node, other)) for node, others in enumerate(ring) for other in others}
    assert len(pairs) == 66
    pods = cluster.pods("net", 12)
    cluster.mine(pods[5], pods)


@behaviour("bitcoin/E16")
def test_the_children_of_a_network_are_deleted_or_orphaned_as_requested(cluster: Cluster) -> None:
    cluster.start()
    names = ("back", "fore", "orphan")
    for name in names:
        cluster.network(name, 1)
    for name in names:
        eventually(lambda name=name: cluster.is_ready(name), 30)

    def gone(name: str) -> bool:
        objects = ((SERVICE, f"{name}-svc"), (STATEFUL_SET, f"{name}-sts"), (POD, f"{name}-sts-0"))
        return all(cluster.find(kind, child) is None for kind, child in objects)

    cluster.client.delete(*NETWORK, "back", cluster.namespace, propagation="Background")
    cluster.client.delete(*NETWORK, "fore", cluster.namespace, propagation="Foreground")
    cluster.client.delete(*NETWORK, "orphan", cluster.namespace, propagation="Orphan")

    def before_its_owner() -> bool:
        there = cluster.find(NETWORK, "fore")
        # Checked first: what blocks the deletion must be gone before the network is.
        return there is None and gone("fore")

    cluster.within(10, lambda: gone("back") and cluster.find(NETWORK, "back") is None, "E16 background")
    cluster.within(10, before_its_owner, "E16 foreground")

    def ownerless(kind: tuple[str, str], name: str) -> bool:
        obj = cluster.find(kind, name)
        assert obj is not None
        return not obj["metadata"].get("ownerReferences")

    eventually(lambda: cluster.find(NETWORK, "orphan") is None)
    eventually(lambda: ownerless(SERVICE, "orphan-svc") and ownerless(STATEFUL_SET, "orphan-sts"))
    address = cluster.pod("orphan", 0).address
    uid = cluster.network("orphan", 1)["metadata"]["uid"]
    cluster.within(5, lambda: cluster.is_ready("orphan"), "E16 adopted")
    for kind, name in ((SERVICE, "orphan-svc"), (STATEFUL_SET, "orphan-sts")):
        obj = cluster.find(kind, name)
        assert obj is not None
        (owner,) = obj["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
    assert cluster.pod("orphan", 0).address == address
    eventually(lambda: "Adopted" in cluster.reasons("orphan"))


@behaviour("bitcoin/U29", "bitcoin/U30", "bitcoin/U31", "bitcoin/U32", "bitcoin/U33", "bitcoin/U34")
def test_a_network_passes_upstreams_own_tests(cluster: Cluster) -> None:
    cluster.start()
    cluster.secret("bitcoin-default-secret")
    cluster.network("my-test-network", 3, "bitcoin-default-secret")
    network = cluster.find(NETWORK, "my-test-network")
    assert network is not None
    assert (network["metadata"]["name"], network["spec"]["nodes"]) == ("my-test-network", 3)

    def has(nodes: int) -> bool:
        ready = [ready for _, ready, _ in cluster.nodes("my-test-network")]
        if ready != [True] * nodes or not cluster.meshed("my-test-network", nodes):
            return False
        return all(len(cluster.added(pod)) == nodes - 1 for pod in cluster.pods("my-test-network", nodes))

    def edit(nodes: int) -> bool:
        net = cluster.client.get(*NETWORK, "my-test-network", cluster.namespace)
        net["spec"]["nodes"] = nodes
        try:
            cluster.client.replace(net)
        except ctrlhost.Conflict:
            return False
        return True

    eventually(lambda: has(3), 60)
    eventually(lambda: edit(4))
    eventually(lambda: has(4), 60)
    eventually(lambda: edit(3))
    eventually(lambda: has(3), 60)
    cluster.client.delete(*NETWORK, "my-test-network", cluster.namespace)
    children = ((SERVICE, "my-test-network-svc"), (STATEFUL_SET, "my-test-network-sts"))
    cluster.within(5, lambda: not any(cluster.find(kind, name) for kind, name in children), "U34")
    eventually(lambda: not list(cluster.client.list(*POD, cluster.namespace)), 60)
