"""A sandbox with Ingresses and Services, hosts with the plugin, and a record of their requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from ctrlhost.clock import SystemClock
from ctrlhost.coordination.term import Candidacy, Tenure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.testing import HostUnderTest, ManualClock

INGRESS = ("networking.k8s.io/v1", "Ingress")
LEGACY = "kubernetes.io/ingress.class"
A, B, C = [{"ip": "203.0.113.1"}], [{"ip": "203.0.113.2"}], [{"hostname": "lb-3.example.net"}]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of a host."""

    method: str
    path: str
    query: dict[str, Any]
    body: Any
    content_type: str

    @property
    def name(self) -> str:
        parts = self.path.partition("?")[0].split("/")
        return parts[parts.index("ingresses") + 1] if "ingresses" in parts[:-1] else ""


class Replica:
    """One host with the plugin."""

    def __init__(self, host: HostUnderTest, leads: bool) -> None:
        self.host = host
        self.sent: list[Sent] = []
        # The test decides who leads, in place of the elector.
        self._tenure = Tenure(SystemClock())
        self.leads = leads
        candidacy = Candidacy(self._tenure, elects=True)
        services_of: Any = lambda _runtime, services: replace(services, candidacy=candidacy)  # noqa: E731
        host.host._services_of = services_of
        self.at_write: Any = None
        transport: Any = host.host.client.transport
        steps, open_, open_async = transport.steps, transport.open, transport.open_async

        def sent(request: Any) -> Any:
            content = json.loads(request.body) if request.body else None
            kind = request.headers.get("Content-Type", "")
            self.sent.append(Sent(request.method, request.path, dict(request.query or {}), content, kind))
            if self.at_write is not None and request.method in ("PATCH", "PUT"):
                self.at_write()
            return steps(request)

        def opened(request: Any, through: Any) -> Any:
            self.sent.append(Sent("STREAM", request.path, dict(request.query or {}), None, ""))
            return through(request)

        transport.steps = sent
        transport.open = lambda request: opened(request, open_)
        transport.open_async = lambda request: opened(request, open_async)
        host.start()

    @property
    def leads(self) -> bool:
        return self._tenure.term is not None

    @leads.setter
    def leads(self, leads: bool) -> None:
        if leads and not self.leads:
            self._tenure.begin(float("inf"))
        elif not leads:
            self._tenure.end()

    @property
    def plugin(self) -> Any:
        (runtime,) = self.host.host.plugins
        assert runtime.context is not None, runtime
        return runtime.context.state

    def writes(self, name: str | None = None) -> list[Sent]:
        """Return the writes to statuses of Ingresses, oldest first."""
        sent = [
            request for request in self.sent if request.method in ("PATCH", "PUT") and "/ingresses/" in request.path
        ]
        return [request for request in sent if name is None or request.name == name]

    def written(self) -> list[Any]:
        """Return the addresses in the bodies of the writes."""
        return [write.body["status"]["loadBalancer"].get("ingress") for write in self.writes()]

    def forget(self) -> None:
        self.sent.clear()

    def metric(self, name: str, **labels: str) -> float:
        (runtime,) = self.host.host.plugins
        if "update" in name:
            labels = {"kind": "Ingress", **labels}
        value = runtime.context.metrics.get_sample_value(name, labels)
        assert value is not None, name
        return value

    def elect(self, leads: bool = True) -> None:
        """Win or lose leadership, and wait for the plugin's hook."""
        self.leads = leads
        self.host.wait_for(lambda: self.plugin.desired.elected is leads)

    def runs(self, controller: str = "ingress-status") -> int:
        return self.host.controllers[f"ingress-status/{controller}"].status().runs


class Cluster:
    """The cluster as its users see it."""

    def __init__(self, server: Sandbox, start_host: Any, clock: ManualClock) -> None:
        self.server, self.clock = server, clock
        self.client = ctrlhost.Client.load(server.kubeconfig)
        self.replicas: list[Replica] = []
        self._start_host = start_host
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "projectcontour"}})

    def start(self, *, settle: bool = True, leads: bool = True, **settings: Any) -> Replica:
        """Start a host; settings have underscores, and writes no limit by default."""
        table = {"status-qps": 0, **{name.replace("_", "-"): value for name, value in settings.items()}}
        host = self._start_host(
            "ingress-status", clock=self.clock, sandbox=self.server, settings={"ingress-status": table}, start=False
        )
        replica = Replica(host, leads)
        self.replicas.append(replica)
        if settle:
            replica.host.wait_for(lambda: replica.plugin.desired.elected is leads)
            self.idle()
        return replica

    def idle(self) -> None:
        """Wait until all replicas are idle, including work caused by each other's writes."""
        before = -1
        while before != (newest := self._newest()):
            before = newest
            for replica in self.replicas:
                replica.host.run_until_idle()

    def _newest(self) -> int:
        kinds = (("networking.k8s.io/v1", "Ingress"), ("events.k8s.io/v1", "Event"))
        return max(self.server.revision(*kind) for kind in kinds)

    def after(self, seconds: float, step: float | None = None) -> None:
        """Advance the clock, in steps if they matter."""
        left = seconds
        while left > 0:
            self.clock.advance(min(step or seconds, left))
            left -= step or seconds
            self.idle()

    def service(self, addresses: Any, *, name: str = "envoy", namespace: str = "projectcontour", **spec: Any) -> None:
        """Create a Service, or change its addresses."""
        if self.client.find("v1", "Service", name, namespace) is None:
            kind = {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}
            metadata = {"name": name, "namespace": namespace}
            self.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": kind})
        if addresses is not None:
            status = {"status": {"loadBalancer": {"ingress": addresses or None}}}
            self.client.patch("v1", "Service", name, namespace, status, subresource="status")

    def unserve(self) -> None:
        self.client.delete("v1", "Service", "envoy", "projectcontour")

    def ingress(self, name: str, *, annotation: str | None = None, field: str | None = None, status: Any = None) -> Any:
        metadata: dict[str, Any] = {"name": name, "namespace": "default"}
        if annotation is not None:
            metadata["annotations"] = {LEGACY: annotation}
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        spec = {"defaultBackend": backend, **({"ingressClassName": field} if field is not None else {})}
        ingress = self.client.create({"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": metadata, "spec": spec})
        return self.edit_status(name, status) if status else ingress

    def edit(self, name: str, **patch: Any) -> Any:
        return self.client.patch(*INGRESS, name, "default", patch)

    def edit_status(self, name: str, addresses: Any) -> Any:
        patch = {"status": {"loadBalancer": {"ingress": addresses}}}
        return self.client.patch(*INGRESS, name, "default", patch, subresource="status")

    def status(self, name: str) -> Any:
        ingress = self.client.get(*INGRESS, name, "default")
        return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress")


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock of everything in a test."""
    return manual_clock


@pytest.fixture
def cluster(ctrlhost_host: Any, sandbox: Sandbox, clock: ManualClock) -> Iterator[Cluster]:
    """A sandbox and the hosts started on it; all stop with the test."""
    cluster = Cluster(sandbox, ctrlhost_host, clock)
    yield cluster
    cluster.client.close()
