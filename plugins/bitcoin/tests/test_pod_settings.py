"""The fields of a network that configure its pods: user, resources, storage and image; pods that cannot be created."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, STS

EVENT = ("v1", "Event")
FORBIDDEN = f'Create Pod {NAME}-sts-0 in StatefulSet {NAME}-sts failed error: violates PodSecurity "restricted:latest"'
FIELDS: dict[str, Any] = {
    "image": "registry.example/bitcoind:29",
    "securityContext": {"runAsUser": 1000, "runAsGroup": 2000},
    "resources": {"requests": {"cpu": "250m", "memory": "1024Mi"}, "limits": {"cpu": 1, "memory": "2Gi"}},
    "storage": {"size": "1Gi", "storageClassName": "fast", "mountPath": "/data"},
}


def failed_create(cluster: Any, message: str, at: str, *, uid: str = "", name: str = "one") -> None:
    """Record an event as the StatefulSet controller does."""
    sts = cluster.sts()["metadata"]
    about = {"apiVersion": "apps/v1", "kind": STS[1], "name": sts["name"], "namespace": "test"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "test"}}
    event |= {"type": "Warning", "reason": "FailedCreate", "message": message, "firstTimestamp": at}
    event |= {"lastTimestamp": at, "involvedObject": {**about, "uid": uid or sts["uid"]}}
    cluster.client.create({**event, "source": {"component": "statefulset-controller"}})


@pytest.mark.behaviour("findings/FP10")
def test_fields_of_the_network_configure_its_pods(cluster: Any) -> None:
    cluster.start()
    cluster.net(**FIELDS)
    spec = cluster.sts()["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/bitcoind:29"
    assert pod["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 2000,
        "fsGroup": 1000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["resources"] == {
        "requests": {"cpu": "250m", "memory": ANY},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }
    # A server may write it as it likes.
    assert container["resources"]["requests"]["memory"] in ("1Gi", "1024Mi")
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    # What the server fills in or writes in another form is no difference.
    cluster.assert_rests()


def test_a_network_without_these_fields_leaves_them_to_others(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    live = cluster.sts()
    pod = live["spec"]["template"]["spec"]
    assert not {"resources", "securityContext", "volumeMounts"} & {
        field for field, value in pod["containers"][0].items() if value
    }
    pod["securityContext"] = {"runAsUser": 7}
    pod["containers"][0] |= {"resources": {"limits": {"cpu": "1"}}, "securityContext": {"privileged": False}}
    replica.forget()
    cluster.client.replace(live)
    cluster.idle()
    assert replica.writes() == []


def test_edits_of_these_fields_are_followed_and_edits_of_others_stay(cluster: Any) -> None:
    cluster.start()
    cluster.net(**FIELDS)
    live = cluster.sts()
    pod = live["spec"]["template"]["spec"]
    pod["securityContext"] |= {"runAsUser": 7, "supplementalGroups": [5]}
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/wrong"}]
    pod["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    cluster.client.replace(live)
    cluster.idle()
    (event,) = cluster.events("Repaired")
    assert "containers[0].resources.requests.cpu" in event["note"]
    pod = cluster.sts()["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["supplementalGroups"]) == (1000, [5])
    assert {"name": "data", "mountPath": "/data"} in pod["containers"][0]["volumeMounts"]
    cluster.edit(securityContext={"runAsUser": 1001, "runAsGroup": None}, resources={"requests": None})
    pod = cluster.sts()["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 1001
    assert "runAsGroup" not in pod["securityContext"]
    assert "requests" not in pod["containers"][0]["resources"]


def test_storage_cannot_be_changed(cluster: Any) -> None:
    cluster.start()
    cluster.net(storage=FIELDS["storage"])
    cluster.net(name="without")
    for name, storage in ((NAME, {"size": "2Gi"}), (NAME, None), ("without", {"size": "1Gi"})):
        with pytest.raises(ctrlhost.Invalid, match="storage cannot be changed"):
            cluster.edit(name, storage=storage)
    cluster.edit(nodes=2)
    assert cluster.client.get(*NET, NAME, "test")["spec"]["storage"] == FIELDS["storage"]


def test_a_stateful_set_without_the_claims_is_not_taken_over(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net()
    replica.host.stop()
    cluster.replicas.clear()
    cluster.client.delete(*NET, NAME, "test", propagation="Orphan")
    cluster.net(storage=FIELDS["storage"])
    cluster.start()
    assert cluster.condition("Reconciled") == ("False", "NameConflict")


@pytest.mark.behaviour("findings/FP10")
def test_a_reason_why_pods_cannot_be_created_is_in_the_status(cluster: Any) -> None:
    cluster.start()
    cluster.net(2)
    assert cluster.condition("NodesReady") == ("False", "WaitingForPods")
    failed_create(cluster, "older", "2026-01-01T00:00:00Z", name="older")
    failed_create(cluster, "of another", "2026-01-01T00:00:09Z", uid="another", name="another")
    failed_create(cluster, FORBIDDEN, "2026-01-01T00:00:05Z")
    cluster.idle()
    assert cluster.condition("NodesReady") == ("False", "FailedCreate")
    (condition,) = [condition for condition in cluster.status()["conditions"] if condition["type"] == "NodesReady"]
    assert condition["message"] == f"0 of 2 nodes are ready: {FORBIDDEN}"
    assert cluster.condition("Ready") == ("False", "FailedCreate")
    cluster.assert_rests()
    # Once all pods exist, an old event says nothing.
    cluster.pods(1)
    cluster.pod(1, "10.0.0.2", ready=False)
    assert cluster.condition("NodesReady") == ("False", "WaitingForPods")
