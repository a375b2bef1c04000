"""Fixtures of work queues, controllers, and informers on a stub API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.workqueue import WorkQueue
from tests.support.controllers import Bench
from tests.support.informer_rig import QUICK, Rig
from tests.support.stub_api_server import StubApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.testing import ManualClock


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock of the queue under test."""
    return manual_clock


@pytest.fixture
def work_queue(clock: ManualClock, request: pytest.FixtureRequest) -> WorkQueue:
    """A queue with metrics, named after its test."""
    return WorkQueue(request.node.name, clock=clock)


@pytest.fixture
def bench(manual_clock: ManualClock) -> Iterator[Bench]:
    """Controllers on a manual clock, without an API server."""
    workbench = Bench(manual_clock)
    yield workbench
    workbench.close()


@pytest.fixture
def server() -> Iterator[StubApiServer]:
    """An API server with scripted answers."""
    with StubApiServer() as running:
        yield running


@pytest.fixture
def rig_with(server: StubApiServer) -> Iterator[Callable[..., Rig]]:
    """Create informers with options on the stub server, or on the server in the option `server`."""
    rigs: list[Rig] = []

    def make(**options: object) -> Rig:
        rigs.append(Rig(options.pop("server", server), **options))
        return rigs[-1]

    yield make
    for running in rigs:
        running.stop()


@pytest.fixture
def rig(rig_with: Callable[..., Rig]) -> Rig:
    """An informer of pods on the stub server."""
    return rig_with()


@pytest.fixture
def client(server: StubApiServer) -> Iterator[Client]:
    """A client of the stub server."""
    api = Client(server.url)
    yield api
    api.close()


@pytest.fixture
def factory(client: Client) -> Iterator[InformerFactory]:
    """A factory whose informers list in pages and retry quickly."""
    informers = InformerFactory(client, options=ReflectorOptions(watch_list=False, backoff=QUICK))
    yield informers
    informers.stop()
