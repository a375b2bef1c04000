"""Pods of networks: a namespace with the pod security level `restricted`, resources and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bitcoin_cluster import NETWORK, POD, STATEFUL_SET
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.bitcoin_cluster import Cluster

behaviour = pytest.mark.behaviour


@behaviour("findings/FP10")
@pytest.mark.parametrize("workload_plane", ["kube-apiserver"], indirect=True)
def test_a_restricted_namespace_is_reported_or_served(cluster: Cluster) -> None:
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.client.patch("v1", "Namespace", cluster.namespace, None, enforced)
    cluster.start(resync="0s")
    cluster.network("plain", 2)
    eventually(lambda: cluster.conditions("plain").get("NodesReady") == ("False", "FailedCreate"))
    conditions = {condition["type"]: condition["message"] for condition in cluster.status("plain")["conditions"]}
    assert conditions["NodesReady"].startswith("0 of 2 nodes are ready: Create Pod plain-sts-")
    assert 'violates PodSecurity "restricted:latest"' in conditions["NodesReady"]

    fields: dict[str, Any] = {
        "securityContext": {"runAsUser": 1000},
        "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"memory": "1.5Gi"}},
        "storage": {"size": "1Gi"},
    }
    cluster.up("secured", 2, **fields)
    eventually(lambda: cluster.is_ready("secured"))
    pod = cluster.client.get(*POD, "secured-sts-0", cluster.namespace)
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1536Mi"}}
    assert {"name": "data", "mountPath": "/root/.bitcoin"} in container["volumeMounts"]
    claim = cluster.client.get("v1", "PersistentVolumeClaim", "data-secured-sts-0", cluster.namespace)
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    # The server writes quantities in another form, which is no reason to write again.
    assert cluster.find(STATEFUL_SET, "secured-sts")["metadata"]["generation"] == 1  # type: ignore[index]
    assert not {"Updated", "Repaired"} & set(cluster.reasons("secured"))

    # The field helps the first network too.
    cluster.client.patch(*NETWORK, "plain", cluster.namespace, {"spec": {"securityContext": {"runAsUser": 1000}}})
    eventually(lambda: cluster.is_ready("plain"), 60)
