"""A cluster with networks, whose pods the test creates, and fake daemons at the pods' addresses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_bitcoin.model import API_VERSION, KIND
from ctrlhost_bitcoin.rpc.client import RpcClient

import ctrlhost
from examples.bitcoind.fake_daemon import FakeDaemon, FakeHttp
from tests.support.control_plane import BINARY

if TYPE_CHECKING:
    from ctrlhost_sandbox import Sandbox

    from ctrlhost.testing import HostUnderTest, ManualClock
    from ctrlhost.transport.interface import HttpRequest

NET = (API_VERSION, KIND)
STS, SVC, POD, SECRET = ("apps/v1", "StatefulSet"), ("v1", "Service"), ("v1", "Pod"), ("v1", "Secret")
NAME, SECRET_NAME = "unit-test-network", "unit-test-secret"
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_OF_HOST = ("/customresourcedefinitions", "/selfsubjectaccessreviews")


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of a host."""

    method: str
    path: str
    body: Any


class Replica:
    """One host with the plugin, and its requests."""

    def __init__(self, host: HostUnderTest) -> None:
        self.host = host
        self.sent: list[Sent] = []
        self._record(host.host.client.transport)

    def _record(self, transport: Any) -> Any:
        """Note the requests of a transport, and of those with connections of their own that it makes."""
        steps, separate = transport.steps, transport.separate

        def recorded(request: HttpRequest) -> Any:
            self.sent.append(Sent(request.method, request.path, json.loads(request.body) if request.body else None))
            return steps(request)

        transport.steps, transport.separate = recorded, lambda: self._record(separate())
        return transport

    @property
    def plugin(self) -> Any:
        return self._context.state

    @property
    def _context(self) -> Any:
        (runtime,) = (plugin for plugin in self.host.host.plugins if plugin.name == "bitcoin")
        assert runtime.context is not None, runtime
        return runtime.context

    def writes(self, *, events: bool = False) -> list[Sent]:
        """Return the writes of the plugin, oldest first; those of events only on request."""
        writes = [
            write for write in self.sent if write.method in _WRITES and not any(path in write.path for path in _OF_HOST)
        ]
        return [write for write in writes if events or "/events" not in write.path]

    def forget(self) -> None:
        self.sent.clear()

    def enqueue(self, name: str = NAME, namespace: str = "test") -> None:
        self.controller.queue.add(ctrlhost.Request(name, namespace))

    @property
    def controller(self) -> Any:
        return self.host.controllers["bitcoin/bitcoin"]

    def runs(self) -> int:
        runs: int = self.controller.status().runs
        return runs

    def metric(self, metric: str, **labels: str) -> float | None:
        value: float | None = self._context.metrics.get_sample_value(metric, labels)
        return value


