"""The installed plugin in a host process of its own, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from plugins.hostname.tests.cluster import until
from plugins.hostname.tests.objects import Objects
from tests.support import fork_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctrlhost_hostname.lease import LeaseID

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
INGRESS = ("networking.k8s.io/v1", "Ingress")
_dseq = itertools.count(880001)


class Running:
    """A host process with the plugin, and the administrator's view of the same API server."""

    def __init__(self, control_plane: Any, namespace: str, port: int, log: Path) -> None:
        self.client = control_plane.client
        self.namespace = namespace
        self.base_url = f"http://127.0.0.1:{port}"
        self.log = log
        settings = {"k8s-manifest-ns": namespace, "rest-address": "127.0.0.1", "rest-port": port}
        settings["web-refresh-interval"] = "200ms"
        command = ["run", "--plugins", "hostname", "--install-crds"]
        command += ["--kubeconfig", str(control_plane.kubeconfig), "--listen", "127.0.0.1:0"]
        for key, value in settings.items():
            command += ["--set", f"hostname.{key}={value}"]
        with log.open("wb") as output:
            self.process = fork_server.start(command, stdout=output.fileno(), stderr=output.fileno())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def lease(self) -> LeaseID:
        """Create the namespace of a new lease."""
        lease = Objects.lease(next(_dseq))
        metadata = {"name": lease.namespace}
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return lease

    def create(self, built: dict[str, Any]) -> None:
        built["metadata"]["namespace"] = self.namespace
        self.client.create(built)

    def patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        self.client.patch("akash.network/v2beta2", kind, name, self.namespace, patch)

    def route(self, hostname: str, lease: LeaseID) -> Any:
        return self.client.find(*INGRESS, hostname, lease.namespace)

    def page(self, path: str) -> Any:
        answer = urllib3.request("GET", self.base_url + path, timeout=10.0, retries=False)
        return json.loads(answer.data) if answer.status == 200 else {}


@pytest.fixture
def running(control_plane: Any, namespace: str, free_port: int, tmp_path: Path) -> Iterator[Running]:
    """A host whose pages are served, so its plugin is set up."""
    host = Running(control_plane, namespace, free_port, tmp_path / "log")
    try:
        until(
            lambda: host.client.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", "manifests.akash.network")
        )
        until(lambda: b"listens on" in host.log.read_bytes() or host.process.poll() is not None)
        assert host.process.poll() is None, host.log.read_text()
        yield host
    finally:
        if host.process.poll() is None:
            host.process.kill()
            host.process.wait()


def test_hostnames_are_connected_moved_repaired_and_released(running: Running) -> None:
    first, second = running.lease(), running.lease()
    services = Objects.web_services({"max_body_size": 2097152, "read_timeout": 1500, "next_cases": ["off"]})
    until(lambda: _established(running))
    running.create(Objects.manifest(first, services))
    running.create(Objects.manifest(second))
    hostname = f"shop-{first.dseq}.example.com"

    running.create(Objects.provider_host(hostname, first))
    route = until(lambda: running.route(hostname, first))
    assert route["metadata"]["labels"] == first.labels
    assert route["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/proxy-body-size": "2097152",
        "nginx.ingress.kubernetes.io/proxy-next-upstream": "off",
        "nginx.ingress.kubernetes.io/proxy-next-upstream-timeout": "0",
        "nginx.ingress.kubernetes.io/proxy-next-upstream-tries": "0",
        "nginx.ingress.kubernetes.io/proxy-read-timeout": "2",
        "nginx.ingress.kubernetes.io/proxy-send-timeout": "0",
    }
    assert route["spec"] == Objects.route(hostname, first)["spec"]
    until(lambda: hostname in running.page("/managed-hostnames"))

    running.client.delete(*INGRESS, hostname, first.namespace)
    again = until(lambda: running.route(hostname, first))
    assert again["spec"] == route["spec"]
    assert again["metadata"]["uid"] != route["metadata"]["uid"]

    running.client.patch(*INGRESS, hostname, first.namespace, {"spec": {"ingressClassName": "nginx"}})
    until(lambda: running.route(hostname, first)["spec"] == route["spec"])

    parts = {"dseq": second.dseq}
    running.patch("ProviderHost", hostname, {"metadata": {"labels": second.labels}, "spec": parts})
    moved = until(lambda: running.route(hostname, second))
    assert moved["metadata"]["labels"] == second.labels
    assert running.route(hostname, first) is None

    running.client.delete("akash.network/v2beta2", "ProviderHost", hostname, running.namespace)
    until(lambda: running.route(hostname, second) is None)
    until(lambda: hostname not in running.page("/managed-hostnames"))


def test_a_late_manifest_connects_its_hostname_and_a_conflict_is_reported(running: Running) -> None:
    lease, other = running.lease(), running.lease()
    until(lambda: _established(running))
    hostname = f"blog-{lease.dseq}.example.com"
    running.create(Objects.provider_host(hostname, lease))
    until(lambda: str(lease) in running.page("/ignore-list"))
    running.create(Objects.manifest(lease))
    until(lambda: running.route(hostname, lease))

    running.create(Objects.manifest(other))
    running.create(Objects.provider_host(hostname, other, name=f"other-{other.dseq}"))
    (event,) = until(lambda: _conflicts(running))
    assert event["regarding"]["name"] == f"other-{other.dseq}"
    assert event["type"] == "Warning"
    assert running.route(hostname, other) is None


@pytest.mark.behaviour("hostname/82")
def test_a_signal_ends_the_process_and_removes_no_route(running: Running) -> None:
    lease = running.lease()
    until(lambda: _established(running))
    running.create(Objects.manifest(lease))
    hostname = f"stay-{lease.dseq}.example.com"
    running.create(Objects.provider_host(hostname, lease))
    before = until(lambda: running.route(hostname, lease))
    assert running.stop() == 0
    assert running.route(hostname, lease) == before


def _established(running: Running) -> bool:
    """Return whether both CRDs are established."""
    return all(
        any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in (crd.get("status") or {}).get("conditions") or ()
        )
        for plural in ("manifests", "providerhosts")
        for crd in [running.client.get(*CRD, f"{plural}.akash.network")]
    )


def _conflicts(running: Running) -> list[dict[str, Any]]:
    events = running.client.list("events.k8s.io/v1", "Event", running.namespace)
    return [event for event in events if event["reason"] == "HostnameConflict"]
