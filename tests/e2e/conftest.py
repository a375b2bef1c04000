"""Fixtures of the scenarios with real bitcoin daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bitcoind.daemon import Addresses, Bitcoind, require_bitcoind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def bitcoind() -> Path:
    """The program."""
    return require_bitcoind()


@pytest.fixture(scope="session")
def addresses() -> Addresses:
    """Loopback addresses for daemons."""
    return Addresses()


@pytest.fixture
def start_daemon(bitcoind: Path, addresses: Addresses) -> Iterator[Callable[..., Bitcoind]]:
    """Start daemons that nobody looks after, each at an address of its own; all end with the test."""
    started: list[Bitcoind] = []

    def start(**options: str) -> Bitcoind:
        started.append(Bitcoind(bitcoind, addresses.take(), **options))
        return started[-1]

    yield start
    for daemon in started:
        daemon.close()
        addresses.give_back(daemon.host)
