"""The plugin in host processes with real daemons: started, with two replicas, killed and stopped."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import msgspec
import pytest

import ctrlhost
from tests.support.bitcoin_cluster import NETWORK, POD
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.bitcoin_cluster import Cluster

behaviour = pytest.mark.behaviour


def replica(cluster: Cluster, *more: str) -> HostProcess:
    """Start `ctrlhost run` with the plugin on the cluster's namespace."""
    place = ["--kubeconfig", str(cluster.control_plane.kubeconfig), "--namespace", cluster.namespace]
    return HostProcess("--plugins", "bitcoin", *place, *more)


def counted(host: HostProcess, metric: str) -> int:
    """Return the sum of a host's counters of one name."""
    status, text = host.get("/metrics")
    assert status == 200
    return sum(int(float(count)) for count in re.findall(rf"^{metric}\{{.*\}} (\S+)", text, re.MULTILINE))


def calls(host: HostProcess) -> int:
    """Return the number of a host's calls to daemons."""
    return counted(host, "ctrlhost_bitcoin_rpc_requests_total")


@behaviour("bitcoin/B40")
def test_a_host_process_brings_a_network_up_and_leaves_it_running_when_it_stops(cluster: Cluster) -> None:
    with replica(cluster, "--install-crds") as host:
        pods = cluster.up("net", 3)
        cluster.mine(pods[0], pods)
        # A pass waits for the hanging daemon; a stop must not wait for the pass.
        pods[2].hang()
        cluster.client.delete(*POD, pods[1].name, cluster.namespace)
        eventually(lambda: cluster.pod("net", 1) is not pods[1], 30)
        eventually(lambda: pods[1].address not in cluster.added(pods[0]), 30)
        host.signal(signal.SIGTERM)
        assert host.wait() == 0
        assert "Traceback" not in str(host.lines)
    assert len(cluster.nodes("net")) == 3
    assert set(cluster.conditions("net")) == {"Reconciled", "CredentialsReady", "NodesReady", "MeshConverged", "Ready"}
    pods[2].resume()
    assert all(cluster.answers(pod) for pod in cluster.pods("net", 3))


@behaviour("bitcoin/B41")
def test_only_the_leader_writes_and_calls_daemons_and_its_successor_repairs_the_mesh(
    cluster: Cluster,
) -> None:
    times = ("lease_duration=3s", "renew_deadline=2s", "retry_period=500ms")
    lease = ["--leader-elect", "--set", f"host.leader_elect_resource_namespace={cluster.namespace}"]
    lease += [part for part_name in times for part in ("--set", f"host.leader_elect_{part_name}")]
    with replica(cluster, *lease) as first, replica(cluster, *lease) as second:
        cluster.up("net", 3)
        leader, standby = (first, second) if calls(first) else (second, first)
        assert calls(leader) > 0
        assert calls(standby) == 0
        # A replica that does not reconcile writes nothing.
        assert counted(leader, "controller_runtime_reconcile_total") > 0
        assert counted(standby, "controller_runtime_reconcile_total") == 0
        leader.signal(signal.SIGKILL)
        leader.wait()
        pod = cluster.pod("net", 0)
        pod.kill()
        eventually(lambda: pod.restarts == 1 and cluster.answers(pod))
        eventually(lambda: cluster.meshed("net", 3), 30)
        assert calls(standby) > 0
        standby.signal(signal.SIGTERM)
        assert standby.wait() == 0


class _Spec(msgspec.Struct):
    nodes: int
    secret: str = ""


class _Metadata(msgspec.Struct):
    name: str


class _Network(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


@behaviour("bitcoin/U25", "bitcoin/U27", "bitcoin/U28")
def test_networks_are_watched_and_listed_with_a_kubeconfig_and_as_typed_objects(cluster: Cluster) -> None:
    client = ctrlhost.Client.load(str(cluster.control_plane.kubeconfig))
    assert list(client.list(*NETWORK, "default")) == []
    with ctrlhost.InformerFactory(client) as factory:
        informer = factory.informer(*NETWORK, namespaces=[cluster.namespace])
        factory.start()
        assert factory.wait_for_sync(30)
        assert informer.lister.list() == []
        cluster.network("small", 1)
        cluster.network("large", 7, "rpc")
        eventually(lambda: len(informer.lister.list()) == 2)
        networks = [obj.decode(_Network) for obj in informer.lister.list()]
    assert sorted((network.metadata.name, network.spec.nodes, network.spec.secret) for network in networks) == [
        ("large", 7, "rpc"),
        ("small", 1, ""),
    ]
    listed = [msgspec.convert(obj, _Network) for obj in client.list(*NETWORK, cluster.namespace)]
    assert {network.metadata.name for network in listed} == {"small", "large"}
    client.close()
