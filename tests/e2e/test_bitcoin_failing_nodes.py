"""Networks of real daemons of which some die, hang, move, or forget what they were told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bitcoind.world import POD
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.bitcoind.world import World

behaviour = pytest.mark.behaviour


@behaviour("bitcoin/E3", "bitcoin/E4")
def test_a_node_that_dies_is_dropped_and_taken_in_again_when_it_is_back(world: World) -> None:
    host = world.start()
    pods = first, second, third = world.up("net", 3)
    second.kill(stays_down=True)

    def dropped() -> bool:
        lists = world.added(first) | world.added(third)
        not_ready = [ready for _, ready, _ in world.nodes("net")] == [True, False, True]
        return not_ready and second.address not in lists

    world.within(2, dropped, "E3")
    eventually(lambda: world.conditions("net")["NodesReady"] == ("False", "WaitingForPods"))
    eventually(lambda: world.linked([first, third]))
    assert {outcome for _, outcome in host.calls()} <= {"ok", "Refused"}
    assert "NodeUnreachable" not in world.reasons("net")

    second.come_back()
    world.within(5, lambda: world.meshed("net", 3), "E4")
    assert world.added(second) == {first.address, third.address}
    world.mine(second, pods)


@behaviour("bitcoin/E5")
def test_a_pod_that_is_replaced_is_known_by_its_new_address_only(world: World) -> None:
    world.start()
    first, second, third = world.up("net", 3)
    world.client.delete(*POD, second.name, world.namespace)
    eventually(lambda: world.pod("net", 1) is not second, 30)
    world.within(5, lambda: world.meshed("net", 3), "E5")
    replaced = world.pod("net", 1)
    assert replaced.address != second.address
    assert (1, True, replaced.address) in world.nodes("net")
    assert world.added(first) == {replaced.address, third.address}
    assert world.added(third) == {replaced.address, first.address}


@behaviour("bitcoin/E6")
def test_a_restart_that_no_readiness_tells_of_is_noticed_by_its_count(world: World) -> None:
    world.start()
    _, second, _ = world.up("net", 3)
    second.frozen = True
    second.kill()
    eventually(lambda: second.restarts == 1 and second.runs)
    world.within(5, lambda: world.meshed("net", 3), "E6")
    assert [ready for _, ready, _ in world.nodes("net")] == [True] * 3


@behaviour("bitcoin/E9")
def test_a_node_that_hangs_holds_up_no_other_and_is_told_of_once(world: World) -> None:
    world.start(rpc_timeout="500ms", onetry_timeout="1s")
    first, second, third, fourth = world.up("net", 4)
    third.hang()
    world.client.delete(*POD, second.name, world.namespace)
    eventually(lambda: world.pod("net", 1) is not second, 30)

    def others_meshed() -> bool:
        # They keep the link to the one that hangs, or have it dialled without an answer.
        replaced = world.pod("net", 1)
        others = {first.address, replaced.address, fourth.address}
        return all(
            others - {pod.address} <= world.dialled(pod) and second.address not in world.added(pod)
            for pod in (first, replaced, fourth)
        )

    world.within(5, others_meshed, "E9 others")
    eventually(lambda: world.conditions("net")["MeshConverged"] == ("False", "NodeUnreachable"), 30)
    eventually(lambda: "NodeUnreachable" in world.reasons("net"))
    converged = world.reasons("net").count("MeshConverged")
    third.resume()
    world.within(35, lambda: world.meshed("net", 4), "E9 resumed")
    eventually(lambda: world.reasons("net").count("MeshConverged") == converged + 1)
    assert world.reasons("net").count("NodeUnreachable") == 1


@behaviour("bitcoin/E10")
def test_an_address_that_another_network_gets_links_the_two_nowhere(world: World) -> None:
    world.start()
    first, second, third = world.up("one", 3)
    # The replacement waits for an address of its own, so that the old one is free for the other network.
    world.client.delete(*POD, second.name, world.namespace)
    eventually(lambda: not second.runs and world.pod("one", 1) is not second, 30)
    # Only at its end does a pod give its address back.
    second.join()
    world.kubelet.next_address = second.address
    world.network("two", 2)
    world.within(5, lambda: world.meshed("two", 2) and world.meshed("one", 3), "E10")
    taken = {pod.address for pod in world.pods("two", 2)}
    assert second.address in taken
    # What is in no list is not dialled later either.
    for pod in world.pods("one", 3):
        assert not taken & (world.added(pod) | world.dialled(pod))
    for pod in world.pods("two", 2):
        assert world.added(pod) | world.dialled(pod) < taken
    world.mine(first, [first, third])
    assert {world.rpc(pod, "getblockcount") for pod in world.pods("two", 2)} == {0}


@behaviour("bitcoin/E11")
def test_what_a_node_forgot_while_no_host_ran_is_told_to_it_by_the_next(world: World) -> None:
    host = world.start()
    first, second, third = world.up("net", 3)
    eventually(lambda: world.is_ready("net"))
    world.stop(host)
    before = world.status("net")
    first.frozen = True
    first.kill()
    eventually(lambda: first.restarts == 1 and world.answers(first))
    assert world.added(first) == set()
    assert world.status("net") == before
    world.start()
    world.within(5, lambda: world.linked([first, second, third]), "E11")
    assert world.added(first) == {second.address, third.address}
