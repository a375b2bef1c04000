"""One namespace with networks of real daemons, and hosts with the plugin, for the scenarios."""

from __future__ import annotations

import itertools
import logging
import os
import time
from typing import TYPE_CHECKING, Any

import ctrlhost_bitcoin
from ctrlhost_bitcoin import plugin
from ctrlhost_bitcoin.rpc.errors import RpcFailure

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from examples.bitcoind.daemon import P2P_PORT, RPC_PORT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.transport.interface import HttpRequest
    from examples.bitcoind.kubelet import ToyKubelet, ToyPod
    from tests.support.control_plane import ControlPlane

GROUP = "bitcoincontroller.christianb93.github.com"
NETWORK = (f"{GROUP}/v1", "BitcoinNetwork")
STATEFUL_SET = ("apps/v1", "StatefulSet")
SERVICE = ("v1", "Service")
POD = ("v1", "Pod")
START_LIMIT = 30.0
SOAK = "CTRLHOST_BITCOIN_SOAK" in os.environ
"""Whether to use the plugin's own times, half a minute each, instead of shorter ones; set by `make soak`."""
SLACK = 4.0
"""The multiple of its time limit that a scenario may take, since the machine may be busy."""
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


log = logging.getLogger("tests.bitcoind")


class PluginHost:
    """A host with the plugin that records its writes."""

    def __init__(self, control_plane: ControlPlane, namespace: str, settings: dict[str, Any]) -> None:
        tree = {
            "host": {"listen": "", "namespaces": [namespace]},
            "plugins": {"bitcoin": {name.replace("_", "-"): value for name, value in settings.items()}},
            "controllers": {},
        }
        configuration = Configuration(tree, "")
        client = ctrlhost.Client.load(str(control_plane.kubeconfig))
        self.writes: list[tuple[str, str]] = []
        transport: Any = client.transport
        send = transport.send

        def recorded(request: HttpRequest) -> Any:
            if request.method in _WRITES:
                self.writes.append((request.method, request.path))
            return send(request)

        transport.send = recorded
        self._client = client
        self.host = Host(configuration.host, [ctrlhost_bitcoin], configuration=configuration, client=client)
        self.host.start()
        assert self.host.wait_ready(START_LIMIT), self.host.plugins

    def calls(self) -> dict[tuple[str, str], int]:
        """Return the number of calls to daemons so far, by method and outcome."""
        context = self.host.plugins[0].context
        assert context is not None
        return {
            (sample.labels["method"], sample.labels["outcome"]): int(sample.value)
            for family in context.metrics.collect()
            for sample in family.samples
            if sample.name == "ctrlhost_bitcoin_rpc_requests_total"
        }

    def stop(self) -> None:
        assert self.host.stop(20)
        self._client.close()


