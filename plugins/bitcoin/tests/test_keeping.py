"""The Service and the StatefulSet are kept as they should be; foreign objects are left alone."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, STS, SVC
from tests.support.waiting import eventually

GROUP = "bitcoincontroller.christianb93.github.com"
UPSTREAM = {"app": NAME}
CONTAINER = {"name": f"{NAME}-sts-ctr", "image": "christianb93/bitcoind:v1.0"}


def stateful_set(selector: dict[str, str], owner: dict[str, Any] | None = None, name: str = f"{NAME}-sts") -> Any:
    metadata: dict[str, Any] = {"name": name, "namespace": "test"}
    if owner is not None:
        metadata["ownerReferences"] = [{"controller": True, **owner}]
    template = {"metadata": {"labels": selector}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": 7, "serviceName": "old", "selector": {"matchLabels": selector}, "template": template}
    return {"apiVersion": STS[0], "kind": STS[1], "metadata": metadata, "spec": spec}


def service(selector: dict[str, str]) -> Any:
    spec = {"clusterIP": "None", "selector": selector, "ports": [{"port": 1}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{NAME}-svc", "namespace": "test"},
        "spec": spec,
    }


@pytest.mark.behaviour("bitcoin/B1")
def test_a_key_that_names_no_network_is_dropped(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    replica = cluster.start(workers=1)
    for key in (ctrlhost.Request("no-namespace"), ctrlhost.Request("b/c", "a")):
        replica.plugin.controller.enqueue(key)
    cluster.idle()
    assert caplog.text.count("names no network") == 2
    status = replica.host.controllers["bitcoin/bitcoin"].status()
    assert (status.errors, status.queued) == (0, 0)
    cluster.net()
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 4
    replica.plugin.controller.enqueue(ctrlhost.Request("no-namespace"))
    cluster.idle()
    assert caplog.text.count("names no network") == 3


@pytest.mark.behaviour("bitcoin/B2")
def test_a_service_that_cannot_be_created_is_retried_and_blocks_nothing(cluster: Any) -> None:
    replica = cluster.start()
    replica.host.faults.next("create", ctrlhost.ServerError("down"), resource="services", times=99)
    cluster.net()
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 4
    assert cluster.client.find(*SVC, f"{NAME}-svc", "test") is None
    assert cluster.condition("Reconciled") == ("False", "ApiError")
    (event, *_) = cluster.events("CreateFailed")
    assert f"could not create Service {NAME}-svc: InternalError" in event["note"]
    assert replica.host.controllers["bitcoin/bitcoin"].status().errors >= 1
    replica.host.faults.clear()
    cluster.after(0.1)
    assert cluster.svc()["spec"]["clusterIP"] == "None"
    assert cluster.condition("Reconciled") == ("True", "Reconciled")


@pytest.mark.behaviour("bitcoin/B3")
@pytest.mark.parametrize(
    "foreign",
    [
        stateful_set({"app": "somebody-else"}),
        stateful_set(UPSTREAM, {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1"}),
        stateful_set(UPSTREAM, {"apiVersion": f"{GROUP}/v1", "kind": "BitcoinNetwork", "name": NAME, "uid": "other"}),
    ],
    ids=["another selector", "another owner", "another uid"],
)
# Without the label the foreign one is not in the cache, so the create fails on it.
@pytest.mark.parametrize("adopt", [True, False])
def test_a_foreign_stateful_set_is_left_alone(still_cluster: Any, foreign: Any, adopt: bool) -> None:
    cluster = still_cluster
    made = cluster.client.create(foreign)
    replica = cluster.start(adopt=adopt)
    cluster.net()
    cluster.idle()
    assert cluster.sts() == made
    assert cluster.condition("Reconciled") == ("False", "NameConflict")
    (event,) = cluster.events("NameConflict")
    assert event["note"].startswith(f"StatefulSet {NAME}-sts exists and belongs to ")
    replica.enqueue()
    assert len(cluster.events("NameConflict")) == 1
    assert not [one for one in replica.writes() if one.method == "PUT" and "/statefulsets" in one.path]
    # Once it is deleted, ours is created at once.
    cluster.client.delete(*STS, f"{NAME}-sts", "test")
    if not adopt:
        cluster.after(30)
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 4
    assert cluster.condition("Reconciled") == ("True", "Reconciled")


@pytest.mark.behaviour("bitcoin/B4")
def test_a_stateful_set_that_is_nobodys_is_taken_over(cluster: Any) -> None:
    ours = {"app": NAME, f"{GROUP}/network": NAME}
    made = cluster.client.create(stateful_set(ours))
    cluster.client.create(service(ours))
    cluster.start()
    net = cluster.net()
    cluster.idle()
    sts = cluster.sts()
    assert sts["metadata"]["uid"] == made["metadata"]["uid"]
    assert sts["metadata"]["ownerReferences"][0]["uid"] == net["metadata"]["uid"]
    assert sts["spec"]["replicas"] == 4
    assert sts["spec"]["serviceName"] == "old"
    notes = sorted(one["note"] for one in cluster.events("Adopted"))
    assert notes == [f"took over existing Service {NAME}-svc", f"took over existing StatefulSet {NAME}-sts"]
    assert cluster.svc()["spec"]["selector"] == ours
    assert cluster.condition("Reconciled") == ("True", "Reconciled")


@pytest.mark.behaviour("bitcoin/B4")
def test_upstreams_stateful_set_is_taken_over_with_its_selector(cluster: Any) -> None:
    made = cluster.client.create(stateful_set(UPSTREAM))
    cluster.client.create(service(UPSTREAM))
    replica = cluster.start()
    cluster.net()
    cluster.idle()
    sts = cluster.sts()
    assert sts["metadata"]["uid"] == made["metadata"]["uid"]
    assert sts["spec"]["selector"] == {"matchLabels": UPSTREAM}
    assert sts["spec"]["template"]["metadata"]["labels"][f"{GROUP}/network"] == NAME
    # Pods that were not restarted yet lack our labels.
    assert cluster.svc()["spec"]["selector"] == UPSTREAM
    replica.forget()
    for _ in range(3):
        replica.enqueue()
        cluster.idle()
    assert replica.writes(events=True) == []
    assert replica.host.controllers["bitcoin/bitcoin"].status().errors == 0


def test_nothing_is_taken_over_without_adopt(cluster: Any) -> None:
    made = cluster.client.create(stateful_set({"app": NAME, f"{GROUP}/network": NAME}))
    cluster.start(adopt=False)
    cluster.net()
    cluster.idle()
    assert cluster.sts() == made
    assert cluster.condition("Reconciled") == ("False", "NameConflict")


@pytest.mark.behaviour("bitcoin/B5")
def test_defaults_that_the_server_fills_in_are_no_difference(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net(args=["-regtest"], readiness="Rest")
    cluster.idle()
    assert cluster.sts()["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    probe = cluster.sts()["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["scheme"] == "HTTP"
    replica.forget()
    for _ in range(2):
        replica.enqueue()
        cluster.idle()
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
    cluster.idle()
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
    assert len([one for one in replica.writes() if "/statefulsets" in one.path]) == 1
    (event,) = cluster.events("StatefulSetUpdated")
    assert event["note"] == f"updated pod template of stateful set {NAME}-sts ({field})"


@pytest.mark.behaviour("bitcoin/B6")
def test_another_secret_changes_the_pods_in_one_update(cluster: Any) -> None:
    replica = cluster.start()
    cluster.secret("second", "ann", "b")
    cluster.net()
    cluster.idle()
    before = cluster.sts()["spec"]["template"]
    replica.forget()
    cluster.edit(secret="second")
    cluster.idle()
    after = cluster.sts()["spec"]["template"]
    assert after["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"] == "second"
    assert after["metadata"]["annotations"] != before["metadata"]["annotations"]
    assert len([one for one in replica.writes() if "/statefulsets" in one.path]) == 1
    (event,) = cluster.events("StatefulSetUpdated")
    assert event["note"].endswith("(credentials, envFrom)")


def test_arguments_that_the_network_no_longer_names_go(cluster: Any) -> None:
    cluster.start()
    cluster.net(args=["-a"])
    cluster.idle()
    cluster.edit(args=None)
    cluster.idle()
    assert "args" not in cluster.sts()["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.behaviour("bitcoin/B7")
def test_a_network_without_nodes_is_ready(cluster: Any) -> None:
    cluster.start()
    cluster.net(0)
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 0
    assert cluster.status()["nodes"] == []
    assert cluster.condition("NodesReady") == ("True", "ScaledToZero")
    assert cluster.condition("Ready") == ("True", "Ready")


@pytest.mark.behaviour("bitcoin/B10")
def test_a_network_that_is_deleted_is_not_written_to(cluster: Any) -> None:
    replica = cluster.start()
    net = cluster.net()
    cluster.idle()
    metric = {"namespace": "test", "name": NAME, "state": "desired"}
    assert replica.metric("ctrlhost_bitcoin_nodes", **metric) == 4
    net = cluster.client.get(*NET, NAME, "test")
    cluster.client.patch(*NET, NAME, "test", {"metadata": {"finalizers": ["example.com/wait"]}})
    cluster.client.delete(*NET, NAME, "test")
    cluster.idle()
    replica.forget()
    cluster.client.delete(*STS, f"{NAME}-sts", "test")
    cluster.client.delete(*SVC, f"{NAME}-svc", "test")
    replica.enqueue()
    cluster.idle()
    assert replica.writes(events=True) == []
    cluster.client.patch(*NET, NAME, "test", {"metadata": {"finalizers": None}})
    cluster.idle()
    assert cluster.client.find(*NET, net["metadata"]["name"], "test") is None
    assert replica.metric("ctrlhost_bitcoin_nodes", **metric) is None
    assert replica.plugin.memory.all() == []
    status = replica.host.controllers["bitcoin/bitcoin"].status()
    assert status.errors == 0
    assert replica.writes(events=True) == []


@pytest.mark.behaviour("bitcoin/B11")
def test_deleted_children_are_created_again(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    cluster.idle()
    for kind, name in ((STS, f"{NAME}-sts"), (SVC, f"{NAME}-svc")):
        before = cluster.client.get(*kind, name, "test")["metadata"]["uid"]
        cluster.client.delete(*kind, name, "test")
        cluster.idle()
        assert cluster.client.get(*kind, name, "test")["metadata"]["uid"] != before
    # And after a deletion that the watch missed, which shows in the next list.
    before = cluster.sts()["metadata"]["uid"]
    with replica.host.faults.hold_watches():
        cluster.client.delete(*STS, f"{NAME}-sts", "test")
        replica.host.faults.next("watch", ctrlhost.Expired("too old"), resource="statefulsets")
        cluster.server.drop_watches()

    def made_anew() -> bool:
        # The reflector backs off before the relist.
        cluster.clock.advance(1)
        found = cluster.client.find(*STS, f"{NAME}-sts", "test")
        return found is not None and found["metadata"]["uid"] != before

    replica.host.wait_for(made_anew)
    assert len(cluster.status()["nodes"]) == 0


@pytest.mark.behaviour("findings/FP9")
@pytest.mark.parametrize(("kind", "suffix"), [(STS, "sts"), (SVC, "svc")], ids=["StatefulSet", "Service"])
def test_a_terminating_child_is_not_reported_as_reconciled(cluster: Any, kind: Any, suffix: str) -> None:
    replica = cluster.start()
    cluster.net()
    cluster.idle()
    child = f"{NAME}-{suffix}"
    cluster.client.patch(*kind, child, "test", {"metadata": {"finalizers": ["example.com/wait"]}})
    cluster.client.delete(*kind, child, "test")
    cluster.edit(nodes=2, rpcPort=18000)
    cluster.idle()
    assert cluster.condition("Reconciled") == ("False", "Terminating")
    assert cluster.condition("Ready") == ("False", "Terminating")
    (told,) = [one for one in cluster.status()["conditions"] if one["type"] == "Reconciled"]
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


@pytest.mark.behaviour("bitcoin/B12")
@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "example.com/v1", "kind": "BitcoinNetwork", "name": NAME, "uid": "of the net"},
        {"apiVersion": f"{GROUP}/v1", "kind": "BitcoinNetwork", "name": NAME, "uid": "stale"},
    ],
    ids=["another group", "a stale uid"],
)
def test_a_foreign_stateful_set_enqueues_no_network(still_cluster: Any, owner: Any) -> None:
    cluster = still_cluster
    replica = cluster.start()
    net = cluster.net()
    uid = net["metadata"]["uid"] if owner["uid"] == "of the net" else "stale"
    cluster.client.create(stateful_set(UPSTREAM, {**owner, "uid": uid}, "other"))
    cluster.idle()
    runs = replica.runs()
    cluster.client.patch(*STS, "other", "test", {"spec": {"replicas": 2}})
    cluster.idle()
    assert replica.runs() == runs


def test_a_conflict_is_retried_with_the_servers_object(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    cluster.idle()
    replica.host.faults.next("replace", ctrlhost.Conflict("changed"), resource="statefulsets", times=3)
    cluster.edit(nodes=2)
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 2
    assert [one["note"] for one in cluster.events("Scaled")] == [f"scaled stateful set {NAME}-sts from 4 to 2 replicas"]
    assert replica.host.controllers["bitcoin/bitcoin"].status().errors == 0


def test_a_refused_update_is_reported_and_retried(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    cluster.idle()
    replica.host.faults.next("replace", ctrlhost.Forbidden("no"), resource="statefulsets")
    cluster.edit(nodes=2)
    cluster.idle()
    assert cluster.condition("Reconciled") == ("False", "ApiError")
    assert len(cluster.events("UpdateFailed")) == 1
    assert cluster.events("Scaled") == []
    cluster.after(0.1)
    assert cluster.sts()["spec"]["replicas"] == 2


def test_orphaned_children_are_not_adopted_by_a_stale_cache(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    cluster.idle()
    replica.host.faults.next("replace", ctrlhost.Forbidden("no"), resource="statefulsets")
    cluster.edit(nodes=2)
    cluster.idle()
    with replica.host.faults.hold_watches():
        cluster.client.delete(*NET, NAME, "test", propagation="Orphan")
        eventually(lambda: not cluster.sts()["metadata"].get("ownerReferences"))
        eventually(lambda: cluster.client.find(*NET, NAME, "test") is None)
        runs = replica.runs()
        replica.enqueue()
        eventually(lambda: replica.runs() > runs)
        assert not cluster.sts()["metadata"].get("ownerReferences")
    cluster.idle()
    assert not cluster.sts()["metadata"].get("ownerReferences")
    assert cluster.sts()["spec"]["replicas"] == 4
