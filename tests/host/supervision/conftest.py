"""Plugins `good` and `bad`, and calls that hang until the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.host.conftest import distributions
from tests.support.misbehaviour import SHORT, Good, Hang

__all__ = ["distributions"]


@pytest.fixture
def good() -> Good:
    return Good()


@pytest.fixture
def hang() -> Iterator[Hang]:
    hanging = Hang()
    yield hanging
    hanging.release()


@pytest.fixture
def start(ctrlhost_host: Any, good: Good, hang: Hang) -> Callable[..., Any]:
    """Start a host with `good` and another plugin, whose deadlines are short."""

    def start_host(
        bad: object, *, begin: bool = True, supervision: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        own = {"deadlines": SHORT, "restart_delay": 60.0, **(supervision or {})}
        return ctrlhost_host(bad, good.module, start=begin, supervision={"bad": own}, **options)

    return start_host