class Cluster:
    """The namespace as its users see it."""

    def __init__(self, control_plane: ControlPlane, namespace: str, kubelet: ToyKubelet) -> None:
        self.control_plane, self.namespace, self.kubelet = control_plane, namespace, kubelet
        self.client = control_plane.client
        self.hosts: list[PluginHost] = []
        for crd in plugin.ctrlhost_crds():
            self.client.apply(crd, field_manager="tests")
        eventually(self._is_served, 20, "the CRD to be served")

    def _is_served(self) -> bool:
        try:
            return not list(self.client.list(*NETWORK, self.namespace))
        except ctrlhost.ApiError:
            return False

    def start(self, **settings: Any) -> PluginHost:
        """Start a host; the plugin's settings have underscores."""
        self.hosts.append(PluginHost(self.control_plane, self.namespace, settings))
        return self.hosts[-1]

    def stop(self, host: PluginHost) -> None:
        self.hosts.remove(host)
        host.stop()

    def within(self, seconds: float, condition: Callable[[], Any], what: str) -> None:
        """Wait for a condition with a time limit in seconds, and log how long it took."""
        begun = time.monotonic()
        eventually(condition, seconds * SLACK, f"{what}")
        log.info("%s, %s: %.2f s", what, self.control_plane.kind, time.monotonic() - begun)

    # Actions of users.

    def secret(self, name: str, password: str = "pass", **more: str) -> None:
        """Create a Secret with credentials, or change its password."""
        if self.client.find("v1", "Secret", name, self.namespace) is not None:
            self.client.patch("v1", "Secret", name, self.namespace, {"stringData": {"BC_RPC_PASSWORD": password}})
            return
        data = {"BC_RPC_USER": "rpc-user", "BC_RPC_PASSWORD": password, **more}
        metadata = {"name": name, "namespace": self.namespace}
        self.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})

    def network(self, name: str, nodes: int, secret: str = "", **spec: Any) -> dict[str, Any]:
        """Create a network."""
        wanted = {"nodes": nodes, "rpcPort": RPC_PORT, "p2pPort": P2P_PORT, **({"secret": secret} if secret else {})}
        metadata = {"name": name, "namespace": self.namespace}
        obj: dict[str, Any] = self.client.create(
            {"apiVersion": NETWORK[0], "kind": NETWORK[1], "metadata": metadata, "spec": {**wanted, **spec}}
        )
        return obj

    def up(self, name: str, nodes: int, secret: str = "", **spec: Any) -> list[ToyPod]:
        """Create a network and wait until it is meshed."""
        self.network(name, nodes, secret, **spec)
        eventually(lambda: self.meshed(name, nodes), START_LIMIT, f"{nodes} meshed nodes in {name}")
        return self.pods(name, nodes)

    def scale(self, name: str, nodes: int) -> None:
        """Scale through the subresource, as kubectl does."""
        self.client.patch(*NETWORK, name, self.namespace, {"spec": {"replicas": nodes}}, subresource="scale")

    # Observations of users.

    def find(self, kind: tuple[str, str], name: str) -> dict[str, Any] | None:
        return self.client.find(*kind, name, self.namespace)

    def status(self, name: str) -> dict[str, Any]:
        network = self.find(NETWORK, name)
        return (network or {}).get("status") or {}

    def nodes(self, name: str) -> list[tuple[int, bool, str]]:
        """Return ordinal, readiness and IP of the nodes in the status."""
        return [(node["ordinal"], node["ready"], node["ip"]) for node in self.status(name).get("nodes") or ()]

    def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Return status and reason of the conditions, by type."""
        conditions = self.status(name).get("conditions") or ()
        return {condition["type"]: (condition["status"], condition["reason"]) for condition in conditions}

    def is_ready(self, name: str) -> bool:
        return self.conditions(name).get("Ready") == ("True", "Ready")

    def events(self, name: str) -> list[tuple[str, int]]:
        """Return reason and count of each event about a network."""
        events = self.client.list("events.k8s.io/v1", "Event", self.namespace)
        return sorted(
            (event["reason"], (event.get("series") or {}).get("count", 1))
            for event in events
            if event["regarding"]["kind"] == NETWORK[1] and event["regarding"]["name"] == name
        )

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of a network's events, each as often as it occurred."""
        return [reason for reason, count in self.events(name) for _ in range(count)]

    # Observations of the daemons.

    def pod(self, name: str, ordinal: int) -> ToyPod:
        return self.kubelet.pod(f"{name}-sts-{ordinal}")

    def pods(self, name: str, nodes: int) -> list[ToyPod]:
        return [self.pod(name, ordinal) for ordinal in range(nodes)]

    def rpc(self, pod: ToyPod, method: str, *params: Any) -> Any:
        return self.kubelet.rpc.call(pod.daemon.target, method, *params)

    def answers(self, pod: ToyPod) -> bool:
        try:
            self.rpc(pod, "uptime")
        except RpcFailure:
            return False
        return True

    def added(self, pod: ToyPod) -> set[str]:
        """Return the nodes in a daemon's list."""
        return {added_node.addednode for added_node in self.kubelet.rpc.added_nodes(pod.daemon.target)}

    def dialled(self, pod: ToyPod) -> set[str]:
        """Return the hosts to which a daemon has a manual connection with a complete handshake.

        Only outbound ones: on loopback the other side of an inbound connection is always 127.0.0.1.
        """
        return {
            peer["addr"].partition(":")[0]
            for peer in self.rpc(pod, "getpeerinfo")
            if not peer["inbound"] and peer["connection_type"] == "manual" and peer["version"] > 0
        }

    def links_are(self, wanted: dict[ToyPod, set[str]]) -> bool:
        """Return whether each daemon dialled these, and no others."""
        try:
            return all(self.dialled(pod) == hosts for pod, hosts in wanted.items())
        except RpcFailure:
            return False

    def linked(self, pods: Sequence[ToyPod]) -> bool:
        """Return whether each daemon dialled all others, and no other hosts."""
        return self.links_are({pod: {other.address for other in pods if other is not pod} for pod in pods})

    def meshed(self, name: str, nodes: int) -> bool:
        """Return whether the network has so many nodes, all connected, and a status that agrees."""
        running = self.kubelet.pods()
        pods = [running.get(f"{name}-sts-{ordinal}") for ordinal in range(nodes)]
        if self.conditions(name).get("MeshConverged", ("", ""))[0] != "True" or not all(pods):
            return False
        ready = [(ordinal, True, pod.address) for ordinal, pod in enumerate(pods) if pod is not None]
        return self.nodes(name) == ready and self.linked([pod for pod in pods if pod is not None])

    def mine(self, miner: ToyPod, pods: Sequence[ToyPod]) -> None:
        """Mine a block on one daemon and wait until it is the best of all."""
        (block,) = self.rpc(miner, "generatetodescriptor", 1, "raw(51)#8lvh9jxk")
        eventually(lambda: {self.rpc(pod, "getbestblockhash") for pod in pods} == {block})

    def close(self) -> None:
        """Stop the hosts and delete everything."""
        for host in self.hosts:
            host.stop()
        self.client.delete("v1", "Namespace", self.namespace)
        for pod in itertools.islice(self.client.list(*POD, self.namespace), 100):
            name, metadata = pod["metadata"]["name"], pod["metadata"]
            try:
                preconditions = {"uid": metadata["uid"]}
                self.client.delete(*POD, name, self.namespace, grace_period_seconds=0, preconditions=preconditions)
            except (ctrlhost.NotFound, ctrlhost.Conflict):
                continue
