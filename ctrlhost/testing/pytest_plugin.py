"""The fixtures; pytest loads this module in every run, so it imports nothing heavy until a fixture is used."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing.clock import ManualClock
    from ctrlhost.testing.host import HostUnderTest


class StartHost(Protocol):
    """The type of the fixture `ctrlhost_host`."""

    def __call__(
        self,
        *plugins: object,
        clock: Clock | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        controllers: Mapping[str, Mapping[str, Any]] | None = None,
        sandbox: Sandbox | None = None,
        start: bool = True,
        **host_settings: Any,
    ) -> HostUnderTest:
        """Start a host with these plugins."""


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from ctrlhost.testing import ManualClock

    return ManualClock()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A fresh, empty API server of the test's own."""
    from ctrlhost.sandbox import Sandbox

    with Sandbox() as server:
        yield server


@pytest.fixture
def ctrlhost_host() -> Iterator[StartHost]:
    """Start hosts, each on a sandbox of its own unless it is given one; all are stopped after the test.

    Takes modules and objects that implement hooks, or names of installed plugins. `settings` are the plugins' settings
    by plugin, `controllers` the operator's overrides by controller; other keywords are settings of the host. With
    `start=False` the test calls `start` itself.
    """
    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing.host import HostUnderTest

    with ExitStack() as stack:

        def start_host(
            *plugins: object,
            clock: Clock | None = None,
            settings: Mapping[str, Mapping[str, Any]] | None = None,
            controllers: Mapping[str, Mapping[str, Any]] | None = None,
            sandbox: Sandbox | None = None,
            start: bool = True,
            **host_settings: Any,
        ) -> HostUnderTest:
            server = sandbox if sandbox is not None else stack.enter_context(Sandbox())
            host = HostUnderTest(
                server, plugins, clock=clock, settings=settings, controllers=controllers, **host_settings
            )
            stack.callback(host.stop)
            return host.start() if start else host

        yield start_host