class Cluster:
    """The cluster as its users see it, with namespace `test` and the secret of the fixture in it."""

    def __init__(self, server: Sandbox, start_host: Any, clock: ManualClock, monkeypatch: Any) -> None:
        self.server, self.clock, self.http = server, clock, FakeHttp()
        self.client = ctrlhost.Client.load(server.kubeconfig)
        self.replicas: list[Replica] = []
        #: Whether each action waits until the hosts are idle; once one runs.
        self.settles = False
        self._start_host = start_host
        monkeypatch.setattr("ctrlhost_bitcoin.parts.RpcClient", partial(RpcClient, http=self.http))
        self.namespace("test")
        self.secret(SECRET_NAME)

    def start(
        self, *, settle: bool = True, also: tuple[str, ...] = (), dry_run: bool = False, **settings: Any
    ) -> Replica:
        """Start a host, `also` with other plugins; settings have underscores."""
        table = {name.replace("_", "-"): value for name, value in settings.items()}
        host = self._start_host(
            "bitcoin",
            *also,
            clock=self.clock,
            sandbox=self.server,
            settings={"bitcoin": table},
            start=False,
            dry_run=dry_run,
        )
        replica = Replica(host)
        self.replicas.append(replica)
        if settle:
            host.start()
            self.settles = True
            self.settle()
        return replica

    def idle(self) -> None:
        for replica in self.replicas:
            replica.host.run_until_idle()

    def settle(self) -> None:
        """Wait until the hosts are idle, unless a test wants to see them busy."""
        if self.settles:
            self.idle()

    def run(self) -> None:
        """Reconcile the network once more."""
        self.replicas[-1].enqueue()
        self.idle()

    def assert_rests(self) -> None:
        """Assert that another run writes nothing, not even an event."""
        replica = self.replicas[-1]
        replica.forget()
        runs = replica.runs()
        self.run()
        assert replica.runs() > runs
        assert replica.writes(events=True) == []

    def after(self, seconds: float, step: float | None = None) -> None:
        """Advance the clock, in steps if they matter."""
        left = seconds
        while left > 0:
            self.clock.advance(min(step or seconds, left))
            left -= step or seconds
            self.idle()

    def namespace(self, name: str) -> None:
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def secret(
        self, name: str, user: str | None = "user", password: str | None = "password", *, namespace: str = "test"
    ) -> Any:
        data = {"BC_RPC_USER": user, "BC_RPC_PASSWORD": password}
        text = {key: value for key, value in data.items() if value is not None}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
        return self.client.create({**secret, "stringData": text})

    def net(self, nodes: Any = 4, *, name: str = NAME, namespace: str = "test", **spec: Any) -> Any:
        spec = {"nodes": nodes, "secret": SECRET_NAME, **spec}
        wanted = {key: value for key, value in spec.items() if value is not None}
        metadata = {"name": name, "namespace": namespace}
        network = self.client.create({"apiVersion": NET[0], "kind": NET[1], "metadata": metadata, "spec": wanted})
        self.settle()
        return network

    def edit(self, name: str = NAME, **spec: Any) -> None:
        self.client.patch(*NET, name, "test", {"spec": spec})
        self.settle()

    def edit_secret(self, name: str = SECRET_NAME, **data: str) -> None:
        self.client.patch(*SECRET, name, "test", {"stringData": data or {"BC_RPC_PASSWORD": "new"}})
        self.settle()

    def daemon(self, ip: str, **options: Any) -> FakeDaemon:
        """Create a daemon at an address."""
        daemon = FakeDaemon(ip, **options)
        daemon.reaches = lambda node: node in self.http.daemons
        self.http.daemons[ip] = daemon
        return daemon

    def pod(
        self, ordinal: int, ip: str = "", *, name: str = NAME, ready: bool = True, namespace: str = "test", **more: Any
    ) -> None:
        """Create a pod like the StatefulSet controller and the kubelet."""
        sts = self.sts(name, namespace=namespace)
        template = sts["spec"]["template"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True, "blockOwnerDeletion": True}
        owner |= {"name": sts["metadata"]["name"], "uid": sts["metadata"]["uid"]}
        metadata = {
            "name": f"{sts['metadata']['name']}-{ordinal}",
            "namespace": namespace,
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"].get("annotations") or {},
            "ownerReferences": [owner],
            **more,
        }
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        self.set_pod(ordinal, ip, name=name, ready=ready, namespace=namespace)

    def set_pod(
        self,
        ordinal: int,
        ip: str | None = None,
        *,
        name: str = NAME,
        ready: bool | None = None,
        restarts: int | None = None,
        namespace: str = "test",
        **status: Any,
    ) -> None:
        """Write a pod's status like the kubelet."""
        patch: dict[str, Any] = {"phase": "Running", **status}
        if ip is not None:
            patch |= {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
        if ready is not None:
            patch["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
        if restarts is not None:
            container = {
                "name": f"{name}-sts-ctr",
                "image": "x",
                "imageID": "x",
                "ready": True,
                "restartCount": restarts,
            }
            patch["containerStatuses"] = [container]
        pod = f"{name}-sts-{ordinal}"
        self.client.patch(*POD, pod, namespace, {"status": patch}, subresource="status")
        self.settle()

    def pods(self, count: int, *, name: str = NAME, first: int = 0, **options: Any) -> list[FakeDaemon]:
        """Create so many ready pods with daemons from 10.0.0.1 on."""
        daemons = [self.daemon(f"10.0.0.{number + 1}", **options) for number in range(first, count)]
        for number in range(first, count):
            self.pod(number, f"10.0.0.{number + 1}", name=name)
        return daemons

    def delete_pod(self, ordinal: int, *, name: str = NAME) -> None:
        self.client.delete(*POD, f"{name}-sts-{ordinal}", "test", grace_period_seconds=0)
        self.settle()

    def sts(self, name: str = NAME, *, namespace: str = "test") -> Any:
        return self.client.get(*STS, f"{name}-sts", namespace)

    def svc(self, name: str = NAME) -> Any:
        return self.client.get(*SVC, f"{name}-svc", "test")

    def status(self, name: str = NAME, *, namespace: str = "test") -> Any:
        return self.client.get(*NET, name, namespace).get("status") or {}

    def condition(self, type_: str, name: str = NAME) -> tuple[str, str]:
        """Return status and reason of a condition; empty if it is missing."""
        for condition in self.status(name).get("conditions") or ():
            if condition["type"] == type_:
                return condition["status"], condition["reason"]
        return "", ""

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl in the namespace `test`."""
        installed = shutil.which("kubectl")
        if installed is None and not BINARY.exists():
            pytest.skip("no kubectl is on the PATH and none is built")
        command = [installed] if installed else [str(BINARY), "kubectl"]
        config = Path(self.server.kubeconfig)
        environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(config.parent)}
        return subprocess.run(
            [*command, "-n", "test", *arguments], capture_output=True, text=True, timeout=60, env=environment
        )

    def events(self, reason: str | None = None) -> list[Any]:
        """Return the events of our reconciler, of one reason or of all."""
        self.idle()
        events = self.replicas[-1].host.events("test")
        return [event for event in events if reason is None or event["reason"] == reason]

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events()]
