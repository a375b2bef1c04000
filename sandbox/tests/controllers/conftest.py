"""A sandbox with every controller for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.workload_clusters import cluster


@pytest.fixture(scope="module")
def server() -> Iterator[Sandbox]:
    """Run a sandbox with every controller and instant pods."""
    with cluster() as sandbox:
        yield sandbox
