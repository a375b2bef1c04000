"""The installed plugin in a host process of its own, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import fork_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

INGRESS = ("networking.k8s.io/v1", "Ingress")
PORTS = [{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP", "error": "example.com/NoQuota"}]


class Running:
    """A host process with the plugin."""

    def __init__(self, control_plane: Any, namespace: str, log: Path, **settings: str) -> None:
        self.client, self.namespace, self.log = control_plane.client, namespace, log
        command = ["run", "--plugins", "ingress-status"]
        command += ["--kubeconfig", str(control_plane.kubeconfig), "--listen", "127.0.0.1:0"]
        options = {"envoy-service-namespace": namespace, "watch-namespaces": namespace, **settings}
        for key, value in options.items():
            command += ["--set", f"ingress-status.{key}={value}"]
        with log.open("wb") as output:
            self.process = fork_server.start(command, stdout=output.fileno(), stderr=output.fileno())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def ingress(self, name: str, **spec: Any) -> None:
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        metadata = {"name": name, "namespace": self.namespace}
        spec = {"defaultBackend": backend, **spec}
        self.client.create({"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": metadata, "spec": spec})

    def assign(self, *addresses: Any) -> None:
        status = {"status": {"loadBalancer": {"ingress": list(addresses)}}}
        self.client.patch("v1", "Service", "envoy", self.namespace, status, subresource="status")

    def status(self, name: str) -> Any:
        ingress = self.client.get(*INGRESS, name, self.namespace)
        return ingress["status"]["loadBalancer"].get("ingress")


@pytest.fixture
def start(control_plane: Any, namespace: str, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start host processes, and stop them with the test."""
    running: list[Running] = []

    def started(**settings: str) -> Running:
        running.append(Running(control_plane, namespace, tmp_path / f"log{len(running)}", **settings))
        return running[-1]

    yield started
    for replica in running:
        if replica.process.poll() is None:
            replica.process.kill()
            replica.process.wait()


@pytest.mark.behaviour("ingress-status/R18")
def test_the_address_of_the_service_is_published_followed_and_left_at_the_end(start: Any, namespace: str) -> None:
    running = start()
    running.client.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "envoy", "namespace": namespace},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        }
    )
    running.ingress("web", ingressClassName="contour")
    running.ingress("other", ingressClassName="nginx")
    running.assign({"hostname": "lb-1.example.net", "ipMode": "VIP"} | {"ip": "203.0.113.9"})
    first = [{"hostname": "lb-1.example.net", "ip": "203.0.113.9"}]
    eventually(lambda: running.status("web") == first)
    managers = running.client.get(*INGRESS, "web", namespace)["metadata"]["managedFields"]
    assert ("ctrlhost-ingress-status", "status") in {
        (manager["manager"], manager.get("subresource")) for manager in managers
    }

    running.assign({"ip": "203.0.113.7", "ports": PORTS})
    eventually(lambda: running.status("web") == [{"ip": "203.0.113.7", "ports": PORTS}])

    running.client.delete(*INGRESS, "web", namespace)
    running.ingress("web")
    eventually(lambda: running.status("web") == [{"ip": "203.0.113.7", "ports": PORTS}])
    assert not running.status("other")

    logged = len(running.log.read_bytes())
    running.client.delete("v1", "Service", "envoy", namespace)
    eventually(lambda: b"no address to publish" in running.log.read_bytes()[logged:])
    assert running.stop() == 0
    assert running.status("web") == [{"ip": "203.0.113.7", "ports": PORTS}]


def test_a_static_list_is_published_by_replacement_too(start: Any) -> None:
    text = "10.0.0.1, 2001:db8::1, edge.example.com"
    running = start(**{"ingress-status-address": text, "write-method": "update"})
    running.ingress("web")
    eventually(
        lambda: running.status("web") == [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}, {"hostname": "edge.example.com"}]
    )
    assert running.stop() == 0


def test_a_patch_for_a_recreated_ingress_is_refused(control_plane: Any, namespace: str) -> None:
    from ctrlhost_ingress_status.ingress import IngressTarget
    from ctrlhost_ingress_status.writer import reason_of

    import ctrlhost

    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    metadata = {"name": "web", "namespace": namespace}
    client = control_plane.client
    old = client.create({"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": metadata, "spec": spec})
    client.delete(*INGRESS, "web", namespace)
    client.create({"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": metadata, "spec": spec})
    patch = IngressTarget("example.com/class").patch(old["metadata"]["uid"], ({"ip": "203.0.113.7"},))
    with pytest.raises(ctrlhost.ApiError) as caught:
        client.patch(*INGRESS, "web", namespace, patch, subresource="status")
    assert reason_of(caught.value) == "replaced"
