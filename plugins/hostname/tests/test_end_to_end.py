"""The installed plugin in a host process of its own, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from plugins.hostname.tests.cluster import INGRESS
from plugins.hostname.tests.objects import Objects
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_hostname.lease import LeaseID

    import ctrlhost

KIND = ("akash.network/v2beta2", "ProviderHost")
_dseq = itertools.count(880001)


class Running(HostProcess):
    """A host process with the plugin, and the administrator's view of the same API server."""

    def __init__(self, control_plane: Any, namespace: str, port: int) -> None:
        self.client: ctrlhost.Client = control_plane.client
        self.namespace = namespace
        self.page_url = f"http://127.0.0.1:{port}"
        settings = {"k8s-manifest-ns": namespace, "rest-port": port, "web-refresh-interval": "200ms"}
        options = [f"--set=hostname.{key}={value}" for key, value in settings.items()]
        super().__init__("--plugins=hostname", "--install-crds", f"--kubeconfig={control_plane.kubeconfig}", *options)

    def lease(self) -> LeaseID:
        """Create the namespace of a new lease."""
        lease = Objects.lease(next(_dseq))
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease.namespace}})
        return lease

    def create(self, built: dict[str, Any]) -> None:
        built["metadata"]["namespace"] = self.namespace
        self.client.create(built)

    def route(self, hostname: str, lease: LeaseID) -> Any:
        return self.client.find(*INGRESS, hostname, lease.namespace)

    def page(self, path: str) -> Any:
        answer = urllib3.request("GET", self.page_url + path, timeout=10.0, retries=False)
        return json.loads(answer.data) if answer.status == 200 else {}


@pytest.fixture
def running(control_plane: Any, namespace: str, free_port: int) -> Iterator[Running]:
    """A host whose plugin runs, so that both CRDs are established."""
    with Running(control_plane, namespace, free_port) as host:
        host.line("plugin hostname running")
        yield host


def test_hostnames_are_connected_moved_repaired_and_released(running: Running) -> None:
    first, second = running.lease(), running.lease()
    services = Objects.web_services({"max_body_size": 2097152, "read_timeout": 1500, "next_cases": ["off"]})
    running.create(Objects.manifest(first, services))
    running.create(Objects.manifest(second))
    hostname = f"shop-{first.dseq}.example.com"

    running.create(Objects.provider_host(hostname, first))
    route = eventually(lambda: running.route(hostname, first))
    assert route["metadata"]["labels"] == first.labels
    prefix = "nginx.ingress.kubernetes.io/proxy-"
    annotations = {
        key.removeprefix(prefix): text for key, text in route["metadata"]["annotations"].items() if prefix in key
    }
    assert annotations == {
        "body-size": "2097152",
        "next-upstream": "off",
        "next-upstream-timeout": "0",
        "next-upstream-tries": "0",
        "read-timeout": "2",
        "send-timeout": "0",
    }
    assert route["spec"] == Objects.route(hostname, first)["spec"]
    eventually(lambda: hostname in running.page("/managed-hostnames"))

    running.client.delete(*INGRESS, hostname, first.namespace)
    again = eventually(lambda: running.route(hostname, first))
    assert again["spec"] == route["spec"]
    assert again["metadata"]["uid"] != route["metadata"]["uid"]

    edits = {"ingressClassName": "nginx", "tls": [{"hosts": [hostname]}]}
    running.client.patch(*INGRESS, hostname, first.namespace, {"spec": edits})
    eventually(lambda: running.route(hostname, first)["spec"] == route["spec"])

    change = {"metadata": {"labels": second.labels}, "spec": {"dseq": second.dseq}}
    running.client.patch(*KIND, hostname, running.namespace, change)
    moved = eventually(lambda: running.route(hostname, second))
    assert moved["metadata"]["labels"] == second.labels
    assert running.route(hostname, first) is None

    running.client.delete(*KIND, hostname, running.namespace)
    eventually(lambda: running.route(hostname, second) is None)
    eventually(lambda: hostname not in running.page("/managed-hostnames"))


def test_a_late_manifest_connects_its_hostname_and_a_conflict_is_reported(running: Running) -> None:
    lease, other = running.lease(), running.lease()
    hostname = f"blog-{lease.dseq}.example.com"
    running.create(Objects.provider_host(hostname, lease))
    eventually(lambda: str(lease) in running.page("/ignore-list"))
    running.create(Objects.manifest(lease))
    eventually(lambda: running.route(hostname, lease))

    running.create(Objects.manifest(other))
    running.create(Objects.provider_host(hostname, other, name=f"other-{other.dseq}"))

    def conflicts() -> list[dict[str, Any]]:
        events = running.client.list("events.k8s.io/v1", "Event", running.namespace)
        return [event for event in events if event["reason"] == "HostnameConflict"]

    (event,) = eventually(conflicts)
    assert event["regarding"]["name"] == f"other-{other.dseq}"
    assert event["type"] == "Warning"
    assert running.route(hostname, other) is None


@pytest.mark.behaviour("hostname/82")
def test_a_signal_ends_the_process_and_removes_no_route(running: Running) -> None:
    lease = running.lease()
    running.create(Objects.manifest(lease))
    hostname = f"stay-{lease.dseq}.example.com"
    running.create(Objects.provider_host(hostname, lease))
    before = eventually(lambda: running.route(hostname, lease))
    assert running.stop() == 0
    assert running.route(hostname, lease) == before
