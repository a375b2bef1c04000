"""The Service, the StatefulSet and the list of nodes of a network, after the Go controller's tests."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_bitcoin.model import BitcoinNetwork

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, SECRET, SECRET_NAME, STS


@pytest.mark.behaviour("bitcoin/U1")
def test_the_controller_is_created_on_an_empty_cluster(cluster: Any) -> None:
    replica = cluster.start()
    assert replica.controller.name == "bitcoin/bitcoin"
    (runtime,) = replica.host.host.plugins
    assert (runtime.state, runtime.reason) == ("running", "")
    assert replica.writes() == []


@pytest.mark.behaviour("bitcoin/U2")
def test_a_new_network_gets_a_service_and_a_stateful_set(cluster: Any) -> None:
    cluster.start()
    cluster.net()
    spec = cluster.sts()["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 4
    assert spec["selector"]["matchLabels"]["app"] == NAME
    assert container["image"] == "christianb93/bitcoind:v1.0"
    assert container["envFrom"] == [{"secretRef": {"name": SECRET_NAME, "optional": True}}]
    assert spec["serviceName"] == f"{NAME}-svc"
    assert cluster.svc()["spec"]["clusterIP"] == "None"
    (owner,) = cluster.sts()["metadata"]["ownerReferences"]
    assert owner == cluster.svc()["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == (NET[1], NAME, True)


@pytest.mark.behaviour("bitcoin/U3")
def test_the_status_lists_the_pods_and_who_is_ready(cluster: Any) -> None:
    cluster.start()
    cluster.net()
    assert cluster.status()["nodes"] == []
    cluster.pods(2)
    cluster.pod(2, "10.0.0.3", ready=False)
    nodes = cluster.status()["nodes"]
    assert [(node["ordinal"], node["ip"], node["ready"]) for node in nodes] == [
        (0, "10.0.0.1", True),
        (1, "10.0.0.2", True),
        (2, "10.0.0.3", False),
    ]
    assert nodes[0]["nodeName"] == f"{NAME}-sts-0"
    assert nodes[0]["dnsName"] == f"{NAME}-sts-0.{NAME}-svc"


@pytest.mark.behaviour("bitcoin/U4")
def test_an_update_without_a_change_writes_nothing(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    replica.forget()
    runs = replica.runs()
    cluster.client.patch(*NET, NAME, "test", {"metadata": {"annotations": {"a": "b"}}})
    cluster.run()
    assert replica.runs() > runs
    assert replica.writes(events=True) == []


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(5, marks=pytest.mark.behaviour("bitcoin/U5")),
        pytest.param(3, marks=pytest.mark.behaviour("bitcoin/U6")),
    ],
)
def test_another_number_of_nodes_scales_the_stateful_set(cluster: Any, nodes: int) -> None:
    cluster.start()
    cluster.net()
    cluster.edit(nodes=nodes)
    assert cluster.sts()["spec"]["replicas"] == nodes


@pytest.mark.behaviour("bitcoin/U7")
def test_ready_nodes_are_added_to_each_other(cluster: Any) -> None:
    cluster.start()
    cluster.net()
    first, second = cluster.pods(2)
    assert first.added == ["10.0.0.2"]
    assert second.added == ["10.0.0.1"]


@pytest.mark.behaviour("bitcoin/U8")
def test_a_node_that_is_no_pod_is_removed(cluster: Any) -> None:
    cluster.start()
    cluster.net()
    first, second = cluster.pods(2)
    for daemon in (first, second):
        daemon.added.append("10.0.0.3")
    cluster.run()
    assert first.added == ["10.0.0.2"]
    assert second.added == ["10.0.0.1"]


@pytest.mark.behaviour("bitcoin/U9")
def test_manual_scaling_of_the_stateful_set_is_reverted(cluster: Any) -> None:
    cluster.start()
    cluster.net()
    cluster.client.patch(*STS, f"{NAME}-sts", "test", {"spec": {"replicas": 100}})
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 4


@pytest.mark.behaviour("bitcoin/U10")
def test_a_new_network_has_two_events(cluster: Any) -> None:
    cluster.start()
    cluster.net()
    events = cluster.events()
    assert [(event["regarding"]["kind"], event["regarding"]["name"]) for event in events] == [(NET[1], NAME)] * 2
    # Upstream gives both the reason `Info`; here they are those of `ctx.ensure`.
    assert sorted((event["reason"], event["note"]) for event in events) == [
        ("Created", f"created Service test/{NAME}-svc"),
        ("Created", f"created StatefulSet test/{NAME}-sts"),
    ]


@pytest.mark.behaviour("bitcoin/U27")
@pytest.mark.behaviour("bitcoin/U28")
def test_networks_are_listed_as_the_model(cluster: Any) -> None:
    cluster.start()
    cluster.net(2)
    (network,) = [ctrlhost.Object(obj).decode(BitcoinNetwork) for obj in cluster.client.list(*NET, "test")]
    assert (network.metadata.name, network.spec.nodes) == (NAME, 2)
    assert network.status is not None
    assert network.status.observedGeneration == 1


@pytest.mark.behaviour("bitcoin/U26")
def test_credentials_come_from_the_secret(cluster: Any) -> None:
    cluster.secret("my-secret", "john", "secret")
    replica = cluster.start()
    cluster.net(1, secret="my-secret")
    daemon = cluster.daemon("10.0.0.1", user="john", password="secret")
    cluster.pod(0, "10.0.0.1")
    assert replica.host.client.find(*SECRET, "my-secret", "test") is not None
    assert daemon.called("getaddednodeinfo")
    assert daemon.logins_refused == 0
