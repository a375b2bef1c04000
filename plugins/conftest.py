"""Run the plugins' tests with the rights that `ctrlhost manifests` prints, and record which ones they use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ctrlhost.testing import HostUnderTest

HERE = Path(__file__).parent
Right = tuple[str, str, str]
#: The files of the run's tests.
FILES = pytest.StashKey[set[Path]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the files before any test is deselected."""
    config.stash[FILES] = {item.path for item in items}


@pytest.fixture
def collected_files(request: pytest.FixtureRequest) -> set[Path]:
    """Return the files of the run's tests, also of those that `-m "not slow"` deselects."""
    return request.config.stash[FILES]


@dataclass
class Rights:
    """The rights that the hosts of one plugin got and used."""

    granted: set[Right] = field(default_factory=set)
    used: set[Right] = field(default_factory=set)


@pytest.fixture(scope="session")
def rights_of_plugins() -> dict[str, Rights]:
    """Return the rights by the plugin's folder, for the tests that have run."""
    return defaultdict(Rights)


@pytest.fixture
def ctrlhost_least_privilege() -> bool:
    """Return True: a plugin's tests fail if it lacks a right."""
    return True


@pytest.fixture
def ctrlhost_host(
    ctrlhost_host: Any, request: pytest.FixtureRequest, rights_of_plugins: dict[str, Rights]
) -> Iterator[Any]:
    """Start hosts as usual, and record at the end which rights they used."""
    hosts: list[HostUnderTest] = []

    def start_host(*plugins: object, **options: Any) -> HostUnderTest:
        server = options.get("sandbox")
        if server is not None and not server.rbac:
            # The sandbox of this test does not enforce rights.
            options.setdefault("least_privilege", False)
        host: HostUnderTest = ctrlhost_host(*plugins, **options)
        hosts.append(host)
        return host

    yield start_host
    rights = rights_of_plugins[request.path.relative_to(HERE).parts[0]]
    for host in hosts:
        if host.account is not None:
            unused = set(host.unused_rights())
            rights.granted |= host.account.granted
            rights.used |= host.account.granted - unused
