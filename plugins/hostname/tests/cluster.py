"""A sandbox and a host with the plugin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import urllib3
from ctrlhost_hostname import plugin

import ctrlhost
from plugins.hostname.tests.objects import Objects
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_hostname.lease import LeaseID
    from ctrlhost_hostname.state import OperatorState
    from ctrlhost_sandbox import Sandbox

    from ctrlhost.testing import FaultProxy, HostUnderTest, ManualClock

INGRESS = ("networking.k8s.io/v1", "Ingress")


def _served(client: ctrlhost.Client, kind: tuple[str, str]) -> bool:
    try:
        list(client.list(*kind, Objects.namespace))
    except ctrlhost.NotFound:
        return False
    return True


class Cluster:
    """A sandbox with the plugin's CRDs and, after `start`, a host with the plugin."""

    def __init__(self, server: Sandbox, start_host: Any, clock: ManualClock, port: int) -> None:
        self.server = server
        self.clock = clock
        self.client = ctrlhost.Client.load(server.kubeconfig)
        self.base_url = f"http://127.0.0.1:{port}"
        self.host: HostUnderTest = None  # type: ignore[assignment]
        self._start_host = start_host
        self._port = port
        self._namespaces: set[str] = set()
        self.namespace(Objects.namespace)
        for crd in plugin.ctrlhost_crds():
            self.install(crd)

    def start(self, *, through: FaultProxy | None = None, **settings: Any) -> Cluster:
        """Start the host, or another one after `stop`; settings are named with underscores.

        `through` is a proxy for the host's requests.
        """
        options = {key.replace("_", "-"): value for key, value in settings.items()}
        table = {"rest-address": "127.0.0.1", "rest-port": self._port, **options}
        self.host = self._start_host(
            plugin, clock=self.clock, sandbox=self.server, through=through, settings={"hostname": table}
        )
        self.idle()
        return self

    def stop(self) -> None:
        assert self.host.stop()

    def idle(self) -> None:
        self.host.run_until_idle()

    def after(self, seconds: float) -> None:
        """Advance the clock, and wait until the host is idle."""
        self.clock.advance(seconds)
        self.idle()

    def tick(self, seconds: float, condition: Callable[[], Any]) -> None:
        """Advance the clock repeatedly until the condition is true."""

        def step() -> Any:
            self.clock.advance(seconds)
            return condition()

        eventually(step, pause=0.01)

    @property
    def state(self) -> OperatorState:
        """The state of the plugin in the running host."""
        (runtime,) = self.host.host.plugins
        state: OperatorState = runtime.context.state
        return state

    def install(self, crd: dict[str, Any]) -> None:
        """Create a CRD and wait until its objects are served."""
        self.client.create(crd)
        spec = crd["spec"]
        eventually(
            lambda: _served(self.client, (f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]))
        )

    def namespace(self, name: str) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def create(self, *things: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = {}
        for thing in things:
            created = self.client.create(thing)
        return created

    def lease(self, lease: LeaseID, services: list[dict[str, Any]] | None = None) -> None:
        """Create a lease like the provider does: its namespace and its Manifest."""
        self.namespace(lease.namespace)
        self.create(Objects.manifest(lease, services))

    def declare(self, hostname: str, lease: LeaseID, **spec: Any) -> None:
        self.create(Objects.provider_host(hostname, lease, **spec))

    def change_host(self, name: str, **spec: Any) -> None:
        self._patch("ProviderHost", name, {"spec": spec})

    def touch(self, name: str, text: str) -> None:
        """Change an annotation of a ProviderHost and nothing else."""
        self._patch("ProviderHost", name, {"metadata": {"annotations": {"touched": text}}})

    def move(self, name: str, lease: LeaseID, **spec: Any) -> None:
        """Move a ProviderHost to another lease, including its labels."""
        parts = {key: value for key, value in lease.as_json().items() if key != "bseq"}
        self._patch("ProviderHost", name, {"metadata": {"labels": lease.labels}, "spec": {**parts, **spec}})

    def release(self, name: str) -> None:
        self.client.delete("akash.network/v2beta2", "ProviderHost", name, Objects.namespace)

    def change_manifest(self, lease: LeaseID, services: list[dict[str, Any]]) -> None:
        self._patch("Manifest", lease.namespace, {"spec": {"group": {"services": services}}})

    def _patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        self.client.patch("akash.network/v2beta2", kind, name, Objects.namespace, patch)

    def route(self, hostname: str, lease: LeaseID, kind: tuple[str, str] = INGRESS) -> dict[str, Any] | None:
        return self.client.find(*kind, hostname, lease.namespace)

    def routes(self, kind: tuple[str, str] = INGRESS) -> set[tuple[str, str]]:
        """Return the namespace and the name of every route."""
        routes = [route for namespace in self._namespaces for route in self.client.list(*kind, namespace)]
        return {(route["metadata"]["namespace"], route["metadata"]["name"]) for route in routes}

    def edit_route(self, hostname: str, lease: LeaseID, patch: Any, **how: Any) -> None:
        self.client.patch(*INGRESS, hostname, lease.namespace, patch, **how)

    def revision(self, kind: tuple[str, str] = INGRESS) -> int:
        """Return a number that every write to this kind increases."""
        return self.server.revision(*kind)

    def metric(self, name: str, **labels: str) -> float:
        (runtime,) = self.host.host.plugins
        return runtime.context.metrics.get_sample_value(name, labels) or 0.0

    def get(self, path: str, method: str = "GET") -> urllib3.BaseHTTPResponse:
        return urllib3.request(method, self.base_url + path, timeout=10.0, retries=False)

    def page(self, path: str) -> Any:
        """Refresh the pages like the timer does, and return the content of one; None without data."""
        self.state.pages.refresh()
        answer = self.get(path)
        return json.loads(answer.data) if answer.status == 200 else None

    def managed(self) -> dict[str, Any]:
        return self.page("/managed-hostnames") or {}

    def ignored(self) -> dict[str, Any]:
        return self.page("/ignore-list") or {}


class History:
    """Records added, updated and deleted routes, in the server's order."""

    def __init__(self, cluster: Cluster, kind: tuple[str, str] = INGRESS) -> None:
        self.entries: list[tuple[str, str]] = []
        self._cluster = cluster
        self._kind = kind
        self._factory = ctrlhost.InformerFactory(cluster.client)
        self._informer = self._factory.informer(*kind)
        self._informer.add_handler(
            on_add=lambda obj, initial: self.entries.append(("add", obj.namespace)),
            on_update=lambda old, new: self.entries.append(("update", new.namespace)),
            on_delete=lambda obj: self.entries.append(("delete", getattr(obj, "object", obj).namespace)),
        )
        self._factory.start()
        assert self._factory.wait_for_sync(10)

    def wait_for(self, entries: list[tuple[str, str]]) -> None:
        self._cluster.host.wait_for(lambda: len(self.entries) >= len(entries))
        assert self.entries == entries

    def stop(self) -> None:
        self._factory.stop()
