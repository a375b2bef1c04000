"""Networks of real daemons that die, hang, move, or lose their lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.bitcoin_cluster import POD
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.bitcoin_cluster import Cluster

behaviour = pytest.mark.behaviour


@behaviour("bitcoin/E3", "bitcoin/E4")
def test_a_dead_node_is_removed_and_added_again_after_its_restart(cluster: Cluster) -> None:
    host = cluster.start()
    pods = first, second, third = cluster.up("net", 3)
    second.kill(stays_down=True)

    def dropped() -> bool:
        lists = cluster.added(first) | cluster.added(third)
        not_ready = [ready for _, ready, _ in cluster.nodes("net")] == [True, False, True]
        return not_ready and second.address not in lists

    cluster.within(2, dropped, "E3")
    eventually(lambda: cluster.conditions("net")["NodesReady"] == ("False", "WaitingForPods"))
    eventually(lambda: cluster.linked([first, third]))
    assert {outcome for _, outcome in host.calls()} <= {"ok", "Refused"}
    assert "NodeUnreachable" not in cluster.reasons("net")

    second.come_back()
    cluster.within(5, lambda: cluster.meshed("net", 3), "E4")
    assert cluster.added(second) == {first.address, third.address}
    cluster.mine(second, pods)


@behaviour("bitcoin/E5")
def test_a_replaced_pod_is_known_only_by_its_new_address(cluster: Cluster) -> None:
    cluster.start()
    first, second, third = cluster.up("net", 3)
    cluster.client.delete(*POD, second.name, cluster.namespace)
    eventually(lambda: cluster.pod("net", 1) is not second, 30)
    cluster.within(5, lambda: cluster.meshed("net", 3), "E5")
    replaced = cluster.pod("net", 1)
    assert replaced.address != second.address
    assert (1, True, replaced.address) in cluster.nodes("net")
    assert cluster.added(first) == {replaced.address, third.address}
    assert cluster.added(third) == {replaced.address, first.address}
    assert cluster.added(replaced) == {first.address, third.address}


@behaviour("bitcoin/E6")
def test_a_restart_without_a_change_of_readiness_is_detected_by_its_count(cluster: Cluster) -> None:
    cluster.start()
    _, second, _ = cluster.up("net", 3)
    second.frozen = True
    second.kill()
    eventually(lambda: second.restarts == 1 and second.runs)
    cluster.within(5, lambda: cluster.meshed("net", 3), "E6")
    assert [ready for _, ready, _ in cluster.nodes("net")] == [True] * 3


@pytest.mark.slow
@behaviour("bitcoin/E9")
def test_a_hanging_node_delays_no_other_and_is_reported_once(cluster: Cluster) -> None:
    cluster.start(rpc_timeout="500ms", onetry_timeout="1s")
    first, second, third, fourth = cluster.up("net", 4)
    third.hang()
    cluster.client.delete(*POD, second.name, cluster.namespace)
    eventually(lambda: cluster.pod("net", 1) is not second, 30)

    def others_meshed() -> bool:
        # They keep the link to the hanging one, or dial it without an answer.
        replaced = cluster.pod("net", 1)
        others = {first.address, replaced.address, fourth.address}
        return all(
            others - {pod.address} <= cluster.dialled(pod) and second.address not in cluster.added(pod)
            for pod in (first, replaced, fourth)
        )

    cluster.within(5, others_meshed, "E9 others")
    eventually(lambda: cluster.conditions("net")["MeshConverged"] == ("False", "NodeUnreachable"), 30)
    eventually(lambda: "NodeUnreachable" in cluster.reasons("net"))
    converged = cluster.reasons("net").count("MeshConverged")
    third.resume()
    cluster.within(35, lambda: cluster.meshed("net", 4), "E9 resumed")
    eventually(lambda: cluster.reasons("net").count("MeshConverged") == converged + 1)
    assert cluster.reasons("net").count("NodeUnreachable") == 1


@behaviour("bitcoin/E10")
def test_an_address_that_moves_to_another_network_does_not_link_the_two(cluster: Cluster) -> None:
    cluster.start()
    first, second, third = cluster.up("one", 3)
    # The replacement gets another address, so that the old one is free for the other network.
    cluster.client.delete(*POD, second.name, cluster.namespace)
    eventually(lambda: not second.runs and cluster.pod("one", 1) is not second, 30)
    # A pod returns its address only when it ends.
    second.join()
    cluster.kubelet.next_address = second.address
    cluster.network("two", 2)
    cluster.within(5, lambda: cluster.meshed("two", 2) and cluster.meshed("one", 3), "E10")
    taken = {pod.address for pod in cluster.pods("two", 2)}
    assert second.address in taken
    # An address in no list is not dialled later either.
    for pod in cluster.pods("one", 3):
        assert not taken & (cluster.added(pod) | cluster.dialled(pod))
    for pod in cluster.pods("two", 2):
        assert cluster.added(pod) | cluster.dialled(pod) < taken
    cluster.mine(first, [first, third])
    assert {cluster.rpc(pod, "getblockcount") for pod in cluster.pods("two", 2)} == {0}


@behaviour("bitcoin/E11")
def test_the_next_host_restores_a_list_that_a_node_lost_meanwhile(cluster: Cluster) -> None:
    host = cluster.start()
    first, second, third = cluster.up("net", 3)
    eventually(lambda: cluster.is_ready("net"))
    cluster.stop(host)
    before = cluster.status("net")
    first.frozen = True
    first.kill()
    eventually(lambda: first.restarts == 1 and cluster.answers(first))
    assert cluster.added(first) == set()
    assert cluster.status("net") == before
    cluster.start()
    cluster.within(5, lambda: cluster.linked([first, second, third]), "E11")
    assert cluster.added(first) == {second.address, third.address}
