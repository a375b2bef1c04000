"""A toy kubelet: turns the pods of one namespace into daemons on loopback addresses.

A StatefulSet controller or a test creates the pods. The kubelet places them on a node that does not exist, so that a
deletion leaves them terminating until their process has ended, as on a real one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

from ctrlhost_bitcoin.rpc.client import RpcClient

import ctrlhost
from ctrlhost.cache import DeletedFinalStateUnknown
from examples.bitcoind.pod import ToyPod

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from examples.bitcoind.daemon import Addresses
    from examples.bitcoind.process import Starter


_LIMIT = 30.0


class ToyKubelet:
    """Runs until the end of the block, and ends all its processes. Attributes may be set at any time."""

    pod_type: type[ToyPod] = ToyPod

    def __init__(self, client: ctrlhost.Client, namespace: str, start: Starter, addresses: Addresses) -> None:
        """Watch the pods of `namespace`; `start` starts their processes, each at one of `addresses`."""
        self.client, self.namespace = client, namespace
        self.start_process, self.addresses = start, addresses
        self.password: str | None = None
        """The password of the daemons, in place of that in their environment."""
        self.next_address: str | None = None
        """The address of the pod that starts next."""
        self.rpc = RpcClient(timeout=1.0)
        self.errors: list[BaseException] = []
        self._pods: dict[str, ToyPod] = {}
        self._lock = threading.Lock()
        self._stopping = False
        self._factory = ctrlhost.InformerFactory(client)

    def pod(self, name: str) -> ToyPod:
        """Wait for the newest pod of a name with a process, and return it. TimeoutError after 30 s."""
        deadline = time.monotonic() + _LIMIT
        while time.monotonic() < deadline:
            with self._lock:
                running = [pod for pod in self._pods.values() if pod.name == name and pod.runs]
            if running:
                return running[-1]
            time.sleep(0.01)
        raise TimeoutError(f"no process of {name} within {_LIMIT:g} s")

    def pods(self) -> dict[str, ToyPod]:
        """Return the pods that have a process, by name."""
        with self._lock:
            return {pod.name: pod for pod in self._pods.values() if pod.runs}

    def __enter__(self) -> Self:
        """Start to watch."""
        informer = self._factory.informer("v1", "Pod", namespaces=[self.namespace])
        informer.add_handler(
            on_add=lambda pod, _: self._see(pod), on_update=lambda _, pod: self._see(pod), on_delete=self._lose
        )
        self._factory.start()
        assert self._factory.wait_for_sync(_LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes, and fail with the errors of the pods' threads."""
        self._factory.stop()
        with self._lock:
            self._stopping = True
            pods = list(self._pods.values())
        for pod in pods:
            pod.abandon()
        for pod in pods:
            pod.join()
        self.rpc.close()
        assert not self.errors, self.errors

    def _see(self, pod: Object) -> None:
        with self._lock:
            known = self._pods.get(pod.uid)
            if known is None and not self._stopping:
                known = self._pods[pod.uid] = self.pod_type(self, pod)
                known.start()
        if known is not None:
            known.see(pod)

    def _lose(self, pod: Any) -> None:
        obj = pod.object if isinstance(pod, DeletedFinalStateUnknown) else pod
        with self._lock:
            lost = None if obj is None else self._pods.get(obj.uid)
        if lost is not None:
            lost.abandon()

    def forget(self, pod: ToyPod) -> None:
        """Remove a pod that has ended; called by the pod."""
        with self._lock:
            self._pods.pop(pod.uid, None)
