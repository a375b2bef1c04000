"""The fixtures; pytest loads this module in every run, so it imports nothing heavy until a fixture is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing.clock import ManualClock


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
