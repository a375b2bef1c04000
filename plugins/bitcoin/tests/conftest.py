"""Fixtures: a cluster for networks, and daemons on real sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from examples.bitcoind.fake_servers import FakeDaemons
from plugins.bitcoin.tests.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.testing import ManualClock
    from examples.bitcoind.fake_daemon import FakeDaemon


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock of everything in a test."""
    return manual_clock


@pytest.fixture
def cluster(
    ctrlhost_host: Any, sandbox: Sandbox, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """A sandbox and the hosts started on it; all stop with the test."""
    cluster = Cluster(sandbox, ctrlhost_host, clock, monkeypatch)
    yield cluster
    cluster.client.close()


@pytest.fixture
def still_cluster(
    ctrlhost_host: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, ctrlhost_least_privilege: bool
) -> Iterator[Cluster]:
    """A cluster without garbage collection, for objects whose owners never existed."""
    from ctrlhost_sandbox import Sandbox

    with Sandbox(controllers=("namespace",), rbac=ctrlhost_least_privilege) as server:
        cluster = Cluster(server, ctrlhost_host, clock, monkeypatch)
        yield cluster
        for replica in cluster.replicas:
            replica.host.stop()
        cluster.client.close()


@pytest.fixture
def daemons() -> Iterator[FakeDaemons]:
    """Daemons that answer on real sockets."""
    with FakeDaemons() as daemons:
        yield daemons


@pytest.fixture
def daemon(daemons: FakeDaemons) -> FakeDaemon:
    """One daemon, on a free port."""
    return daemons.start("127.0.0.1", 0)
