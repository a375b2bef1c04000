"""The pods that are nodes, the changes of pods that matter, and the status."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ctrlhost_bitcoin.model import BitcoinNetwork, Spec, completed
from ctrlhost_bitcoin.settings import BitcoinSettings

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, POD, STS


@pytest.fixture
def net(cluster: Any) -> Any:
    """A reconciled network of four."""
    cluster.start()
    cluster.net()
    return cluster


@pytest.mark.behaviour("bitcoin/B10")
def test_a_stateful_set_without_replicas_gets_them(net: Any) -> None:
    from ctrlhost_bitcoin import objects

    net.client.patch(*STS, f"{NAME}-sts", "test", {"spec": {"replicas": None}})
    net.idle()
    assert net.sts()["spec"]["replicas"] == 4
    live = net.sts()
    del live["spec"]["replicas"]
    network = completed(BitcoinNetwork(metadata=ctrlhost.ObjectMeta(name=NAME), spec=Spec(nodes=4)), BitcoinSettings())
    assert objects.stateful_set(network, "x", ctrlhost.Object(live), roll=True)["spec"]["replicas"] == 4


@pytest.mark.behaviour("bitcoin/B13")
def test_changes_of_pods_that_matter_wake_the_network(net: Any) -> None:
    (replica,) = net.replicas
    net.pod(0, ready=False)

    def wakes(change: Any) -> bool:
        runs = replica.runs()
        change()
        net.idle()
        return bool(replica.runs() > runs)

    assert wakes(lambda: net.set_pod(0, "10.0.0.1"))
    assert wakes(lambda: net.set_pod(0, ready=True))
    assert wakes(lambda: net.set_pod(0, ready=False))
    assert wakes(lambda: net.set_pod(0, restarts=1))
    assert wakes(lambda: net.set_pod(0, restarts=2))
    assert wakes(lambda: net.set_pod(0, phase="Failed"))
    assert not wakes(lambda: net.set_pod(0, phase="Failed", hostIP="10.9.9.9", message="whatever"))
    annotate = {"metadata": {"annotations": {"mine": "yes"}}}
    assert not wakes(lambda: net.client.patch(*POD, f"{NAME}-sts-0", "test", annotate))
    assert wakes(lambda: net.delete_pod(0))


@pytest.mark.behaviour("bitcoin/B14")
def test_a_foreign_or_surplus_pod_is_no_node(net: Any) -> None:
    first, second = net.pods(2)
    net.daemon("10.0.0.3")
    net.pod(2, "10.0.0.3", ownerReferences=[])
    net.daemon("10.0.0.4")
    net.pod(3, "10.0.0.4")
    assert [node["ordinal"] for node in net.status()["nodes"]] == [0, 1, 3]
    assert sorted(first.added) == ["10.0.0.2", "10.0.0.4"]
    assert "10.0.0.4" in first.links
    net.edit(nodes=2)
    # The pods are still there.
    assert net.client.find(*POD, f"{NAME}-sts-3", "test") is not None
    assert [node["ordinal"] for node in net.status()["nodes"]] == [0, 1]
    assert first.added == ["10.0.0.2"]
    assert second.added == ["10.0.0.1"]
    assert first.links == {"10.0.0.2"}
    assert ["10.0.0.4"] in first.called("disconnectnode")
    assert net.http.daemons["10.0.0.3"].called() == []


@pytest.mark.behaviour("bitcoin/B15")
def test_a_ready_pod_without_an_address_is_listed_but_no_peer(net: Any) -> None:
    first, second = net.pods(2)
    net.pod(2, "")
    nodes = net.status()["nodes"]
    assert (nodes[2]["ready"], nodes[2]["ip"]) == (True, "")
    assert first.added == ["10.0.0.2"]
    assert second.added == ["10.0.0.1"]
    ((_, memory),) = net.replicas[0].plugin.memory.all()
    assert {ip for _, ip in memory.nodes} == {"10.0.0.1", "10.0.0.2"}, "the third was not called"


@pytest.mark.behaviour("bitcoin/B15")
def test_a_terminating_pod_is_neither_ready_nor_a_peer(net: Any) -> None:
    first, second, third = net.pods(3)
    assert sorted(first.added) == ["10.0.0.2", "10.0.0.3"]
    net.client.patch(*POD, f"{NAME}-sts-2", "test", {"metadata": {"finalizers": ["example.com/wait"]}})
    net.client.delete(*POD, f"{NAME}-sts-2", "test", grace_period_seconds=0)
    net.idle()
    calls = len(third.calls)
    assert [node["ready"] for node in net.status()["nodes"]] == [True, True, False]
    assert first.added == ["10.0.0.2"]
    assert second.added == ["10.0.0.1"]
    # A pod of the network still has the address, so the connection may stay.
    assert "10.0.0.3" in first.links
    assert first.called("disconnectnode") == []
    net.after(30)
    assert len(third.calls) == calls


@pytest.mark.behaviour("bitcoin/B16")
def test_only_one_of_two_pods_with_one_address_is_a_peer(net: Any, caplog: pytest.LogCaptureFixture) -> None:
    first, second = net.pods(2)
    net.pod(2, "10.0.0.2")
    assert first.added == ["10.0.0.2"]
    assert second.added == ["10.0.0.1"]
    assert f"{NAME}-sts-2 has the IP of {NAME}-sts-1" in caplog.text
    runs = net.replicas[0].runs()
    net.after(29, step=5)
    assert net.replicas[0].runs() <= runs + 1


@pytest.mark.behaviour("bitcoin/B17")
def test_an_unchanged_status_is_not_written(net: Any) -> None:
    net.pods(2)
    live = net.client.get(*NET, NAME, "test")
    live["status"]["conditions"].reverse()
    net.client.replace(live, "status")
    net.idle()
    net.assert_rests()


@pytest.mark.behaviour("bitcoin/B17")
def test_the_event_of_an_own_status_write_causes_no_write(net: Any) -> None:
    (replica,) = net.replicas
    net.pods(2)
    replica.forget()
    net.set_pod(1, ready=False)
    written = net.client.get(*NET, NAME, "test")
    assert [node["ready"] for node in written["status"]["nodes"]] == [True, False]
    before = replica.writes()
    assert {request.path.rpartition("/")[2] for request in before} == {"status"}
    statuses = [request.body["status"] for request in before]
    assert all(status != following for status, following in itertools.pairwise(statuses))
    seen = replica.controller.informers[0].lister.get(NAME, "test")
    assert seen.resource_version == written["metadata"]["resourceVersion"], "its event has arrived"
    net.run()
    assert replica.writes() == before


def test_a_status_that_was_removed_is_written_again(net: Any) -> None:
    net.pods(2)
    live = net.client.get(*NET, NAME, "test")
    wanted = live.pop("status")
    net.client.replace(live, "status")
    net.idle()
    net.after(31)
    assert {condition["type"] for condition in net.status()["conditions"]} == {
        condition["type"] for condition in wanted["conditions"]
    }
    assert net.status()["nodes"] == wanted["nodes"]


@pytest.mark.behaviour("bitcoin/B18")
def test_a_conflict_of_the_status_is_resolved_by_another_run(net: Any) -> None:
    (replica,) = net.replicas
    replica.host.faults.next("patch", ctrlhost.Conflict("changed"), resource="bitcoinnetworks", times=2)
    replica.forget()
    net.pods(1)
    assert len(net.status()["nodes"]) == 1
    spec = net.client.get(*NET, NAME, "test")["spec"]
    assert spec == {"nodes": 4, "secret": "unit-test-secret"}
    assert replica.controller.status().errors == 0
    assert replica.host.faults.left() == 0


@pytest.mark.behaviour("bitcoin/B18")
def test_the_status_of_a_deleted_network_is_no_failure(net: Any) -> None:
    (replica,) = net.replicas
    replica.host.faults.next("patch", ctrlhost.NotFound("gone"), resource="bitcoinnetworks")
    net.pod(0)
    assert replica.controller.status().errors == 0


@pytest.mark.behaviour("bitcoin/B18")
@pytest.mark.parametrize("error", [ctrlhost.Forbidden("no"), ctrlhost.ServerError("down")], ids=["403", "500"])
def test_a_refused_status_is_retried(net: Any, error: Exception) -> None:
    (replica,) = net.replicas
    replica.host.faults.next("patch", error, resource="bitcoinnetworks", times=99)
    net.pod(0)
    controller = replica.controller
    assert controller.status().errors >= 1
    assert controller.queue.num_requeues(ctrlhost.Request(NAME, "test")) >= 1
    assert net.status()["nodes"] == []
    replica.host.faults.clear()
    net.after(1)
    assert len(net.status()["nodes"]) == 1


def test_the_status_is_the_one_of_the_example(net: Any) -> None:
    net.edit(nodes=3)
    net.pods(3)
    status = net.status()
    assert (status["observedGeneration"], status["replicas"], status["readyReplicas"]) == (2, 3, 3)
    assert status["selector"] == f"app={NAME},bitcoincontroller.christianb93.github.com/network={NAME}"
    told = {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in status["conditions"]
    }
    assert told == {
        "Reconciled": ("True", "Reconciled", "service and stateful set are up to date"),
        "CredentialsReady": ("True", "FromSecret", "using secret unit-test-secret"),
        "NodesReady": ("True", "AllReady", "3 of 3 nodes are ready"),
        "MeshConverged": ("True", "Converged", "3 ready nodes know and reach their peers"),
        "Ready": ("True", "Ready", "network is up"),
    }
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {2}


def test_the_scale_subresource_changes_the_number_of_nodes(net: Any) -> None:
    net.client.patch(*NET, NAME, "test", {"spec": {"replicas": 2}}, subresource="scale")
    net.idle()
    assert net.sts()["spec"]["replicas"] == 2
