"""The fixtures; pytest loads this module in every run, so it imports heavy modules only when a fixture is used."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.clock import Clock
    from ctrlhost.testing.clock import ManualClock
    from ctrlhost.testing.fault_proxy import FaultProxy
    from ctrlhost.testing.host import HostUnderTest


_SANDBOX = "sandbox"


class HasKubeconfig(Protocol):
    """An API server that names its kubeconfig."""

    @property
    def kubeconfig(self) -> Path:
        """The path of the kubeconfig."""


class StartHost(Protocol):
    """The type of the fixture `ctrlhost_host`."""

    def __call__(
        self,
        *plugins: object,
        clock: Clock | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        controllers: Mapping[str, Mapping[str, Any]] | None = None,
        supervision: Mapping[str, Any] | None = None,
        server: Sandbox | str | os.PathLike[str] | HasKubeconfig | None = None,
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose the API server."""
    group = parser.getgroup("ctrlhost")
    group.addoption(
        "--ctrlhost-server",
        default=_SANDBOX,
        metavar="SERVER",
        help="API server of ctrlhost's fixtures: sandbox (default), kubeconfig:PATH or kubeconfig:PATH@CONTEXT; "
        "plugins under test act on all objects of such a server",
    )
    group.addoption(
        "--ctrlhost-server-yes", action="store_true", help="allow a server that is not on a loopback address"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check the options before any request."""
    server, anywhere = config.getoption("--ctrlhost-server"), config.getoption("--ctrlhost-server-yes")
    if server == _SANDBOX and not anywhere:
        return
    from ctrlhost.errors import ConfigError
    from ctrlhost.testing.servers import choose

    try:
        choose(server, anywhere=anywhere)
    except ConfigError as error:
        raise pytest.UsageError(
            "\n".join(filter(None, (error.message, error.hint and f"hint: {error.hint}")))
        ) from None
    config.add_cleanup(lambda: choose(_SANDBOX, anywhere=False))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Add the hints of ctrlhost's errors to what pytest shows of them."""
    errors = sys.modules.get("ctrlhost.errors")
    error = call.excinfo.value if call.excinfo is not None and errors is not None else None
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        hint = error.hint if isinstance(error, errors.CtrlhostError) else None  # type: ignore[union-attr]
        if hint and f"hint: {hint}" not in f"{error}\n{getattr(error, '__notes__', '')}":
            error.add_note(f"hint: {hint}")
        error = error.__cause__ or error.__context__


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that only the test advances."""
    from ctrlhost.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def ctrlhost_least_privilege() -> bool:
    """Whether hosts have only the rights that their plugins request; override it in a conftest.py to return True."""
    return False


@pytest.hookimpl(optionalhook=True)
def pytest_sandbox_arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return that the sandbox checks rights, if the hosts of the test have limited ones."""
    return {"rbac": request.getfixturevalue("ctrlhost_least_privilege")}


@pytest.fixture
def ctrlhost_host(ctrlhost_least_privilege: bool) -> Iterator[StartHost]:
    """Start hosts, each on a new API server unless one is given; all are stopped after the test.

    Takes modules and objects that implement hooks, or names of installed plugins. `settings` are the plugins' settings
    by plugin, `controllers` the operator's overrides by controller; `supervision`, `informers` and `shards` are the
    tables of these names; other keywords are settings of the host. `through` is a proxy in front of the server for the
    host's requests. With `start=False` the test calls `start` itself; else a plugin that fails is NotSettled, with the
    plugin's error as the cause. With `least_privilege=True` the host has only the rights that `ctrlhost manifests`
    prints; by default the fixture `ctrlhost_least_privilege` decides.

    `server` is a Sandbox (as is `sandbox`), the path of a kubeconfig, or anything with a `.kubeconfig`. By default it
    is a new sandbox, or what the option `--ctrlhost-server` names. A real server has a namespace for each test, and
    what the test and its hosts created there is deleted afterwards.
    """
    from ctrlhost.sandbox import is_sandbox
    from ctrlhost.testing.host import HostUnderTest
    from ctrlhost.testing.servers import start_server

    with ExitStack() as stack:
        started: dict[object, Any] = {}

        def server_of(server: Any, *, rbac: bool) -> Any:
            if is_sandbox(server):
                return server
            known = str(getattr(server, "kubeconfig", server))
            if known not in started:
                running = stack.enter_context(start_server(server, rbac=rbac))
                if is_sandbox(running):
                    return running
                # All hosts of a test share its namespace, also those that are given the server of another one.
                started[known] = started[str(running.kubeconfig)] = running
            return started[known]

        def start_host(
            *plugins: object,
            server: Any = None,
            sandbox: Sandbox | None = None,
            start: bool = True,
            least_privilege: bool | None = None,
            **options: Any,
        ) -> HostUnderTest:
            limited = ctrlhost_least_privilege if least_privilege is None else least_privilege
            chosen = server_of(sandbox if server is None else server, rbac=limited)
            host = HostUnderTest(chosen, plugins, least_privilege=limited, **options)
            stack.callback(host.stop)
            return host.start(check=True) if start else host

        yield start_host


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[StartProxy]:
    """Start proxies that inject faults into connections; all are stopped after the test.

    Takes the path of a kubeconfig or anything with a `.kubeconfig`, by default the fixture `sandbox`, or the server
    that the option `--ctrlhost-server` names unless the test uses that fixture. The seed of storms is `$CTRLHOST_SEED`,
    otherwise random; it is printed, so that a failed run can be repeated.
    """
    from ctrlhost.testing.fault_proxy import FaultProxy
    from ctrlhost.testing.servers import chosen

    with ExitStack() as stack:

        def start_proxy(server: Any = None, *, context: str | None = None, seed: int | None = None) -> FaultProxy:
            address = None if "sandbox" in request.fixturenames else chosen()
            if server is None and address is not None:
                server, context = address.kubeconfig, address.context
            elif server is None:
                server = request.getfixturevalue("sandbox")
            proxy = stack.enter_context(FaultProxy(server, context=context, seed=seed))
            print(f"faults: CTRLHOST_SEED={proxy.seed}")
            return proxy

        yield start_proxy
