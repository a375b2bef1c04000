"""A dry run of all bundled plugins beside objects to act on, on a real kube-apiserver."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlhost import Client
from ctrlhost.client.dry_run import DryRunTransport
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.host_process import LIMIT, HostProcess
from tests.support.plugin_sources import to_greet
from tests.support.waiting import eventually

pytestmark = pytest.mark.real

PLUGINS = ("hostname", "naming", "ingress-status", "bitcoin")
EXAMPLES = Path(__file__).parents[2] / "plugins"
#: Periods are short, so that each plugin tries its writes many times.
OPTIONS = (
    f"--plugins={','.join(PLUGINS)}",
    "--install-crds",
    "--set=hostname.rest-address=127.0.0.1",
    "--set=hostname.rest-port=0",
    "--set=hostname.resync-interval=2s",
    "--set=naming.mode=repair",
    "--set=naming.diff_grace=0s",
    "--set=ingress-status.address-holdoff=0s",
    "--set=bitcoin.resync=2s",
    "--set=host.resync=2s",
)
WRITTEN = {
    "level": "Request",
    "omitStages": ["RequestReceived"],
    "verbs": ["create", "update", "patch", "delete", "deletecollection"],
}
#: Objects that the API server itself changes or counts, and reviews.
OWN = frozenset({"apiservices", "endpoints", "endpointslices", "flowschemas", "prioritylevelconfigurations"})
OBJECTS = (
    ("hostname", "01-leases.yaml", "02-connect.yaml"),
    ("naming", "01-gadgets.yaml", "02-gauges-in-conflict.yaml"),
    ("ingress-status", "01-service.yaml", "02-ingresses.yaml"),
    ("bitcoin", "01-secret.yaml", "02-harbour.yaml"),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubeApiserver]:
    require_kube_apiserver()
    with KubeApiserver(tmp_path / "kube-apiserver", audit=[WRITTEN]) as server:
        # The last object that the server makes of itself.
        eventually(lambda: server.client.find("v1", "Service", "kubernetes", "default"), LIMIT, "Service kubernetes")
        yield server


def get(client: Client, path: str) -> dict[str, Any]:
    def answer() -> Any:
        response = client.transport.request("GET", path, headers={"Accept": "application/json"})
        # The storage of a new kind answers 429 for a while.
        return response if response.status == 200 else None

    document: dict[str, Any] = json.loads(eventually(answer, LIMIT, path).body)
    return document


def named(client: Client) -> bool:
    """Return whether the server has accepted or refused the names of all CRDs."""
    crds = client.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    types = [{condition["type"] for condition in crd["status"].get("conditions") or ()} for crd in crds]
    return all({"NamesAccepted", "Established"} <= types_of_crd for types_of_crd in types)


def versions(client: Client) -> dict[str, str]:
    """Return the resource versions of all objects of the server, without those that it changes itself."""
    roots = ["/api/v1"]
    for group in get(client, "/apis")["groups"]:
        roots += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    before = {}
    for root in roots:
        for resource in get(client, root)["resources"]:
            if "list" not in resource["verbs"] or "/" in resource["name"] or resource["name"] in OWN:
                continue
            for item in get(client, f"{root}/{resource['name']}")["items"]:
                metadata = item["metadata"]
                if metadata.get("namespace") != "kube-system":
                    key = f"{root}/{resource['name']} {metadata.get('namespace', '')}/{metadata['name']}"
                    before[key] = metadata.get("resourceVersion", "")
    return before


def written(server: KubeApiserver) -> list[dict[str, Any]]:
    """Return the writes of others than the server, without reviews."""
    return [
        event
        for event in server.audited()
        if event["user"]["username"] != "system:apiserver"
        and not event["objectRef"].get("apiGroup", "").startswith("auth")
    ]


def is_dry(request: dict[str, Any]) -> bool:
    sent = request.get("requestObject") or {}
    return "dryRun=All" in request["requestURI"] and (request["verb"] != "delete" or sent.get("dryRun") == ["All"])


@pytest.mark.behaviour("operations/OP137")
@pytest.mark.slow
def test_four_plugins_change_nothing_and_each_write_is_logged_once(server: KubeApiserver) -> None:
    client = server.client
    with HostProcess(f"--kubeconfig={server.kubeconfig}", *OPTIONS) as first:
        for plugin in PLUGINS:
            first.line(f"plugin {plugin} running")
        assert first.stop() == 0
    for plugin, *files in OBJECTS:
        for file in files:
            for obj in yaml.safe_load_all((EXAMPLES / plugin / "examples" / file).read_text()):
                client.apply(obj, field_manager="test")
    address = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}}
    client.patch("v1", "Service", "envoy", "projectcontour", address, subresource="status")

    eventually(lambda: named(client), LIMIT, "names of CRDs")
    before = versions(client)
    sent = len(written(server))
    with HostProcess(f"--kubeconfig={server.kubeconfig}", *OPTIONS, "--leader-elect", "--dry-run") as host:
        for plugin in PLUGINS:
            host.line(f"plugin {plugin} running")
        for write in ("create Service ", "create StatefulSet ", "create Ingress ", "update Ingress ", "record event "):
            host.line(f"dry run: would {write}")

        def runs() -> dict[str, float]:
            names = ("hostname/hostname", "bitcoin/bitcoin")
            return {
                name: host.metric("controller_runtime_reconcile_total", controller=name, result="success") or 0
                for name in names
            }

        begun, lines = runs(), len(host.lines)
        # Many periods of each plugin.
        host.eventually(lambda: all(count >= begun[name] + 10 for name, count in runs().items()), "runs")
        later = [line["msg"] for line in host.lines[lines:] if line["msg"].startswith("dry run: would ")]
        name = "controller_runtime_reconcile_errors_total{"
        errors = [line for line in host.get("/metrics")[1].splitlines() if line.startswith(name)]
        assert len(errors) >= len(PLUGINS)
        assert not [line for line in errors if not line.endswith(" 0.0")], host.text
        assert host.stop() == 0
    assert versions(client) == before
    # No Lease and no Event is among them.
    assert not list(client.list("coordination.k8s.io/v1", "Lease", "default"))
    tried = written(server)[sent:]
    assert tried
    assert not [request["requestURI"] for request in tried if not is_dry(request)]
    told = Counter(line["msg"] for line in host.lines if line["msg"].startswith("dry run: would "))
    assert not {line for line, count in told.items() if count > 1}
    assert later == []
    assert {line.get("plugin") for line in host.lines if line["msg"].startswith("dry run: would ")} >= {
        "hostname",
        "ingress-status",
        "bitcoin",
    }


@pytest.mark.behaviour("operations/OP137")
def test_the_real_server_tries_every_verb(server: KubeApiserver) -> None:
    client = server.client
    namespace = "default"
    for name in ("a", "b"):
        client.create(to_greet(name))
    before = versions(client)
    sent = len(written(server))
    dry = client.derive(transport=DryRunTransport(client.transport))
    dry.create(to_greet("new"))
    config_map = client.get("v1", "ConfigMap", "a", namespace)
    assert dry.replace({**config_map, "data": {"x": "y"}})["data"] == {"x": "y"}
    dry.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"z": "1"}})
    dry.patch("v1", "ConfigMap", "a", namespace, [{"op": "remove", "path": "/data"}], type="json")
    dry.delete("v1", "ConfigMap", "a", namespace)
    dry.delete("v1", "ConfigMap", "a", namespace, propagation="Foreground")
    dry.delete_collection("v1", "ConfigMap", namespace, label_selector="greet=yes")
    assert versions(client) == before
    tried = written(server)[sent:]
    assert len(tried) == 7
    assert all("dryRun=All" in request["requestURI"] for request in tried)
