"""Fixtures shared by the tests of ctrlhost and of the bundled plugins."""

from __future__ import annotations

import itertools
import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tests.support.control_plane import ControlPlane, KubeApiserver, SandboxControlPlane

_namespaces = itertools.count(1)


def pytest_configure() -> None:
    """Handle signals that a shell made this process ignore, with `&` or nohup: tests and their children expect them."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `-n`, distribute tests in groups that share servers."""
    from tests.support.distribution import Groups

    return Groups(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that need more than Python and Rust."""
    from tests.support.real import mark_if_real

    mark_if_real(item)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `-n`, begin with the slow tests."""
    if hasattr(config, "workerinput"):
        from tests.support.distribution import place

        items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail on avoidable skips in CI. With `-n`, escape captured text, which may have lone surrogates."""
    from tests.support.skips import fail_if_avoidable

    report = yield
    if os.environ.get("CI"):
        fail_if_avoidable(report)
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
def kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """Run the session's real kube-apiserver; a test that kills or compacts one starts its own."""
    from tests.support.control_plane import IMPERSONATED, WRITES, KubeApiserver, require_kube_apiserver

    require_kube_apiserver()
    with KubeApiserver(tmp_path_factory.mktemp("kube-apiserver"), audit=[WRITES, IMPERSONATED]) as server:
        yield server


@pytest.fixture(scope="session")
def sandbox_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxControlPlane]:
    """Run the session's sandbox for the end-to-end tests, which each use their own namespace."""
    from tests.support.control_plane import SandboxControlPlane

    server = SandboxControlPlane(tmp_path_factory.mktemp("sandbox"))
    yield server
    server.stop()


@pytest.fixture(params=["sandbox", "kube-apiserver"])
def control_plane(request: pytest.FixtureRequest) -> ControlPlane:
    """Return each API server of the end-to-end tests in turn."""
    fixture = "sandbox_control_plane" if request.param == "sandbox" else "kube_apiserver"
    server: ControlPlane = request.getfixturevalue(fixture)
    return server


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """Create a namespace for the test on the server under test."""
    name = f"test-{next(_namespaces)}"
    control_plane.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def own_kube_apiserver(tmp_path: Path) -> Iterator[KubeApiserver]:
    """Run a kube-apiserver for one test, which may kill, pause or compact it."""
    from tests.support.control_plane import KubeApiserver, require_kube_apiserver

    require_kube_apiserver()
    with KubeApiserver(tmp_path / "kube-apiserver") as server:
        yield server
