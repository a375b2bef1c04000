"""Objects of the specification's examples, and the pieces that most tests need."""

from __future__ import annotations

import copy
import json
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import ctrlhost
import ctrlhost_hostname
import pytest
import urllib3
from ctrlhost_hostname.bech32 import encode_address
from ctrlhost_hostname.crds import crds
from ctrlhost_hostname.ingress import IngressRoutes
from ctrlhost_hostname.lease import LeaseID
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS
from ctrlhost_hostname.routes import Directive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing import HostUnderTest, ManualClock
    from ctrlhost_hostname.state import OperatorState

PROVIDER = encode_address("akash", bytes(range(101, 121)))
OWNER = encode_address("akash", bytes(range(1, 21)))
OTHER_OWNER = encode_address("akash", bytes(range(41, 61)))


class Objects:
    """Builds leases, ProviderHosts and Manifests; the first two leases have one owner, the third another."""

    namespace = "lease"
    provider = PROVIDER
    owner = OWNER
    first = LeaseID(OWNER, 7001, 1, 1, PROVIDER)
    second = LeaseID(OWNER, 7002, 1, 1, PROVIDER)
    third = LeaseID(OTHER_OWNER, 9100, 2, 3, PROVIDER)

    @staticmethod
    def lease(dseq: int, owner: str = OWNER) -> LeaseID:
        return LeaseID(owner, dseq, 1, 1, PROVIDER)

    @classmethod
    def provider_host(
        cls,
        hostname: str,
        lease: LeaseID,
        *,
        service: str = "web",
        port: int = 80,
        name: str | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        fields = {
            "hostname": hostname,
            "owner": lease.owner,
            "provider": lease.provider,
            "dseq": lease.dseq,
            "gseq": lease.gseq,
            "oseq": lease.oseq,
            "service_name": service,
            "external_port": port,
        }
        return {
            "apiVersion": "akash.network/v2beta2",
            "kind": "ProviderHost",
            "metadata": {
                "name": name or hostname,
                "namespace": cls.namespace,
                "labels": dict(lease.labels),
                "annotations": annotations or {},
            },
            "spec": {**fields, **spec},
        }

    @classmethod
    def manifest(cls, lease: LeaseID, services: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        return {
            "apiVersion": "akash.network/v2beta2",
            "kind": "Manifest",
            "metadata": {
                "name": lease.namespace,
                "namespace": cls.namespace,
                "labels": {"akash.network": "true", "akash.network/namespace": lease.namespace},
            },
            "spec": {
                "lease_id": {
                    "owner": lease.owner,
                    "dseq": str(lease.dseq),
                    "gseq": lease.gseq,
                    "oseq": lease.oseq,
                    "provider": lease.provider,
                },
                "group": {"name": "main", "services": copy.deepcopy(services or cls.web_services())},
            },
        }

    @staticmethod
    def web_services(options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """A private database and a web service with a private and a global port."""
        return [
            {"name": "db", "image": "postgres:16", "count": 1, "expose": [{"port": 5432, "service": "web"}]},
            {
                "name": "web",
                "image": "nginx:1.27",
                "count": 2,
                "expose": [
                    {"port": 9100, "proto": "TCP"},
                    {
                        "port": 8080,
                        "external_port": 80,
                        "proto": "TCP",
                        "global": True,
                        "hosts": ["shop.example.com"],
                        "http_options": options or {},
                    },
                ],
            },
        ]

    @staticmethod
    def service(*expose: dict[str, Any], name: str = "web", count: int = 1) -> dict[str, Any]:
        return {"name": name, "count": count, "expose": list(expose)}

    @staticmethod
    def api_and_worker() -> list[dict[str, Any]]:
        """The services of the examples B and C."""
        api = {
            "max_body_size": 2097152,
            "read_timeout": 1500,
            "send_timeout": 60001,
            "next_tries": 5,
            "next_timeout": 0,
            "next_cases": ["error", "timeout", "500", "502", "429"],
        }
        worker = {
            "max_body_size": 104857600,
            "read_timeout": 60000,
            "send_timeout": 30000,
            "next_tries": 3,
            "next_timeout": 1,
            "next_cases": ["off"],
        }
        return [
            {
                "name": "api",
                "count": 1,
                "expose": [{"port": 3000, "external_port": 80, "proto": "TCP", "global": True, "http_options": api}],
            },
            {
                "name": "worker",
                "count": 1,
                "expose": [{"port": 8081, "proto": "TCP", "global": True, "http_options": worker}],
            },
        ]

    @staticmethod
    def route(hostname: str, lease: LeaseID, service: str = "web", port: int = 80) -> dict[str, Any]:
        """The Ingress of a hostname as the plugin would write it."""
        return IngressRoutes().build(Directive(hostname, lease, service, port, DEFAULT_HTTP_OPTIONS))

    @staticmethod
    def http_route_crd() -> dict[str, Any]:
        """As much of the Gateway API's CRD as matters here: the defaults that the server fills in."""
        backend = {
            "type": "object",
            "properties": {
                "group": {"type": "string", "default": ""},
                "kind": {"type": "string", "default": "Service"},
                "name": {"type": "string"},
                "port": {"type": "integer"},
                "weight": {"type": "integer", "default": 1},
            },
        }
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        rule = {
            "type": "object",
            "properties": {
                "matches": {"type": "array", "items": anything},
                "backendRefs": {"type": "array", "items": backend},
                "timeouts": anything,
            },
        }
        spec = {
            "type": "object",
            "properties": {
                "parentRefs": {"type": "array", "items": anything},
                "hostnames": {"type": "array", "items": {"type": "string"}},
                "rules": {"type": "array", "items": rule},
            },
        }
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": anything}}},
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "httproutes.gateway.networking.k8s.io",
                "annotations": {
                    "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/3328"
                },
            },
            "spec": {
                "group": "gateway.networking.k8s.io",
                "scope": "Namespaced",
                "names": {
                    "plural": "httproutes",
                    "singular": "httproute",
                    "kind": "HTTPRoute",
                    "listKind": "HTTPRouteList",
                },
                "versions": [version],
            },
        }


@pytest.fixture
def objects() -> type[Objects]:
    """The builders of example objects."""
    return Objects


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock that everything in a test runs on."""
    return manual_clock


CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}
INGRESS = ("networking.k8s.io/v1", "Ingress")
HTTP_ROUTE = ("gateway.networking.k8s.io/v1", "HTTPRoute")


class World:
    """A sandbox with the plugin's CRDs, and a host with the plugin on it once `start` was called."""

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
        for crd in CRDS.values():
            self.client.create(crd)

    def start(self, **settings: Any) -> World:
        """Start the host, or another one after `stop`; settings are named with underscores."""
        given = {key.replace("_", "-"): value for key, value in settings.items()}
        table = {"rest-address": "127.0.0.1", "rest-port": self._port, **given}
        self.host = self._start_host(
            ctrlhost_hostname, clock=self.clock, sandbox=self.server, settings={"ctrlhost_hostname": table}
        )
        self.idle()
        return self

    def stop(self) -> None:
        assert self.host.stop()

    def idle(self) -> None:
        self.host.run_until_idle()

    def after(self, seconds: float) -> None:
        """Let so much time pass, and what is due then happen."""
        self.clock.advance(seconds)
        self.idle()

    @property
    def state(self) -> OperatorState:
        """What the plugin of the running host remembers."""
        (runtime,) = self.host.host.plugins
        state: OperatorState = runtime.context.state[0]
        return state

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
        """Make a lease as the provider does: its namespace and its Manifest."""
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
        """Give a ProviderHost to another lease, labels and all."""
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
        """Give the namespace and the name of every route there is."""
        found = [route for namespace in self._namespaces for route in self.client.list(*kind, namespace)]
        return {(route["metadata"]["namespace"], route["metadata"]["name"]) for route in found}

    def edit_route(self, hostname: str, lease: LeaseID, patch: Any, **how: Any) -> None:
        self.client.patch(*INGRESS, hostname, lease.namespace, patch, **how)

    def revision(self, kind: tuple[str, str] = INGRESS) -> int:
        """Give a number that every write to this kind raises."""
        return self.server.revision(*kind)

    def metric(self, name: str, **labels: str) -> float:
        (runtime,) = self.host.host.plugins
        return runtime.context.metrics.get_sample_value(name, labels) or 0.0

    def get(self, path: str, method: str = "GET") -> urllib3.BaseHTTPResponse:
        return urllib3.request(method, self.base_url + path, timeout=10.0, retries=False)

    def page(self, path: str) -> Any:
        """Refresh the pages as the timer does, and give what one shows; None where it has no data."""
        self.state.pages.refresh()
        answer = self.get(path)
        return json.loads(answer.data) if answer.status == 200 else None

    def managed(self) -> dict[str, Any]:
        return self.page("/managed-hostnames") or {}

    def ignored(self) -> dict[str, Any]:
        return self.page("/ignore-list") or {}


class History:
    """The routes that appeared and vanished, in the order in which the server says so."""

    def __init__(self, world: World, kind: tuple[str, str] = INGRESS) -> None:
        self.entries: list[tuple[str, str]] = []
        self._world = world
        self._kind = kind
        self._factory = ctrlhost.InformerFactory(world.client)
        self._informer = self._factory.informer(*kind)
        self._informer.add_handler(
            on_add=lambda obj, initial: self.entries.append(("add", obj.namespace)),
            on_update=lambda old, new: self.entries.append(("update", new.namespace)),
            on_delete=lambda obj: self.entries.append(("delete", getattr(obj, "object", obj).namespace)),
        )
        self._factory.start()
        assert self._factory.wait_for_sync(10)

    def wait_for(self, entries: list[tuple[str, str]]) -> None:
        self._world.host.wait_for(lambda: len(self.entries) >= len(entries))
        assert self.entries == entries

    def stop(self) -> None:
        self._factory.stop()


@pytest.fixture
def world(ctrlhost_host: Any, sandbox: Sandbox, clock: ManualClock) -> Iterator[World]:
    """A sandbox and, once started, a host with the plugin; both end with the test."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    world = World(sandbox, ctrlhost_host, clock, port)
    yield world
    world.client.close()


@pytest.fixture
def history(world: World) -> Iterator[Callable[..., History]]:
    """Begin to record what happens to the routes."""
    with ExitStack() as stack:

        def record(kind: tuple[str, str] = INGRESS) -> History:
            recording = History(world, kind)
            stack.callback(recording.stop)
            return recording

        yield record
