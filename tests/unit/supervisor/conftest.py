"""Fixtures of feeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.client import Client
from tests.support.feeds import FeedRig


@pytest.fixture
def feed_of() -> Iterator[Callable[..., FeedRig]]:
    """Serve the informers of a client; all are stopped after the test."""
    made: list[FeedRig] = []

    def make(client: Client, **options: Any) -> FeedRig:
        made.append(FeedRig(client, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def sandbox_client(sandbox: Sandbox) -> Iterator[Client]:
    """A client of a new sandbox."""
    made = Client.load(sandbox.kubeconfig)
    yield made
    made.close()
