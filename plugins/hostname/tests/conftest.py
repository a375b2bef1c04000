"""Fixtures: the builders of objects, the world to put them in, and a record of what happens to the routes."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from plugins.hostname.tests.objects import Objects
from plugins.hostname.tests.world import INGRESS, History, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing import ManualClock


@pytest.fixture
def objects() -> type[Objects]:
    """The builders of example objects."""
    return Objects


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock that everything in a test runs on."""
    return manual_clock


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on, for the status pages."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def world(ctrlhost_host: Any, sandbox: Sandbox, clock: ManualClock, free_port: int) -> Iterator[World]:
    """A sandbox and, once started, a host with the plugin; both end with the test."""
    world = World(sandbox, ctrlhost_host, clock, free_port)
    yield world
    world.client.close()


@pytest.fixture
def history(world: World) -> Iterator[Callable[..., History]]:
    """Begin to record what happens to the routes."""
    with ExitStack() as stack:

        def record(kind: tuple[str, str] = INGRESS) -> History:
            recording = History(world, kind)
            stack.callback(recording.stop)
            return recording

        yield record
