"""Objects with the names of the children: those of others are left alone, those of nobody are adopted."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, STS
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
    foreign_set = cluster.client.create(foreign)
    replica = cluster.start(adopt=adopt)
    cluster.net()
    assert cluster.sts() == foreign_set
    assert cluster.condition("Reconciled") == ("False", "NameConflict")
    (event,) = cluster.events("NameConflict")
    assert event["note"].startswith(f"StatefulSet test/{NAME}-sts ")
    replica.enqueue()
    assert len(cluster.events("NameConflict")) == 1
    assert not [write for write in replica.writes() if "/statefulsets" in write.path]
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
    before = cluster.client.create(stateful_set(ours))
    cluster.client.create(service(ours))
    cluster.start()
    net = cluster.net()
    sts = cluster.sts()
    assert sts["metadata"]["uid"] == before["metadata"]["uid"]
    assert sts["metadata"]["ownerReferences"][0]["uid"] == net["metadata"]["uid"]
    assert sts["spec"]["replicas"] == 4
    assert sts["spec"]["serviceName"] == "old"
    notes = sorted(event["note"] for event in cluster.events("Adopted"))
    assert [note.partition(":")[0] for note in notes] == [
        f"adopted Service test/{NAME}-svc",
        f"adopted StatefulSet test/{NAME}-sts",
    ]
    assert cluster.svc()["spec"]["selector"] == ours
    assert cluster.condition("Reconciled") == ("True", "Reconciled")


@pytest.mark.behaviour("bitcoin/B4")
@pytest.mark.parametrize("owned", [True, False], ids=["of the net", "of nobody"])
def test_upstreams_stateful_set_is_taken_over_with_its_selector(cluster: Any, owned: bool) -> None:
    replica = cluster.start(settle=False)
    net = cluster.net()
    about = {"apiVersion": NET[0], "kind": NET[1], "name": NAME, "uid": net["metadata"]["uid"]}
    before = cluster.client.create(stateful_set(UPSTREAM, about if owned else None))
    cluster.client.create(service(UPSTREAM))
    replica.host.start()
    cluster.idle()
    sts = cluster.sts()
    assert sts["metadata"]["uid"] == before["metadata"]["uid"]
    (owner,) = sts["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (net["metadata"]["uid"], True)
    assert sts["spec"]["replicas"] == 4
    notes = sorted(event["note"] for event in cluster.events("Adopted"))
    adopted = [] if owned else [f"adopted StatefulSet test/{NAME}-sts"]
    assert [note.partition(":")[0] for note in notes] == [f"adopted Service test/{NAME}-svc", *adopted]
    assert sts["spec"]["selector"] == {"matchLabels": UPSTREAM}
    assert sts["spec"]["template"] == before["spec"]["template"]
    # Pods that were not restarted yet lack our labels.
    assert cluster.svc()["spec"]["selector"] == UPSTREAM
    replica.forget()
    for _ in range(3):
        cluster.run()
    assert replica.writes(events=True) == []
    assert replica.host.controllers["bitcoin/bitcoin"].status().errors == 0


@pytest.mark.behaviour("findings3/NP1")
@pytest.mark.parametrize("owned", [True, False], ids=["of the net", "of nobody"])
@pytest.mark.parametrize("cause", ["image", "args", "resources", "restart"])
def test_pods_of_the_go_controller_wait_for_a_roll_of_the_user(cluster: Any, owned: bool, cause: str) -> None:
    replica = cluster.start(settle=False)
    net = cluster.net()
    about = {"apiVersion": NET[0], "kind": NET[1], "name": NAME, "uid": net["metadata"]["uid"]}
    before = cluster.client.create(stateful_set(UPSTREAM, about if owned else None))
    replica.host.start()
    cluster.idle()
    # The pods stay: scaling and a restart of the host change nothing of them.
    assert cluster.sts()["spec"]["replicas"] == 4
    cluster.client.patch(*NET, NAME, "test", {"spec": {"nodes": 3}})
    cluster.idle()
    sts = cluster.sts()
    assert sts["spec"]["replicas"] == 3
    assert sts["spec"]["template"] == before["spec"]["template"]
    if cause == "restart":
        annotations = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
        restart = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        cluster.client.patch(*STS, f"{NAME}-sts", "test", restart)
    else:
        change = {"image": "other", "args": ["-regtest"], "resources": {"limits": {"cpu": "1"}}}[cause]
        cluster.client.patch(*NET, NAME, "test", {"spec": {cause: change}})
    cluster.idle()
    template = cluster.sts()["spec"]["template"]
    assert template["metadata"]["labels"][f"{GROUP}/network"] == NAME
    assert f"{GROUP}/credentials" in template["metadata"]["annotations"]
    assert template["spec"]["containers"][0]["readinessProbe"]
    assert replica.host.controllers["bitcoin/bitcoin"].status().errors == 0


def test_nothing_is_taken_over_without_adopt(cluster: Any) -> None:
    before = cluster.client.create(stateful_set({"app": NAME, f"{GROUP}/network": NAME}))
    cluster.start(adopt=False)
    cluster.net()
    assert cluster.sts() == before
    assert cluster.condition("Reconciled") == ("False", "NameConflict")


@pytest.mark.behaviour("bitcoin/B12")
@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "example.com/v1", "kind": "BitcoinNetwork", "name": NAME, "uid": "of the net"},
        {"apiVersion": f"{GROUP}/v1", "kind": "BitcoinNetwork", "name": NAME, "uid": "stale"},
    ],
    ids=["another group", "a stale uid"],
)
def test_a_foreign_stateful_set_changes_no_network(still_cluster: Any, owner: Any) -> None:
    cluster = still_cluster
    replica = cluster.start()
    net = cluster.net()
    uid = net["metadata"]["uid"] if owner["uid"] == "of the net" else "stale"
    cluster.client.create(stateful_set(UPSTREAM, {**owner, "uid": uid}, "other"))
    cluster.idle()
    replica.forget()
    cluster.client.patch(*STS, "other", "test", {"spec": {"replicas": 2}})
    cluster.idle()
    assert replica.writes(events=True) == []
    assert cluster.client.get(*STS, "other", "test")["spec"]["replicas"] == 2


def test_orphaned_children_are_not_adopted_by_a_stale_cache(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    replica.host.faults.next("apply", ctrlhost.Forbidden("no"), resource="statefulsets")
    cluster.edit(nodes=2)
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
