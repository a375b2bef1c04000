"""The Service and the StatefulSet are kept as they should be."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, STS, SVC
from tests.support.cut_watches import cut_watches


@pytest.mark.behaviour("bitcoin/B1")
def test_a_key_that_names_no_network_is_dropped(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ctrlhost.plugin.bitcoin")
    replica = cluster.start(workers=1)
    for key in (ctrlhost.Request("no-namespace"), ctrlhost.Request("b/c", "a")):
        replica.controller.queue.add(key)
    cluster.idle()
    assert caplog.text.count("names no network") == 2
    status = replica.controller.status()
    assert (status.errors, status.queued) == (0, 0)
    cluster.net()
    assert cluster.sts()["spec"]["replicas"] == 4
    replica.controller.queue.add(ctrlhost.Request("no-namespace"))
    cluster.idle()
    assert caplog.text.count("names no network") == 3


@pytest.mark.behaviour("bitcoin/B2")
def test_a_service_that_cannot_be_created_is_retried_and_blocks_nothing(cluster: Any) -> None:
    replica = cluster.start()
    replica.host.faults.next("apply", ctrlhost.ServerError("down"), resource="services", times=99)
    cluster.net()
    assert cluster.sts()["spec"]["replicas"] == 4
    assert cluster.client.find(*SVC, f"{NAME}-svc", "test") is None
    assert cluster.condition("Reconciled") == ("False", "ApiError")
    (event, *_) = cluster.events("CreateFailed")
    assert f"could not create Service {NAME}-svc: InternalError" in event["note"]
    assert replica.controller.status().errors >= 1
    replica.host.faults.clear()
    cluster.after(0.1)
    assert cluster.svc()["spec"]["clusterIP"] == "None"
    assert cluster.condition("Reconciled") == ("True", "Reconciled")


@pytest.mark.behaviour("bitcoin/B5")
def test_defaults_that_the_server_fills_in_are_no_difference(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net(args=["-regtest"], readiness="Rest")
    assert cluster.sts()["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    probe = cluster.sts()["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["scheme"] == "HTTP"
    replica.forget()
    for _ in range(2):
        cluster.run()
    assert replica.writes(events=True) == []


@pytest.mark.behaviour("bitcoin/B6")
@pytest.mark.parametrize(
    ("edit", "field"),
    [
        ({"image": "other"}, "image"),
        ({"readinessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 5}}, "readinessProbe"),
        ({"envFrom": [{"secretRef": {"name": "other"}}]}, "envFrom"),
        ({"args": ["-x"]}, "args"),
    ],
    ids=["image", "probe", "envFrom", "args"],
)
def test_manual_edits_are_reverted(cluster: Any, edit: Any, field: str) -> None:
    replica = cluster.start()
    cluster.net()
    live = cluster.sts()
    before = live["spec"]["template"]["spec"]["containers"][0]
    container = {**before, **edit, "env": [{"name": "MINE", "value": "1"}]}
    live["spec"]["template"]["spec"]["containers"] = [container]
    live["spec"]["template"]["metadata"]["labels"]["mine"] = "too"
    replica.forget()
    cluster.client.replace(live)
    cluster.idle()
    after = cluster.sts()["spec"]["template"]
    (set_back,) = after["spec"]["containers"]
    assert set_back.get(field) == before.get(field)
    # Other fields stay.
    assert set_back["env"] == [{"name": "MINE", "value": "1"}]
    assert after["metadata"]["labels"]["mine"] == "too"
    # An apply with a second handler of the probe is refused first.
    assert len([write for write in replica.writes() if "/statefulsets" in write.path]) == 1 + (
        field == "readinessProbe"
    )
    (event,) = cluster.events("Repaired")
    assert f"containers[0].{field}" in event["note"] or event["note"].startswith("replaced ports and probes")


@pytest.mark.behaviour("bitcoin/B6")
def test_another_secret_changes_the_pods_in_one_update(cluster: Any) -> None:
    replica = cluster.start()
    cluster.secret("second", "ann", "b")
    cluster.net()
    before = cluster.sts()["spec"]["template"]
    replica.forget()
    cluster.edit(secret="second")
    after = cluster.sts()["spec"]["template"]
    assert after["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"] == "second"
    assert after["metadata"]["annotations"] != before["metadata"]["annotations"]
    assert len([write for write in replica.writes() if "/statefulsets" in write.path]) == 1
    (event,) = cluster.events("Updated")
    assert "containers[0].envFrom" in event["note"]


def test_arguments_that_the_network_no_longer_names_go(cluster: Any) -> None:
    cluster.start()
    cluster.net(args=["-a"])
    cluster.edit(args=None)
    assert "args" not in cluster.sts()["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.behaviour("bitcoin/B7")
def test_a_network_without_nodes_is_ready(cluster: Any) -> None:
    cluster.start()
    cluster.net(0)
    assert cluster.sts()["spec"]["replicas"] == 0
    assert cluster.status()["nodes"] == []
    assert cluster.condition("NodesReady") == ("True", "ScaledToZero")
    assert cluster.condition("Ready") == ("True", "Ready")


@pytest.mark.behaviour("bitcoin/B10")
def test_a_network_that_is_deleted_is_not_written_to(cluster: Any) -> None:
    replica = cluster.start()
    net = cluster.net()
    metric = {"namespace": "test", "name": NAME, "state": "desired"}
    assert replica.metric("ctrlhost_bitcoin_nodes", **metric) == 4
    net = cluster.client.get(*NET, NAME, "test")
    cluster.client.patch(*NET, NAME, "test", {"metadata": {"finalizers": ["example.com/wait"]}})
    cluster.client.delete(*NET, NAME, "test")
    cluster.idle()
    replica.forget()
    cluster.client.delete(*STS, f"{NAME}-sts", "test")
    cluster.client.delete(*SVC, f"{NAME}-svc", "test")
    cluster.run()
    assert replica.writes(events=True) == []
    cluster.client.patch(*NET, NAME, "test", {"metadata": {"finalizers": None}})
    cluster.idle()
    assert cluster.client.find(*NET, net["metadata"]["name"], "test") is None
    assert replica.metric("ctrlhost_bitcoin_nodes", **metric) is None
    assert replica.plugin.memory.all() == []
    status = replica.controller.status()
    assert status.errors == 0
    assert replica.writes(events=True) == []


@pytest.mark.behaviour("bitcoin/B11")
def test_deleted_children_are_created_again(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    children = ((STS, f"{NAME}-sts"), (SVC, f"{NAME}-svc"))
    for kind, name in children:
        before = cluster.client.get(*kind, name, "test")["metadata"]["uid"]
        cluster.client.delete(*kind, name, "test")
        cluster.idle()
        assert cluster.client.get(*kind, name, "test")["metadata"]["uid"] != before
    # And after deletions that the watches missed, which show in the next lists.
    uids = [cluster.client.get(*kind, name, "test")["metadata"]["uid"] for kind, name in children]
    cut_watches(replica.host, "statefulsets", "services")
    for kind, name in children:
        cluster.client.delete(*kind, name, "test")

    def made_anew() -> bool:
        # The reflectors back off before they list again.
        cluster.clock.advance(1)
        objects = [cluster.client.find(*kind, name, "test") for kind, name in children]
        return all(obj is not None and obj["metadata"]["uid"] not in uids for obj in objects)

    replica.host.wait_for(made_anew)
    assert replica.host.faults.left() == 0
    assert len(cluster.status()["nodes"]) == 0


@pytest.mark.behaviour("findings/FP9")
@pytest.mark.parametrize(("kind", "suffix"), [(STS, "sts"), (SVC, "svc")], ids=["StatefulSet", "Service"])
def test_a_terminating_child_is_not_reported_as_reconciled(cluster: Any, kind: Any, suffix: str) -> None:
    replica = cluster.start()
    cluster.net()
    child = f"{NAME}-{suffix}"
    cluster.client.patch(*kind, child, "test", {"metadata": {"finalizers": ["example.com/wait"]}})
    cluster.client.delete(*kind, child, "test")
    cluster.edit(nodes=2, rpcPort=18000)
    assert cluster.condition("Reconciled") == ("False", "Terminating")
    assert cluster.condition("Ready") == ("False", "Terminating")
    (told,) = [condition for condition in cluster.status()["conditions"] if condition["type"] == "Reconciled"]
    assert told["message"] == f"being deleted, and created again after that: {kind[1]} {child}"
    replica.forget()
    cluster.after(60, step=30)
    assert cluster.condition("Reconciled") == ("False", "Terminating")
    assert replica.writes() == []
    cluster.client.patch(*kind, child, "test", {"metadata": {"finalizers": None}})
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 2
    assert cluster.svc()["spec"]["ports"][0]["port"] == 18000
    assert cluster.condition("Reconciled") == ("True", "Reconciled")


def test_a_refused_update_is_reported_and_retried(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    replica.host.faults.next("apply", ctrlhost.Forbidden("no"), resource="statefulsets")
    cluster.edit(nodes=2)
    assert cluster.condition("Reconciled") == ("False", "ApiError")
    assert len(cluster.events("UpdateFailed")) == 1
    assert cluster.events("Updated") == []
    cluster.after(0.1)
    assert cluster.sts()["spec"]["replicas"] == 2
