"""One sandbox and one real control plane per session, with controllers and the same toy kubelet."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import ctrlhost
from sandbox.tests.clients import kubelet
from sandbox.tests.clients.comparison import Comparison, Difference, Server, listed
from sandbox.tests.clients.shell import BUILT, Run, compare_shells
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.waiting import eventually
from tests.support.workload_clusters import cluster

_serial = itertools.count(1)

#: The failed tests of this directory.
FAILED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def sandbox_server() -> Iterator[Server]:
    """Run a sandbox with all its controllers and instant pods."""
    with cluster() as server:
        client = ctrlhost.Client.load(kubeconfig=str(server.kubeconfig))
        yield Server("sandbox", server.url, Path(server.kubeconfig), client)


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a kube-apiserver with kube-controller-manager, and a toy scheduler and kubelet."""
    require_kube_apiserver()
    with KubeApiserver(tmp_path_factory.mktemp("real-clients")) as server:
        server.start_controllers()
        with kubelet.running(server.kubeconfig):
            eventually(
                lambda: server.client.find("v1", "ServiceAccount", "default", "default"), 60, "the controllers run"
            )
            yield Server("kube-apiserver", server.url, server.kubeconfig, server.client)


@pytest.fixture(scope="session")
def differences() -> list[Difference]:
    """Return the differences in docs/sandbox.md."""
    return listed()


@pytest.fixture(scope="session")
def used_differences() -> set[Difference]:
    """Return the differences that occurred in this session."""
    return set()


@pytest.fixture
def compare(
    sandbox_server: Server, real_server: Server, differences: list[Difference], used_differences: set[Difference]
) -> Comparison:
    """Return a comparison of both servers, with the test's own namespace on each."""
    name = f"clients-{next(_serial)}"
    for server in (sandbox_server, real_server):
        server.namespace = name
        server.steps.clear()
        server.unexpected.clear()
        server.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for server in (sandbox_server, real_server):
        eventually(lambda server=server: server.client.find("v1", "ServiceAccount", "default", name), 60)
        eventually(lambda server=server: server.client.find("v1", "ConfigMap", "kube-root-ca.crt", name), 60)
    return Comparison(sandbox_server, real_server, differences, used_differences)


@pytest.fixture
def run(compare: Comparison, tmp_path: Path) -> Run:
    """Return a function that compares the output of commands on both servers."""
    return lambda name, steps: compare_shells(compare, BUILT, tmp_path, name, steps)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the check of used differences last."""
    items.sort(key=lambda item: item.name == "test_every_listed_difference_occurs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the failed tests."""
    report = yield
    if report.failed:
        item.config.stash.setdefault(FAILED, []).append(item.nodeid)
    return report
