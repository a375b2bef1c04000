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
    rigs: list[FeedRig] = []

    def make(client: Client, **options: Any) -> FeedRig:
        rigs.append(FeedRig(client, **options))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.stop()


@pytest.fixture
def sandbox_client(sandbox: Sandbox) -> Iterator[Client]:
    """A client of a new sandbox."""
    client = Client.load(sandbox.kubeconfig)
    yield client
    client.close()
