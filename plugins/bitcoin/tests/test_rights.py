"""The rights that `ctrlhost manifests` prints for the plugin: exactly those that it uses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import ctrlhost_bitcoin
import pytest
from ctrlhost_bitcoin import ctrlhost_crds as crds
from ctrlhost_bitcoin.objects.names import API_VERSION, GROUP, KIND
from ctrlhost_bitcoin.rpc.client import RpcClient
from ctrlhost_bitcoin.testing.daemon import FakeDaemon, FakeHttp
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from ctrlhost.manifests.loading import load_plugins
from ctrlhost.manifests.rbac import collect_permissions, roles
from ctrlhost.testing.faults import Faults, FaultyTransport
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

NET = (API_VERSION, KIND)
ACCOUNT = "bitcoin-controller"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: What the host itself does for its plugins: it watches CRDs, and records events in more ways than these.
_HOSTS_OWN = {("apiextensions.k8s.io", "customresourcedefinitions"), ("events.k8s.io", "events")}
Right = tuple[str, str, str]


@pytest.fixture
def server() -> Iterator[Sandbox]:
    """A sandbox that enforces RBAC."""
    with Sandbox(rbac=True) as server:
        yield server


def right(method: str, path: str, *, watches: bool = False) -> Right | None:
    """Return group, resource and verb of a request; None if it is about no resource."""
    parts = path.partition("?")[0].strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:]) if len(parts) > 2 else ("", [])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return None
    reads = "watch" if watches else "get" if len(rest) > 1 else "list"
    return group, "/".join([rest[0], *rest[2:]]), _VERBS.get(method, reads)


class Recorded(FaultyTransport):
    """A transport that records the rights that its requests need."""

    def __init__(self, transport: Any, faults: Faults) -> None:
        super().__init__(transport, faults)
        self.used: set[Right | None] = set()

    def steps(self, request: Any) -> Any:
        self.used.add(right(request.method, request.path))
        return super().steps(request)

    def open(self, request: Any) -> Any:
        self.used.add(right("GET", request.path, watches=bool((request.query or {}).get("watch"))))
        return super().open(request)


def granted(client: ctrlhost.Client, permissions: list[ctrlhost.Permission]) -> None:
    """Grant an account the rights in the manifests."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": "default"}}
    for made in (account, *roles(ACCOUNT, "default", permissions)):
        client.create(made)


@pytest.mark.behaviour("bitcoin/B42")
def test_the_printed_rights_are_what_the_plugin_uses(server: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    http = FakeHttp(FakeDaemon("10.0.0.1"), FakeDaemon("10.0.0.2"))
    monkeypatch.setattr("ctrlhost_bitcoin.rpc.client.RpcClient", partial(RpcClient, http=http))
    admin = ctrlhost.Client.load(server.kubeconfig)
    for crd in crds():
        admin.apply(crd, field_manager="test")

    configuration = Configuration({"host": {"listen": ""}, "plugins": {}, "controllers": {}}, "")
    permissions = collect_permissions(load_plugins([ctrlhost_bitcoin], configuration), configuration.host)
    granted(admin, permissions)

    faults = Faults()
    own = ctrlhost.Client.load(server.kubeconfig_for(service_account=f"default/{ACCOUNT}"))
    transport = Recorded(own.transport, faults)
    client = ctrlhost.Client.over(transport)
    running = Host(configuration.host, [ctrlhost_bitcoin], configuration=configuration, client=client)
    running.start()
    assert running.wait_ready(60), running.plugins

    metadata = {"name": "net", "namespace": "default"}
    secret = {"BC_RPC_USER": "user", "BC_RPC_PASSWORD": "password"}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {**metadata, "name": "rpc"}, "stringData": secret}
    admin.create(made)
    # Each write conflicts once, so that the live object is read again.
    for verb, resource in (("replace", "bitcoinnetworks"), ("replace", "statefulsets"), ("replace", "services")):
        faults.next(verb, ctrlhost.Conflict("somebody was faster"), resource=resource)
    admin.create({"apiVersion": NET[0], "kind": NET[1], "metadata": metadata, "spec": {"nodes": 2, "secret": "rpc"}})
    sts: Any = eventually(lambda: admin.find("apps/v1", "StatefulSet", "net-sts", "default"), 60)
    for ordinal in range(2):
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
        owner |= {"name": "net-sts", "uid": sts["metadata"]["uid"]}
        template = sts["spec"]["template"]
        about = {"name": f"net-sts-{ordinal}", "namespace": "default", "ownerReferences": [owner]}
        about |= {key: template["metadata"][key] for key in ("labels", "annotations")}
        pod = admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": template["spec"]})
        ready = {"type": "Ready", "status": "True"}
        pod["status"] = {"phase": "Running", "podIP": f"10.0.0.{ordinal + 1}", "conditions": [ready]}
        admin.replace(pod, "status")

    def condition() -> str:
        conditions = (admin.get(*NET, "net", "default").get("status") or {}).get("conditions") or ()
        return next((one["reason"] for one in conditions if one["type"] == "Ready"), "")

    eventually(lambda: condition() == "Ready", 60)
    admin.patch(*NET, "net", "default", {"spec": {"nodes": 3}})
    admin.patch("v1", "Service", "net-svc", "default", {"spec": {"publishNotReadyAddresses": False}})
    eventually(lambda: admin.get("apps/v1", "StatefulSet", "net-sts", "default")["spec"]["replicas"] == 3, 60)
    eventually(lambda: admin.get("v1", "Service", "net-svc", "default")["spec"].get("publishNotReadyAddresses"), 60)
    assert running.stop(60)

    printed = {(one.group, resource, verb) for one in permissions for resource in one.resources for verb in one.verbs}
    # Every account may ask what it may do.
    asked = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")
    used = {one for one in transport.used if one not in (None, asked)}
    assert used <= printed, used - printed
    # A watch needs `list` on servers that stream no lists.
    used |= {(group, resource, "list") for group, resource, verb in used if verb == "watch"}
    unused = {one for one in printed - used if one[:2] not in _HOSTS_OWN}
    # For owner references that block a deletion.
    assert unused == {(GROUP, "bitcoinnetworks/finalizers", "update")}
    assert not any(verb.startswith("delete") for _, _, verb in printed)
    own.close()
    admin.close()
