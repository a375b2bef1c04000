"""Networks of real daemons: Secrets with their credentials, and manual changes of users."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.support.bitcoin_cluster import SERVICE, SOAK, STATEFUL_SET
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from examples.bitcoind.pod import ToyPod
    from tests.support.bitcoin_cluster import Cluster

behaviour = pytest.mark.behaviour


def refusals(pod: ToyPod) -> list[float]:
    """Return when a daemon refused a password, in seconds, with the precision of its log."""
    lines = [line for line in pod.daemon.log.splitlines() if "incorrect password" in line]
    return [datetime.fromisoformat(line.split()[0]).timestamp() for line in lines]


@behaviour("bitcoin/E12")
def test_changed_credentials_roll_through_the_nodes_without_refused_calls(cluster: Cluster) -> None:
    host = cluster.start()
    cluster.secret("rpc", "old-pass")
    before = cluster.up("net", 3, "rpc")
    eventually(lambda: cluster.is_ready("net"))
    cluster.secret("rpc", "new-pass")

    def rolled() -> bool:
        running = cluster.kubelet.pods()
        pods = [running.get(pod.name) for pod in before]
        return all(pod is not None and pod not in before for pod in pods) and cluster.meshed("net", 3)

    cluster.within(20, lambda: rolled() and cluster.is_ready("net"), "E12")
    assert {pod.daemon.target.credentials.password for pod in cluster.pods("net", 3)} == {"new-pass"}
    eventually(lambda: "CredentialsRotated" in cluster.reasons("net"))
    assert cluster.reasons("net").count("CredentialsRotated") == 1
    assert "RPCUnauthorized" not in cluster.reasons("net")
    assert not any(outcome == "Unauthorized" for _, outcome in host.calls())


@behaviour("bitcoin/E13")
def test_a_network_waits_for_its_secret_and_comes_up_once_it_exists(cluster: Cluster) -> None:
    cluster.start()
    cluster.network("net", 3, "rpc")
    eventually(lambda: cluster.conditions("net").get("Reconciled") == ("False", "WaitingForSecret"))
    assert cluster.conditions("net")["CredentialsReady"] == ("False", "SecretNotFound")
    assert cluster.find(SERVICE, "net-svc") is not None
    assert cluster.find(STATEFUL_SET, "net-sts") is None
    cluster.secret("rpc")
    cluster.within(5, lambda: cluster.meshed("net", 3) and cluster.is_ready("net"), "E13")


@behaviour("bitcoin/E14")
def test_daemons_with_another_password_are_reported_once_and_rarely_called(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = cluster.start(resync="1s")
    cluster.secret("rpc", "password-of-the-secret")
    cluster.kubelet.password = "password-of-the-daemon"
    cluster.network("closed", 2, "rpc")
    pods = cluster.pods("closed", 2)
    eventually(lambda: cluster.conditions("closed").get("CredentialsReady") == ("False", "Unauthorized"), 30)
    assert cluster.conditions("closed")["MeshConverged"] == ("False", "Unauthorized")
    eventually(lambda: cluster.reasons("closed").count("RPCUnauthorized") == 2)

    # Another network shows that time passes, and that this one delays no other.
    cluster.kubelet.password = None
    cluster.up("open", 2, "rpc")
    look = ("getaddednodeinfo", "ok")
    begun = host.calls()[look]
    eventually(lambda: host.calls()[look] >= begun + 2 * 4, 30, "four resyncs")
    assert [len(refusals(pod)) for pod in pods] == [1, 1]
    if SOAK:
        eventually(lambda: all(len(refusals(pod)) == 2 for pod in pods), 60, "a second login")
        assert all(second - first >= 29 for first, second in map(refusals, pods))
    assert cluster.reasons("closed").count("RPCUnauthorized") == 2
    seen = [caplog.text, str(cluster.status("closed"))]
    seen += [str(event) for event in cluster.client.list("events.k8s.io/v1", "Event", cluster.namespace)]
    seen += [str(cluster.find(STATEFUL_SET, "closed-sts"))]
    assert "password-of-the-" not in "".join(seen)


@behaviour("bitcoin/E15")
def test_manual_deletions_and_scaling_are_reverted(cluster: Cluster) -> None:
    cluster.start()
    cluster.up("net", 2)

    def uid(kind: tuple[str, str], name: str) -> str:
        obj = cluster.find(kind, name)
        return obj["metadata"]["uid"] if obj is not None else ""

    old = uid(SERVICE, "net-svc")
    cluster.client.delete(*SERVICE, "net-svc", cluster.namespace)
    cluster.within(2, lambda: uid(SERVICE, "net-svc") not in ("", old), "E15 service")

    cluster.client.patch(*STATEFUL_SET, "net-sts", cluster.namespace, {"spec": {"replicas": 4}}, subresource="scale")

    def replicas() -> int:
        stateful_set = cluster.find(STATEFUL_SET, "net-sts")
        assert stateful_set is not None
        return int(stateful_set["spec"]["replicas"])

    cluster.within(2, lambda: replicas() == 2, "E15 scale")

    old = uid(STATEFUL_SET, "net-sts")
    cluster.client.delete(*STATEFUL_SET, "net-sts", cluster.namespace)
    cluster.within(2, lambda: uid(STATEFUL_SET, "net-sts") not in ("", old), "E15 stateful set")
    eventually(lambda: cluster.meshed("net", 2) and cluster.is_ready("net"), 40)
