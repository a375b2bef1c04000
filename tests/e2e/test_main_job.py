"""The main use, `ctrlhost run --plugins hostname,naming`, on both servers."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ctrlhost import NotFound
from tests.support.host_process import LIMIT, HostProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import ctrlhost
    from tests.support.control_plane import ControlPlane, KubeApiserver

EXAMPLES = Path(__file__).parents[2] / "plugins" / "hostname" / "examples"
HOSTNAMES = frozenset({"api.example.com", "shop.example.com"})
INGRESS = ("networking.k8s.io/v1", "Ingress")
RBAC = "rbac.authorization.k8s.io/v1"
OPTIONS = (
    "--plugins=hostname,naming",
    "--install-crds",
    "--set=hostname.rest-address=127.0.0.1",
    "--set=hostname.rest-port=0",
)


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((EXAMPLES / name).read_text()) if document]


def apply(client: ctrlhost.Client, name: str) -> None:
    for document in documents(name):
        client.apply(document, field_manager="test")


def namespaces_of_routes(client: ctrlhost.Client) -> dict[str, str]:
    routes = client.list(*INGRESS, label_selector="akash.network=true")
    return {route["metadata"]["name"]: route["metadata"]["namespace"] for route in routes}


def connect(host: HostProcess, client: ctrlhost.Client) -> None:
    host.line("plugin hostname running")
    apply(client, "01-leases.yaml")
    apply(client, "02-connect.yaml")
    eventually(lambda: namespaces_of_routes(client).keys() >= HOSTNAMES, LIMIT, "two hostnames have their Ingresses")


def release_everything(client: ctrlhost.Client) -> None:
    for obj in client.list("akash.network/v2beta2", "ProviderHost", "lease"):
        client.delete("akash.network/v2beta2", "ProviderHost", obj["metadata"]["name"], "lease")


def test_hostnames_are_connected_swapped_and_released(control_plane: ControlPlane) -> None:
    client = control_plane.client
    with HostProcess(f"--kubeconfig={control_plane.kubeconfig}", *OPTIONS) as host:
        connect(host, client)
        before = namespaces_of_routes(client)["shop.example.com"]

        apply(client, "03-swap.yaml")
        eventually(
            lambda: namespaces_of_routes(client).get("shop.example.com", before) != before, LIMIT, "the shop has moved"
        )

        release_everything(client)
        # Other tests of the session may have left routes.
        eventually(lambda: HOSTNAMES.isdisjoint(namespaces_of_routes(client)), LIMIT, "no Ingress is left")
        status, text = host.get("/readyz?verbose")
        assert status == 200, text
        assert "plugin/hostname ok: running" in text
        host.signal(signal.SIGTERM)
        assert host.wait() == 0


@pytest.fixture
def server(own_kube_apiserver: KubeApiserver) -> KubeApiserver:
    return own_kube_apiserver


def test_a_host_that_starts_before_its_server_waits_for_it(server: KubeApiserver) -> None:
    server.kill()
    with HostProcess(f"--kubeconfig={server.kubeconfig}", *OPTIONS) as host:
        host.line("refused")
        server.start()
        host.line("plugin hostname running")
        host.signal(signal.SIGTERM)
        assert host.wait() == 0


@pytest.mark.slow
def test_a_host_survives_an_outage_of_its_server_and_catches_up(server: KubeApiserver) -> None:
    client = server.client
    with HostProcess(f"--kubeconfig={server.kubeconfig}", *OPTIONS) as host:
        connect(host, client)

        server.kill()
        eventually(lambda: host.get("/readyz")[0] == 503, LIMIT, "the host without its server is not ready")
        server.start()
        # The server is back before the host reconnects, so the host must see these changes in its next list.
        release_everything(client)
        eventually(lambda: namespaces_of_routes(client) == {}, LIMIT, "the Ingresses of released hostnames are gone")
        eventually(lambda: host.get("/readyz")[0] == 200, LIMIT, "the host is ready again")


def test_the_printed_rights_are_enough_and_missing_ones_are_named(server: KubeApiserver) -> None:
    """Run as the user `limited`, first without rights, then with those that `ctrlhost manifests` prints."""
    client = server.client
    command = [sys.executable, "-m", "ctrlhost", "manifests", "--plugins=hostname", "--image=host:1"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    objects = [obj for obj in yaml.safe_load_all(printed) if obj]
    for obj in objects:
        if obj["kind"] == "CustomResourceDefinition":
            client.create(obj)
    options = [option for option in OPTIONS if "--plugins" not in option and "--install" not in option]
    options.append("--set=host.start_timeout=0s")
    with HostProcess(f"--kubeconfig={server.kubeconfig}", "--context=limited", "--plugins=hostname", *options) as host:
        host.line("plugin hostname waiting: ", "no permission to list ")
        eventually(lambda: host.get("/readyz")[0] == 200, LIMIT, "the host does not wait for the plugin any longer")

        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lease"}}, field_manager="test")
        for obj in objects:
            if obj["apiVersion"] != RBAC:
                continue
            if obj["kind"].endswith("Binding"):
                obj["subjects"] = [{"kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io"}]
            client.apply(obj, field_manager="test")
        connect(host, client)
        assert "forbidden" not in str(host.lines).rpartition("plugin hostname running")[2].lower()


def test_a_deleted_object_is_not_found(control_plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(NotFound, match="nobody"):
        control_plane.client.get("v1", "ConfigMap", "nobody", namespace)
