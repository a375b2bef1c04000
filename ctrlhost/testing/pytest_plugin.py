"""The fixtures; pytest loads this module in every run, so it imports heavy modules only when a fixture is used."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing.clock import ManualClock
    from ctrlhost.testing.fault_proxy import FaultProxy
    from ctrlhost.testing.host import HostUnderTest


class StartHost(Protocol):
    """The type of the fixture `ctrlhost_host`."""

    def __call__(
        self,
        *plugins: object,
        clock: Clock | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        controllers: Mapping[str, Mapping[str, Any]] | None = None,
        supervision: Mapping[str, Any] | None = None,
        sandbox: Sandbox | None = None,
        through: FaultProxy | None = None,
        start: bool = True,
        least_privilege: bool | None = None,
        **host_settings: Any,
    ) -> HostUnderTest:
        """Start a host with these plugins."""


class StartProxy(Protocol):
    """The type of the fixture `faults`."""

    def __call__(self, server: Any = None, *, context: str | None = None, seed: int | None = None) -> FaultProxy:
        """Start a proxy in front of this server."""


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that only the test advances."""
    from ctrlhost.testing import ManualClock

    return ManualClock()


@pytest.fixture
def ctrlhost_least_privilege() -> bool:
    """Whether hosts have only the rights that their plugins request; override it in a conftest.py to return True."""
    return False


@pytest.fixture
def sandbox(ctrlhost_least_privilege: bool) -> Iterator[Sandbox]:
    """A new, empty API server for the test."""
    from ctrlhost.sandbox import Sandbox

    with Sandbox(rbac=ctrlhost_least_privilege) as server:
        yield server


@pytest.fixture
def ctrlhost_host(ctrlhost_least_privilege: bool) -> Iterator[StartHost]:
    """Start hosts, each on a new sandbox unless one is given; all are stopped after the test.

    Takes modules and objects that implement hooks, or names of installed plugins. `settings` are the plugins' settings
    by plugin, `controllers` the operator's overrides by controller, `supervision` and `informers` the tables of these
    names; other keywords are settings of the host. `through` is a proxy in front of that sandbox for the host's
    requests. With `start=False` the test calls `start` itself. With `least_privilege=True` the host has only the
    rights that `ctrlhost manifests` prints; by default the fixture `ctrlhost_least_privilege` decides.
    """
    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing.host import HostUnderTest

    with ExitStack() as stack:

        def start_host(
            *plugins: object,
            sandbox: Sandbox | None = None,
            start: bool = True,
            least_privilege: bool | None = None,
            **options: Any,
        ) -> HostUnderTest:
            limited = ctrlhost_least_privilege if least_privilege is None else least_privilege
            server = sandbox if sandbox is not None else stack.enter_context(Sandbox(rbac=limited))
            host = HostUnderTest(server, plugins, least_privilege=limited, **options)
            stack.callback(host.stop)
            return host.start() if start else host

        yield start_host


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[StartProxy]:
    """Start proxies that inject faults into connections; all are stopped after the test.

    Takes the path of a kubeconfig or anything with a `.kubeconfig`, by default the fixture `sandbox`. The seed of
    storms is `$CTRLHOST_SEED`, otherwise random; it is printed, so that a failed run can be repeated.
    """
    from ctrlhost.testing.fault_proxy import FaultProxy

    with ExitStack() as stack:

        def start_proxy(server: Any = None, *, context: str | None = None, seed: int | None = None) -> FaultProxy:
            if server is None:
                server = request.getfixturevalue("sandbox")
            proxy = stack.enter_context(FaultProxy(server, context=context, seed=seed))
            print(f"faults: CTRLHOST_SEED={proxy.seed}")
            return proxy

        yield start_proxy
