"""One pod of the toy kubelet: its process and its status."""

from __future__ import annotations

import base64
import json
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.rpc.errors import RpcFailure

import ctrlhost

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from examples.bitcoind.kubelet import ToyKubelet
    from examples.bitcoind.process import Process

BACK_OFF = 1.0
"""Seconds from the end of a process to its next start."""
GRACE = 10.0
"""Seconds that a process has to end when its pod is deleted."""
_PERIOD = 0.1
_NODE = "toy-node"


class ToyPod:
    """A pod that is placed, started, probed every 100 ms, restarted when it ends, and ended when it is deleted.

    The controls may be used from any thread; everything else runs in the pod's own thread.
    """

    def __init__(self, kubelet: ToyKubelet, pod: Object) -> None:
        """Prepare a new pod; `start` runs it."""
        self.name, self.uid = pod.name, pod.uid
        self.frozen = False
        """Keeps the reported readiness unchanged."""
        self.stays_down = False
        """Prevents the restart of a process that ended."""
        self.address = ""
        self.restarts = 0
        self.ready = False
        self._daemon: Process | None = None
        self._kubelet, self._pod = kubelet, pod
        self._abandoned = False
        self._ended_at: float | None = None
        self._waits = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"toy pod {pod.name}", daemon=True)

    @property
    def daemon(self) -> Process:
        """The current process."""
        assert self._daemon is not None
        return self._daemon

    @property
    def runs(self) -> bool:
        """Whether a process runs."""
        return self._daemon is not None and self._daemon.runs

    def kill(self, *, stays_down: bool = False) -> None:
        """Kill the process, which restarts in place unless it stays down."""
        self.stays_down = stays_down
        self.daemon.kill()
        self._wake.set()

    def come_back(self) -> None:
        """Restart a process that stayed down."""
        self.stays_down = False
        self._wake.set()

    def hang(self) -> None:
        """Suspend the process; the pod keeps its readiness."""
        self.frozen = True
        self.daemon.hang()

    def resume(self) -> None:
        """Continue a suspended process."""
        self.daemon.resume()
        self.frozen = False

    def start(self) -> None:
        """Run the pod in a thread of its own."""
        self._thread.start()

    def see(self, pod: Object) -> None:
        """Update the pod's object."""
        self._pod = pod
        if pod.deletion_timestamp is not None:
            self._wake.set()

    def abandon(self) -> None:
        """End the process without a request to the server."""
        self._abandoned = True
        self._wake.set()

    def join(self) -> None:
        """Wait for the thread to end."""
        self._thread.join(30)

    @property
    def _terminating(self) -> bool:
        return self._pod.deletion_timestamp is not None

    def _run(self) -> None:
        try:
            self._place()
            while not self._abandoned and not self._terminating:
                self._step()
                self._wake.wait(_PERIOD)
                self._wake.clear()
            if self._terminating and not self._abandoned:
                self._terminate()
        except ctrlhost.NotFound:
            # Deleted without a grace period.
            pass
        except Exception as error:  # noqa: BLE001 - reported when the kubelet ends
            if not self._abandoned:
                self._kubelet.errors.append(error)
        finally:
            if self._daemon is not None:
                self._daemon.close()
            if self.address:
                self._kubelet.addresses.give_back(self.address)
            self._kubelet.forget(self)

    def _place(self) -> None:
        namespace = self._kubelet.namespace
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name}, "target": {"name": _NODE}}
        path = f"/api/v1/namespaces/{namespace}/pods/{self.name}/binding"
        headers = {"Content-Type": "application/json"}
        answer = self._kubelet.client.transport.request(
            "POST", path, body=json.dumps(binding).encode(), headers=headers
        )
        if answer.status == 404 or (answer.status == 403 and b"NamespaceTerminating" in answer.body):
            raise ctrlhost.NotFound(f"pod {self.name} is gone")
        assert answer.status in (201, 409), answer
        wanted, self._kubelet.next_address = self._kubelet.next_address, None
        self.address = self._kubelet.addresses.take(wanted)

    def _step(self) -> None:
        if self._daemon is None:
            self._start_process()
        elif not self._daemon.runs:
            if self._ended_at is None:
                self._ended_at = time.monotonic()
                self._daemon.close()
                self._report(ready=False)
            if not self.stays_down and time.monotonic() >= self._ended_at + BACK_OFF:
                self.restarts += 1
                self._start_process()
        elif not self.frozen:
            ready = self._probe()
            if ready is not self.ready:
                self._report(ready=ready)

    def _start_process(self) -> None:
        environment = self._environment()
        container = self._pod["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        if environment is None:
            if not self._waits:
                self._report(ready=False, waiting="CreateContainerConfigError")
            self._waits = True
            return
        self._daemon = self._kubelet.start_process(
            self.address,
            user=environment.get("BC_RPC_USER", "user"),
            password=self._kubelet.password or environment.get("BC_RPC_PASSWORD", "password"),
            rpc_port=ports["rpc"],
            p2p_port=ports["p2p"],
        )
        self._ended_at = None
        self._report(ready=False)

    def _environment(self) -> dict[str, str] | None:
        """Return the variables of `envFrom`; None if a required Secret is missing."""
        values: dict[str, str] = {}
        for source in self._pod["spec"]["containers"][0].get("envFrom") or ():
            reference = source["secretRef"]
            secret = self._kubelet.client.find("v1", "Secret", reference["name"], self._kubelet.namespace)
            if secret is None and not reference.get("optional"):
                return None
            for key, value in ((secret or {}).get("data") or {}).items():
                values[key] = base64.b64decode(value).decode()
        return values

    def _probe(self) -> bool:
        try:
            self._kubelet.rpc.call(self.daemon.target, "getnetworkinfo")
        except RpcFailure:
            return False
        return True

    def _terminate(self) -> None:
        if self._daemon is not None and self._daemon.runs:
            self._daemon.terminate()
            deadline = time.monotonic() + GRACE
            while self._daemon.runs and time.monotonic() < deadline and not self._abandoned:
                self._wake.wait(_PERIOD / 2)
                self._wake.clear()
        if self._daemon is not None:
            self._daemon.close()
        self._kubelet.client.delete(
            "v1", "Pod", self.name, self._kubelet.namespace, grace_period_seconds=0, preconditions={"uid": self.uid}
        )

    def _report(self, *, ready: bool, waiting: str = "") -> None:
        """Write the status; a frozen pod keeps its readiness."""
        if not self.frozen:
            self.ready = ready
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        truth = str(self.ready)
        container = self._pod["spec"]["containers"][0]
        state: dict[str, Any] = {"running": {"startedAt": now}}
        if waiting or self._ended_at is not None:
            state = {"waiting": {"reason": waiting or "CrashLoopBackOff"}}
        status = {
            "phase": "Pending" if waiting else "Running",
            "hostIP": "127.0.0.1",
            "hostIPs": [{"ip": "127.0.0.1"}],
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": now,
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": now}
                for kind, value in (
                    ("PodScheduled", "True"),
                    ("Initialized", "True"),
                    ("ContainersReady", truth),
                    ("Ready", truth),
                )
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": self.ready,
                    "started": self.ready,
                    "restartCount": self.restarts,
                    "containerID": f"toy://{self.uid}-{self.restarts}",
                    "state": state,
                }
            ],
        }
        self._kubelet.client.patch(
            "v1", "Pod", self.name, self._kubelet.namespace, {"status": status}, subresource="status"
        )
