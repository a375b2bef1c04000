"""The API servers of the end-to-end tests: the sandbox, and a real kube-apiserver with etcd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import pytest
from ctrlhost_sandbox import Options, Sandbox

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

BINARY = Path(__file__).parents[1] / "go" / "bin" / "controlplane"
START_LIMIT = 120.0


#: The audit rule of the shared kube-apiserver: writes to Leases and ConfigMaps, with their bodies.
WRITES = {
    "level": "Request",
    "omitStages": ["RequestReceived"],
    "verbs": ["create", "update", "patch", "delete"],
    "resources": [
        {"group": "", "resources": ["configmaps"]},
        {"group": "coordination.k8s.io", "resources": ["leases"]},
    ],
}

#: Another one: reads of the ConfigMaps of one namespace.
IMPERSONATED = {
    "level": "Metadata",
    "omitStages": ["RequestReceived"],
    "verbs": ["get", "list", "watch"],
    "resources": [{"group": "", "resources": ["configmaps"]}],
    "namespaces": ["impersonated"],
}


@dataclass(frozen=True, slots=True)
class AuditedWrite:
    """A write in the audit log: the arrival of its request, in seconds since the epoch, and its status code."""

    at: float
    resource: str
    name: str
    code: int
    body: dict[str, Any]


class ControlPlane(Protocol):
    """An API server under test, and its administrator's client."""

    kind: str
    url: str
    kubeconfig: Path
    client: ctrlhost.Client

    def audited_writes(self, namespace: str) -> list[AuditedWrite]:
        """Return the writes to Leases and ConfigMaps of a namespace from the audit log, in order of arrival."""


class SandboxControlPlane:
    """The embedded API server, accessed through its socket."""

    kind = "sandbox"

    def __init__(self, directory: Path, *controllers: str, feature_gates: Mapping[str, bool] | None = None) -> None:
        self._sandbox = Sandbox(
            kubeconfig=directory / "kubeconfig",
            controllers=("gc", "namespace", *controllers),
            options=Options(feature_gates=feature_gates or {}),
        ).start()
        self.url = self._sandbox.url
        self.kubeconfig = Path(self._sandbox.kubeconfig)
        self.client = ctrlhost.Client.load(kubeconfig=str(self.kubeconfig))

    def audited_writes(self, namespace: str) -> list[AuditedWrite]:
        return sorted(
            (
                AuditedWrite(record.time, record.resource, record.name, record.code, json.loads(record.body or "{}"))
                for record in self._sandbox.audit
                if record.namespace == namespace and record.resource in ("configmaps", "leases")
            ),
            key=lambda write: write.at,
        )

    def stop(self) -> None:
        self._sandbox.stop()


class KubeApiserver:
    """kube-apiserver with an embedded etcd, in a process that a test may kill and restart on the same data."""

    kind = "kube-apiserver"

    def __init__(self, directory: Path, audit: Sequence[Mapping[str, Any]] = (), flags: Sequence[str] = ()) -> None:
        """Start a server on this directory; `audited` returns the requests that the policy rules `audit` match.

        `flags` are further flags of kube-apiserver.
        """
        self.directory = directory
        self._flags = flags
        if audit:
            directory.mkdir(parents=True, exist_ok=True)
            policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [*audit, {"level": "None"}]}
            (directory / "audit-policy.yaml").write_text(json.dumps(policy))
        self.url = ""
        self.kubeconfig = directory / "kubeconfig"
        self._process: subprocess.Popen[bytes] | None = None
        self._controllers: subprocess.Popen[bytes] | None = None
        self._guards: dict[int, subprocess.Popen[bytes]] = {}
        self.start()
        self.client = ctrlhost.Client.load(kubeconfig=str(self.kubeconfig))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        log = (self.directory / "log").open("ab")
        with log:
            command = [BINARY, "serve", self.directory, *self._flags]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        self._guard(self._process)
        timer = threading.Timer(START_LIMIT, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            tail = (self.directory / "log").read_text(errors="replace")[-2000:]
            pytest.fail(f"kube-apiserver did not start:\n{tail}")
        self.url = json.loads(line)["url"]

    def start_controllers(self) -> None:
        """Run kube-controller-manager beside it: garbage collection, namespaces, workloads."""
        if self._controllers is None:
            with (self.directory / "controllers.log").open("ab") as log:
                self._controllers = subprocess.Popen(
                    [BINARY, "controllers", self.directory], stdout=log, stderr=log, start_new_session=True
                )
            self._guard(self._controllers)

    def audited(self) -> list[dict[str, Any]]:
        """Return the audit log; it has each answered request that matches the policy."""
        log = self.directory / "audit.log"
        if not log.exists():
            return []
        # Text after the last newline is an incomplete line, of a request without an answer.
        *lines, _ = log.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines]

    def audited_writes(self, namespace: str) -> list[AuditedWrite]:
        return sorted(
            (
                AuditedWrite(
                    datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
                    event["objectRef"]["resource"],
                    event["objectRef"].get("name", ""),
                    event["responseStatus"]["code"],
                    event.get("requestObject", {}),
                )
                for event in self.audited()
                if event["objectRef"].get("namespace") == namespace
            ),
            key=lambda write: write.at,
        )

    def compact(self) -> None:
        """Expire every resource version before the newest one."""
        subprocess.run([BINARY, "compact", self.directory], check=True, timeout=60)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        # Its threads stop one after the other.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self._end(self._process)
        self._process = None

    def stop(self) -> None:
        self._end(self._controllers)
        self._controllers = None
        self.kill()

    def _guard(self, process: subprocess.Popen[bytes]) -> None:
        """Start a guard that kills the process when the tests end, even without a teardown."""
        command = ["/bin/sh", "-c", 'read -r _; kill -9 "$0"', str(process.pid)]
        self._guards[process.pid] = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def _end(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        # The guard first: after the server has ended, another process may get its id.
        with self._guards.pop(process.pid) as guard:
            guard.kill()
        process.kill()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def require_kube_apiserver() -> None:
    if not BINARY.exists():
        pytest.skip("the real control plane is not built; `make real-tools` builds it")
