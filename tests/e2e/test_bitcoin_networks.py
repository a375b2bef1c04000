"""Networks of real daemons: how they come up, rest, change their size and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ctrlhost
from tests.bitcoind.world import NETWORK, POD, SERVICE, SOAK, STATEFUL_SET
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.bitcoind.world import World

behaviour = pytest.mark.behaviour
RESYNC = "30s" if SOAK else "1s"


@behaviour("bitcoin/E1")
def test_a_network_comes_up_and_one_mined_block_reaches_all_its_nodes(world: World) -> None:
    world.start()
    world.secret("rpc")
    world.network("net", 3, "rpc")
    world.within(5, lambda: world.meshed("net", 3), "E1")
    assert world.find(SERVICE, "net-svc") is not None
    assert world.find(STATEFUL_SET, "net-sts") is not None
    assert [ordinal for ordinal, ready, _ in world.nodes("net") if ready] == [0, 1, 2]
    pods = world.pods("net", 3)
    world.mine(pods[0], pods)
    eventually(lambda: world.is_ready("net"))
    wanted = ["MeshConverged", "ServiceCreated", "StatefulSetCreated"]
    eventually(lambda: set(world.reasons("net")) >= set(wanted))
    assert world.reasons("net") == wanted


@behaviour("bitcoin/E2", "bitcoin/E17")
@pytest.mark.timeout(600 if SOAK else 120)
def test_a_network_at_rest_costs_one_question_per_node_and_keeps_what_users_added(world: World) -> None:
    host = world.start(resync=RESYNC)
    pods = world.up("net", 3)
    eventually(lambda: world.is_ready("net"))
    look = ("getaddednodeinfo", "ok")

    def resyncs(count: int) -> None:
        begun = host.calls()[look]
        eventually(lambda: host.calls()[look] >= begun + 3 * count, 40 * count if SOAK else 30, f"{count} resyncs")

    # The last change is looked at again soon after it, apart from any resync.
    resyncs(2)
    writes, calls = list(host.writes), host.calls()
    resyncs(2)
    assert host.writes == writes
    assert {**host.calls(), look: 0} == {**calls, look: 0}

    world.rpc(pods[0], "addnode", "extra.example:18444", "add")
    resyncs(3)
    assert world.added(pods[0]) == {pods[1].address, pods[2].address, "extra.example:18444"}
    assert host.writes == writes


@behaviour("bitcoin/E7")
def test_a_network_is_scaled_up_and_down_through_its_subresource(world: World) -> None:
    host = world.start()
    world.up("net", 3)
    world.scale("net", 5)
    world.within(10, lambda: world.meshed("net", 5), "E7 up")
    before = host.calls()
    world.scale("net", 2)
    world.within(10, lambda: world.meshed("net", 2), "E7 down")
    first, second = world.pods("net", 2)
    assert (world.added(first), world.added(second)) == ({second.address}, {first.address})
    eventually(lambda: set(world.kubelet.pods()) == {"net-sts-0", "net-sts-1"}, 30)
    # Daemons that are stopping answer with 503 and refuse then: nobody asked them. That one of them has ended its
    # connections before they were cut is no failure.
    ended = ("disconnectnode", "RpcError")
    failed = {key: count for key, count in host.calls().items() if key[1] != "ok" and key != ended}
    assert failed == {key: count for key, count in before.items() if key[1] != "ok" and key != ended}


@behaviour("bitcoin/E8")
def test_twelve_nodes_are_all_linked_though_none_dials_more_than_eight(world: World) -> None:
    world.start()
    world.network("net", 12)
    ring = [{(node + offset) % 12 for offset in range(1, 7)} for node in range(12)]

    def meshed() -> bool:
        running = world.kubelet.pods()
        if len(running) < 12 or world.conditions("net").get("MeshConverged", ("", ""))[0] != "True":
            return False
        pods = world.pods("net", 12)
        return len(world.nodes("net")) == 12 and world.links_are(
            {pod: {pods[other].address for other in others} for pod, others in zip(pods, ring, strict=True)}
        )

    world.within(15, meshed, "E8")
    pairs = {frozenset((node, other)) for node, others in enumerate(ring) for other in others}
    assert len(pairs) == 66
    pods = world.pods("net", 12)
    world.mine(pods[5], pods)


@behaviour("bitcoin/E16")
def test_what_a_network_was_made_of_goes_with_it_or_stays_as_told(world: World) -> None:
    world.start()
    names = ("back", "fore", "orphan")
    for name in names:
        world.network(name, 1)
    for name in names:
        eventually(lambda name=name: world.is_ready(name), 30)

    def gone(name: str) -> bool:
        objects = ((SERVICE, f"{name}-svc"), (STATEFUL_SET, f"{name}-sts"), (POD, f"{name}-sts-0"))
        return all(world.find(kind, each) is None for kind, each in objects)

    world.client.delete(*NETWORK, "back", world.namespace, propagation="Background")
    world.client.delete(*NETWORK, "fore", world.namespace, propagation="Foreground")
    world.client.delete(*NETWORK, "orphan", world.namespace, propagation="Orphan")

    def before_its_owner() -> bool:
        there = world.find(NETWORK, "fore")
        # Looked at first: what blocks the deletion must be gone by the time that the network is.
        return there is None and gone("fore")

    world.within(10, lambda: gone("back") and world.find(NETWORK, "back") is None, "E16 background")
    world.within(10, before_its_owner, "E16 foreground")

    def ownerless(kind: tuple[str, str], name: str) -> bool:
        found = world.find(kind, name)
        assert found is not None
        return not found["metadata"].get("ownerReferences")

    eventually(lambda: world.find(NETWORK, "orphan") is None)
    eventually(lambda: ownerless(SERVICE, "orphan-svc") and ownerless(STATEFUL_SET, "orphan-sts"))
    address = world.pod("orphan", 0).address
    uid = world.network("orphan", 1)["metadata"]["uid"]
    world.within(5, lambda: world.is_ready("orphan"), "E16 adopted")
    for kind, name in ((SERVICE, "orphan-svc"), (STATEFUL_SET, "orphan-sts")):
        found = world.find(kind, name)
        assert found is not None
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
    assert world.pod("orphan", 0).address == address
    eventually(lambda: "Adopted" in world.reasons("orphan"))


@behaviour("bitcoin/U29", "bitcoin/U30", "bitcoin/U31", "bitcoin/U32", "bitcoin/U33", "bitcoin/U34")
def test_a_network_lives_as_upstreams_own_tests_have_it(world: World) -> None:
    world.start()
    world.secret("bitcoin-default-secret")
    world.network("my-test-network", 3, "bitcoin-default-secret")
    found = world.find(NETWORK, "my-test-network")
    assert found is not None
    assert (found["metadata"]["name"], found["spec"]["nodes"]) == ("my-test-network", 3)

    def has(nodes: int) -> bool:
        ready = [ready for _, ready, _ in world.nodes("my-test-network")]
        if ready != [True] * nodes or not world.meshed("my-test-network", nodes):
            return False
        return all(len(world.added(pod)) == nodes - 1 for pod in world.pods("my-test-network", nodes))

    def edit(nodes: int) -> bool:
        net = world.client.get(*NETWORK, "my-test-network", world.namespace)
        net["spec"]["nodes"] = nodes
        try:
            world.client.replace(net)
        except ctrlhost.Conflict:
            return False
        return True

    eventually(lambda: has(3), 60)
    eventually(lambda: edit(4))
    eventually(lambda: has(4), 60)
    eventually(lambda: edit(3))
    eventually(lambda: has(3), 60)
    world.client.delete(*NETWORK, "my-test-network", world.namespace)
    made = ((SERVICE, "my-test-network-svc"), (STATEFUL_SET, "my-test-network-sts"))
    world.within(5, lambda: not any(world.find(kind, name) for kind, name in made), "U34")
    eventually(lambda: not list(world.client.list(*POD, world.namespace)), 60)
