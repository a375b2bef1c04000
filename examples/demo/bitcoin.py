"""A network of bitcoin daemons: real ones if bitcoind is installed, otherwise fake ones."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.rpc.errors import RpcFailure

from examples.bitcoind.daemon import Addresses, Bitcoind, find_bitcoind
from examples.bitcoind.fake_servers import FakeDaemons
from examples.bitcoind.fakes import FakeProcess
from examples.bitcoind.kubelet import ToyKubelet
from examples.demo.kubectl import apply, show, wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    import ctrlhost

NETWORK = ("bitcoincontroller.christianb93.github.com/v1", "BitcoinNetwork")
NAME, NAMESPACE = "harbour", "default"
_ANYONE_CAN_SPEND = "raw(51)#8lvh9jxk"


@contextmanager
def kubelet(client: ctrlhost.Client) -> Iterator[tuple[ToyKubelet, bool]]:
    """Run the pods of the network; print and return whether the daemons are real."""
    try:
        program = find_bitcoind()
    except FileNotFoundError as missing:
        print(f"  with fake daemons: {missing}")
        with FakeDaemons() as daemons:
            start = functools.partial(FakeProcess, daemons)
            with ToyKubelet(client, NAMESPACE, start, Addresses()) as running:
                yield running, False
        return
    print("  with real daemons: a toy kubelet starts bitcoind for each pod, on loopback addresses")
    with ToyKubelet(client, NAMESPACE, functools.partial(Bitcoind, program), Addresses()) as running:
        yield running, True


def network(client: ctrlhost.Client) -> dict[str, Any]:
    """Return the network's status."""
    status: dict[str, Any] = (client.find(*NETWORK, NAME, NAMESPACE) or {}).get("status") or {}
    return status


def is_up(client: ctrlhost.Client, nodes: int) -> bool:
    """Return whether `nodes` nodes are ready and linked."""
    conditions = {condition["type"]: condition for condition in network(client).get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    return ready.get("status") == "True" and network(client).get("readyReplicas") == nodes


def show_nodes(client: ctrlhost.Client, running: ToyKubelet) -> None:
    """Print each node with its outbound peers, as its daemon reports them."""
    table = {}
    for node in network(client)["nodes"]:
        daemon = running.pod(node["nodeName"]).daemon
        linked = [added_node.addednode for added_node in running.rpc.added_nodes(daemon.target) if added_node.connected]
        table[f"{node['nodeName']}  {node['ip']}"] = f"-> {', '.join(sorted(linked))}"
    show(table)


def mine(running: ToyKubelet) -> None:
    """Mine a block on one daemon and find it on all: they are one network."""
    pods = running.pods()
    first = pods[f"{NAME}-sts-0"]
    (block,) = running.rpc.call(first.daemon.target, "generatetodescriptor", 1, _ANYONE_CAN_SPEND)

    def arrived() -> bool:
        try:
            best = {running.rpc.call(pod.daemon.target, "getbestblockhash") for pod in pods.values()}
        except RpcFailure:
            return False
        return best == {block}

    wait(arrived, "the block on all daemons")
    print(f"  a block that {first.name} mined, {block[:16]}…, is the best of all {len(pods)}\n", flush=True)


def demonstrate(client: ctrlhost.Client) -> None:
    """Create, grow and delete a network."""
    folder = "plugins/bitcoin/examples"
    print("── bitcoin: daemons that connect to each other\n")
    with kubelet(client) as (running, real):
        apply(client, f"{folder}/01-secret.yaml", f"{folder}/02-harbour.yaml")
        wait(lambda: is_up(client, 3), "three linked nodes")
        show_nodes(client, running)

        print(f"$ kubectl scale btcnet {NAME} --replicas=5", flush=True)
        client.patch(*NETWORK, NAME, NAMESPACE, {"spec": {"replicas": 5}}, subresource="scale")
        wait(lambda: is_up(client, 5), "five linked nodes")
        show_nodes(client, running)
        if real:
            mine(running)

        print(f"$ kubectl delete btcnet {NAME}", flush=True)
        client.delete(*NETWORK, NAME, NAMESPACE)
        wait(lambda: not running.pods(), "the end of the daemons")
        print("  its Service, its StatefulSet, its pods and their daemons are gone\n", flush=True)
