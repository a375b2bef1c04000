"""The toy kubelet of the scenarios."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from examples.bitcoind.daemon import Bitcoind
from examples.bitcoind.fake_servers import FakeDaemons
from examples.bitcoind.fakes import FakeProcess
from examples.bitcoind.kubelet import ToyKubelet
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.bitcoind.daemon import Addresses
    from examples.bitcoind.process import Starter
    from tests.support.control_plane import ControlPlane


def create_pod(client: Any, namespace: str, name: str, secret: str = "") -> None:
    ports = [{"name": "rpc", "containerPort": 18443}, {"name": "p2p", "containerPort": 18444}]
    source = [{"secretRef": {"name": secret}}] if secret else []
    container = {"name": "bitcoind", "image": "bitcoind", "ports": ports, "envFrom": source}
    metadata = {"name": name, "namespace": namespace}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})


@pytest.fixture(params=["bitcoind", "fake"])
def start(request: pytest.FixtureRequest) -> Iterator[Starter]:
    """Return the processes of the kubelet: real daemons, and the fake ones of the demo."""
    if request.param == "bitcoind":
        yield functools.partial(Bitcoind, request.getfixturevalue("bitcoind"))
        return
    with FakeDaemons() as daemons:
        yield functools.partial(FakeProcess, daemons)


def test_a_pod_is_a_daemon_that_is_restarted_probed_and_stopped(
    control_plane: ControlPlane, namespace: str, start: Starter, addresses: Addresses
) -> None:
    client = control_plane.client

    def status(name: str = "node-0") -> dict[str, Any]:
        pod_status: dict[str, Any] = client.get("v1", "Pod", name, namespace)["status"]
        return pod_status

    def ready(name: str = "node-0") -> bool:
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in status(name).get("conditions") or ()
        )

    with ToyKubelet(client, namespace, start, addresses) as kubelet:
        create_pod(client, namespace, "node-0")
        eventually(ready, 30)
        pod = kubelet.pod("node-0")
        assert status()["podIP"] == pod.address == pod.daemon.host
        assert kubelet.rpc.call(pod.daemon.target, "getnetworkinfo")["connections"] == 0

        pod.kill()
        eventually(lambda: not ready())
        eventually(ready)
        (container,) = status()["containerStatuses"]
        assert (container["restartCount"], status()["podIP"]) == (1, pod.address)

        pod.frozen = True
        pod.kill()
        eventually(lambda: status()["containerStatuses"][0]["restartCount"] == 2)
        assert ready()

        client.delete("v1", "Pod", "node-0", namespace)
        # A fake daemon exits at once, and so does its pod.
        left = client.find("v1", "Pod", "node-0", namespace)
        assert left is None or left["metadata"]["deletionTimestamp"]
        eventually(lambda: client.find("v1", "Pod", "node-0", namespace) is None)
        assert not pod.runs

        # The daemon accepts the credentials of the Secret; without it, the container waits.
        create_pod(client, namespace, "node-1", "rpc")
        eventually(lambda: "containerStatuses" in status("node-1"))
        assert status("node-1")["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        secret = {"BC_RPC_USER": "ann", "BC_RPC_PASSWORD": "pass"}
        metadata = {"name": "rpc", "namespace": namespace}
        client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret})
        eventually(lambda: ready("node-1"))
        next_pod = kubelet.pod("node-1")
        assert next_pod.daemon.target.credentials.password == "pass"
        assert next_pod.address != pod.address
        assert set(kubelet.pods()) == {"node-1"}
    assert not next_pod.runs
