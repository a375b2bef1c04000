"""All bundled plugins under the printed ServiceAccount, on a real kube-apiserver that logs what it asks for.

A toy kubelet runs the two pods of the installation, and another one the bitcoin daemons.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from examples.demo import bitcoin, hostname, ingress_status, naming
from examples.demo.kubectl import apply
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.host_pods import HostKubelet
from tests.support.https_client import get
from tests.support.programs import install_programs
from tests.support.rights import account_rule, forbidden, granted
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import ctrlhost

NAMESPACE = "ctrlhost-system"
OPTIONS = (
    "--plugins=bitcoin,hostname,ingress-status,naming --leader-elect --set=naming.diff_grace=0s"
    " --set=ingress-status.address-holdoff=0s"
)
LIMIT = 60.0
BITCOIN = bitcoin.NETWORK[0].partition("/")[0]
#: Rights, beside `list` where a server does not stream lists, that these steps need not use, and what they are for.
FALLBACKS = {
    (BITCOIN, "bitcoinnetworks/finalizers", "update"): (
        "some clusters require it for an ownerReference that blocks the deletion of the owner"
    ),
    ("events.k8s.io", "events", "patch"): "an event that repeats for minutes becomes a series",
}


class Installation:
    """The manifests in a cluster, and their pods."""

    def __init__(self, server: KubeApiserver, kubelet: HostKubelet, folder: Path) -> None:
        self.server, self.client, self.kubelet = server, server.client, kubelet
        programs = install_programs(folder / "bin")
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "KUBECONFIG": str(server.kubeconfig),
            "HOME": str(folder),
        }
        command = f"ctrlhost manifests --image=host:1 {OPTIONS} | tee manifests.yaml | kubectl apply --server-side -f -"
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment, check=True)
        self.manifests = list(yaml.safe_load_all((folder / "manifests.yaml").read_text()))
        eventually(lambda: len(self.kubelet.pods()) == 2, LIMIT, "two pods")
        self.kubelet.pod(self.leader())

    def leader(self) -> str:
        """Wait for the leader, and return the name of its pod."""
        return str(eventually(self._holder, LIMIT, "a leader", pause=0.02))

    def _holder(self) -> str:
        lease = self.client.find("coordination.k8s.io/v1", "Lease", "ctrlhost", NAMESPACE) or {"spec": {}}
        holder = str(lease["spec"].get("holderIdentity") or "").partition("_")[0]
        return holder if holder in self.kubelet.pods() else ""

    def wait_for_message(self, pattern: str) -> str:
        """Wait for a log line of the leader that the pattern matches."""
        match = eventually(lambda: re.search(pattern, self.kubelet.log_of(self.leader())), LIMIT, pattern, pause=0.05)
        return str(match[0])

    def token(self, namespace: str, name: str) -> str:
        answer = self.client.transport.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            body=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode(),
            headers={"Content-Type": "application/json"},
        )
        return str(json.loads(answer.body)["status"]["token"])


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    require_kube_apiserver()
    folder = tmp_path_factory.mktemp("rights")
    with KubeApiserver(folder / "server", audit=[account_rule(NAMESPACE)]) as server:
        server.start_controllers()
        with TemporaryDirectory(prefix="pods-") as pods, HostKubelet(server, NAMESPACE, Path(pods)) as kubelet:
            yield Installation(server, kubelet, folder)


@pytest.fixture
def requests(installation: Installation) -> list[dict[str, Any]]:
    """Use all plugins, and return what their account has asked the server for."""
    client = installation.client
    hostname.demonstrate(client)
    naming.demonstrate(client, cast("Any", installation))
    ingress_status.demonstrate(client)
    bitcoin.demonstrate(client)
    refuse_and_repair_hostnames(client)
    repair_networks(client)
    read_metrics(installation)
    change_leader(installation)
    return installation.server.audited()


def refuse_and_repair_hostnames(client: ctrlhost.Client) -> None:
    """Claim a hostname twice, wait for a lease without a Manifest, and take the label from an Ingress."""
    apply(client, "plugins/hostname/examples/04-conflict.yaml", "plugins/hostname/examples/05-waiting.yaml")

    def is_stalled() -> bool:
        host = client.get("akash.network/v2beta2", "ProviderHost", "shop-of-somebody-else", "lease")
        return any(condition["type"] == "Stalled" for condition in host.get("status", {}).get("conditions", ()))

    eventually(is_stalled, LIMIT, "a condition on the second claim", pause=0.05)
    (ingress,) = (obj for obj in client.list(*hostname.INGRESS) if obj["metadata"]["name"] == "shop.example.com")
    name, namespace = ingress["metadata"]["name"], ingress["metadata"]["namespace"]
    client.patch(*hostname.INGRESS, name, namespace, {"metadata": {"labels": None}})

    def is_repaired() -> bool:
        labels = client.get(*hostname.INGRESS, name, namespace)["metadata"].get("labels")
        return bool(labels == ingress["metadata"]["labels"])

    eventually(is_repaired, LIMIT, "the labels of the Ingress", pause=0.05)


def repair_networks(client: ctrlhost.Client) -> None:
    """Change the Service of a network."""
    metadata = {"name": "repaired", "namespace": "default"}
    api_version, kind = bitcoin.NETWORK
    client.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"nodes": 1}})
    service = ("v1", "Service", "repaired-svc", "default")
    before = eventually(lambda: client.find(*service), LIMIT, "a Service", pause=0.05)
    client.patch(*service, {"spec": {"selector": {"app": "another"}}})

    def is_repaired() -> bool:
        return bool(client.get(*service)["spec"]["selector"] == before["spec"]["selector"])

    eventually(is_repaired, LIMIT, "the selector of the Service", pause=0.05)


def read_metrics(installation: Installation) -> None:
    """Read the metrics of a pod as an account that may."""
    client = installation.client
    metadata = {"name": "prometheus", "namespace": "default"}
    client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "ctrlhost-system-ctrlhost-metrics-reader",
    }
    subjects = [{"kind": "ServiceAccount", **metadata}]
    binding = {"apiVersion": f"{role['apiGroup']}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "scrapes"}}
    client.create({**binding, "roleRef": role, "subjects": subjects})
    address = f"{installation.kubelet.pod(installation.leader()).address}:8443"
    token = installation.token("default", "prometheus")
    # The binding takes effect a moment later, and a refusal is kept for half a minute.
    eventually(lambda: get(address, token=token).status == 200, LIMIT, "the metrics", pause=0.5)
    assert get(address, token="another").status == 401


def change_leader(installation: Installation) -> None:
    """Delete the pod of the leader."""
    before = installation.leader()
    installation.client.delete("v1", "Pod", before, NAMESPACE)
    eventually(lambda: installation.leader() != before, LIMIT, "another leader", pause=0.05)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.behaviour("operations/OP143")
def test_all_plugins_need_all_their_rights_and_no_others(
    installation: Installation, requests: list[dict[str, Any]]
) -> None:
    assert forbidden(requests) == []
    assert {request["user"]["username"] for request in requests} == {f"system:serviceaccount:{NAMESPACE}:ctrlhost"}
    delegator = installation.client.get("rbac.authorization.k8s.io/v1", "ClusterRole", "system:auth-delegator")
    rights = granted(installation.manifests, [delegator])
    used = {right for right in rights if any(right.allows(request) for request in requests)}
    # One watch of all namespaces also serves a plugin that needs only one of them.
    used |= {right for right in rights if right.everywhere in used}
    unused = {right.short for right in rights - used if right.verb != "list"}
    # An apply that creates needs both; the audit shows it as a patch.
    unused -= {(*right.short[:2], "create") for right in used if right.verb == "patch"}
    assert unused - FALLBACKS.keys() == set()
    assert FALLBACKS.keys() <= {right.short for right in rights}
