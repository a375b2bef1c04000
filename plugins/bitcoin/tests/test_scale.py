"""Hundreds of networks: the cost of a cold start, and of no change."""

from __future__ import annotations

import ipaddress
import logging
import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_bitcoin import plugin
from ctrlhost_bitcoin.model import API_VERSION, KIND

import ctrlhost
from examples.bitcoind.fake_servers import FakeDaemons
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.transport.interface import HttpRequest

NETWORKS, NODES = 200, 3
PROMISED = 20.0
"""Seconds for the cold start on an idle machine; the test waits several times as long."""
NETWORK_OF_PODS = ipaddress.ip_network(f"127.{100 + os.getpid() % 100}.0.0/16")
log = logging.getLogger(__name__)


@pytest.fixture
def daemons() -> Iterator[FakeDaemons]:
    """A daemon at each address that a pod may get."""
    with FakeDaemons() as daemons:
        for number in range(1, NETWORKS * NODES + 1):
            daemons.start(str(NETWORK_OF_PODS[number]))
        yield daemons


def shape(method: str, path: str) -> str:
    """Return the method and the resource of a write."""
    parts = path.partition("?")[0].split("/")
    at = parts.index("namespaces") + 2
    return f"{method} {'/'.join([parts[at], *parts[at + 2 :]])}"


def is_served(client: ctrlhost.Client) -> bool:
    try:
        client.resource(API_VERSION, KIND)
    except ctrlhost.NotFound:
        return False
    return True


def noted(host: Any) -> list[tuple[str, str]]:
    """Record the writes of a host from now on, each with its shape and its path."""
    sent: list[tuple[str, str]] = []
    transport: Any = host.host.client.transport
    send = transport.send

    def recorded(request: HttpRequest) -> Any:
        if request.method != "GET" and "/namespaces/" in request.path:
            sent.append((shape(request.method, request.path), request.path))
        return send(request)

    transport.send = recorded
    return sent


def everywhere(host: Any, wanted: str) -> Callable[[], bool]:
    """Return a check that all networks in the cache have a condition with a reason; each is found once."""
    informer = host.controllers["bitcoin/bitcoin"].informers[0]
    left = [f"net-{number}" for number in range(NETWORKS)]

    def reached() -> bool:
        while left:
            net = informer.lister.get(left[-1], "default")
            found = net.get_path("status", "conditions", default=()) if net is not None else ()
            if not any(f"{one['type']}={one['reason']}" == wanted for one in found):
                return False
            left.pop()
        return True

    return reached


def make_pods(client: ctrlhost.Client) -> None:
    """Create ready pods for all StatefulSets, as if they had started while no host ran."""
    addresses = iter(str(NETWORK_OF_PODS[number]) for number in range(1, NETWORKS * NODES + 1))
    for sts in client.list("apps/v1", "StatefulSet", "default"):
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
        owner |= {"name": sts["metadata"]["name"], "uid": sts["metadata"]["uid"]}
        template = sts["spec"]["template"]
        for ordinal in range(NODES):
            metadata = {"name": f"{owner['name']}-{ordinal}", "namespace": "default", "ownerReferences": [owner]}
            metadata |= {key: template["metadata"][key] for key in ("labels", "annotations")}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            created = client.create(pod)
            ready = {"type": "Ready", "status": "True"}
            created["status"] = {"phase": "Running", "podIP": next(addresses), "conditions": [ready]}
            client.replace(created, "status")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.behaviour("bitcoin/B43")
def test_two_hundred_networks_start_cold_with_few_writes_and_rest_with_none(
    ctrlhost_host: Any, sandbox: Sandbox, daemons: FakeDaemons
) -> None:
    settings = {"bitcoin": {"resync": "3s"}}
    first = ctrlhost_host("bitcoin", sandbox=sandbox, settings=settings, start=False)
    written = noted(first)
    for crd in plugin.ctrlhost_crds():
        first.client.apply(crd, field_manager="test")
    eventually(lambda: is_served(first.client))
    for number in range(NETWORKS):
        metadata = {"name": f"net-{number}", "namespace": "default"}
        first.client.create({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"nodes": NODES}})
    begun = time.monotonic()
    first.start()
    eventually(everywhere(first, "NodesReady=WaitingForPods"), 5 * PROMISED)
    log.info("%d networks without pods: %.1f s", NETWORKS, time.monotonic() - begun)
    first.run_until_idle()
    first.stop()
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    make_pods(client)

    second = ctrlhost_host("bitcoin", sandbox=sandbox, settings=settings, start=False)
    more = noted(second)
    begun, taken = time.monotonic(), time.process_time()
    second.start()
    eventually(everywhere(second, "Ready=Ready"), 5 * PROMISED, "all networks to be ready")
    # Server, host and daemons share one process.
    taken = time.process_time() - taken
    log.info(
        "%d networks of %d nodes, cold: %.1f s (%.1f s of it busy)", NETWORKS, NODES, time.monotonic() - begun, taken
    )
    wanted = {}
    for number in range(NETWORKS):
        nodes = client.get(API_VERSION, KIND, f"net-{number}", "default")["status"]["nodes"]
        ips = {node["ip"] for node in nodes}
        assert len(ips) == NODES
        wanted.update({ip: ips - {ip} for ip in ips})
    assert {ip: set(daemons.daemons[ip].added) for ip in wanted} == wanted
    assert {ip: daemons.daemons[ip].links for ip in wanted} == wanted

    def looks() -> int:
        return sum(daemon.called().count("getaddednodeinfo") for daemon in daemons.daemons.values())

    def resyncs(count: int) -> None:
        begun_with = looks()
        eventually(lambda: looks() >= begun_with + count * NETWORKS * NODES, 60)

    resyncs(2)
    written += more
    kinds = Counter(kind for kind, _ in written if not kind.endswith(" events"))
    assert set(kinds) == {"PATCH services", "PATCH statefulsets", "PATCH bitcoinnetworks/status"}
    assert (kinds["PATCH services"], kinds["PATCH statefulsets"]) == (NETWORKS, NETWORKS)
    statuses = Counter(path for kind, path in written if kind == "PATCH bitcoinnetworks/status")
    assert max(statuses.values()) <= 3

    at_rest = len(more)
    resyncs(2)
    assert more[at_rest:] == []
    # Before the daemons stop, which would cause work.
    second.stop(60)
    client.close()
