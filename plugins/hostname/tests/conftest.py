"""Fixtures: object builders, a cluster, and a recorder of route changes."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from plugins.hostname.tests.cluster import INGRESS, Cluster, History
from plugins.hostname.tests.objects import SHOP, Objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.testing import ManualClock


@pytest.fixture
def objects() -> type[Objects]:
    """The builders of example objects."""
    return Objects


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock of the whole test."""
    return manual_clock


@pytest.fixture
def free_port() -> int:
    """A free port for the status pages."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def cluster(ctrlhost_host: Any, sandbox: Sandbox, clock: ManualClock, free_port: int) -> Iterator[Cluster]:
    """A sandbox and, once started, a host with the plugin; both end with the test."""
    cluster = Cluster(sandbox, ctrlhost_host, clock, free_port)
    yield cluster
    cluster.client.close()


@pytest.fixture
def history(cluster: Cluster) -> Iterator[Callable[..., History]]:
    """Start a recorder of route changes."""
    with ExitStack() as stack:

        def record(kind: tuple[str, str] = INGRESS) -> History:
            recording = History(cluster, kind)
            stack.callback(recording.stop)
            return recording

        yield record


@pytest.fixture
def connected(cluster: Cluster) -> Cluster:
    """A running cluster with two leases, whose hostname is connected to the first one."""
    for lease in (Objects.first, Objects.second):
        cluster.lease(lease)
    cluster.declare(SHOP, Objects.first)
    return cluster.start()
