"""Fixtures for informers and for the scenarios with real bitcoin daemons."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import pytest

from ctrlhost.informers import BackoffOptions, InformerFactory, ReflectorOptions
from examples.bitcoind.daemon import Addresses, Bitcoind, find_bitcoind
from examples.bitcoind.kubelet import ToyKubelet
from tests.support.bitcoin_cluster import Cluster
from tests.support.control_plane import KubeApiserver, SandboxControlPlane, require_kube_apiserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctrlhost.client import Client
    from tests.support.control_plane import ControlPlane

_namespaces = itertools.count(1)


@pytest.fixture
def client(control_plane: ControlPlane) -> Client:
    return control_plane.client


@pytest.fixture
def factory(client: Client) -> Iterator[InformerFactory]:
    """Return an informer factory with short back-offs."""
    options = ReflectorOptions(backoff=BackoffOptions(base=0.01, cap=0.2), waiting_cap=0.2)
    informers = InformerFactory(client, options=options)
    yield informers
    informers.stop()


@pytest.fixture(scope="session")
def bitcoind() -> Path:
    """Return the path of bitcoind; skip if it is missing, fail in CI."""
    try:
        return find_bitcoind()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def addresses() -> Addresses:
    """Return loopback addresses for daemons."""
    return Addresses()


@pytest.fixture
def start_daemon(bitcoind: Path, addresses: Addresses) -> Iterator[Callable[..., Bitcoind]]:
    """Return a function that starts an unmanaged daemon at its own address; all end with the test."""
    started: list[Bitcoind] = []

    def start(**options: str) -> Bitcoind:
        started.append(Bitcoind(bitcoind, addresses.take(), **options))
        return started[-1]

    yield start
    for daemon in started:
        daemon.close()
        addresses.give_back(daemon.host)


@pytest.fixture(scope="session")
def workload_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxControlPlane]:
    """Run a sandbox whose controller creates the pods of StatefulSets."""
    server = SandboxControlPlane(tmp_path_factory.mktemp("workload-sandbox"), "statefulset")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def workload_kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """Run a kube-apiserver with kube-controller-manager, which other tests do not need."""
    require_kube_apiserver()
    with KubeApiserver(tmp_path_factory.mktemp("workload-kube-apiserver")) as server:
        server.start_controllers()
        yield server


@pytest.fixture(params=["sandbox", "kube-apiserver"])
def workload_plane(request: pytest.FixtureRequest) -> ControlPlane:
    """Return each API server whose StatefulSets get pods, in turn."""
    name = "workload_sandbox" if request.param == "sandbox" else "workload_kube_apiserver"
    server: ControlPlane = request.getfixturevalue(name)
    return server


@pytest.fixture
def cluster(workload_plane: ControlPlane, bitcoind: Path, addresses: Addresses) -> Iterator[Cluster]:
    """Return a namespace whose pods become daemons."""
    namespace = f"bitcoin-{next(_namespaces)}"
    client = workload_plane.client
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with ToyKubelet(client, namespace, functools.partial(Bitcoind, bitcoind), addresses) as kubelet:
        cluster = Cluster(workload_plane, namespace, kubelet)
        try:
            yield cluster
        finally:
            cluster.close()
