"""After any network faults every cache equals the server, no event was missed, and no object was ever wrong.

A failure names its seed: `CTRLHOST_SEED=… CTRLHOST_FAULTS=200` repeats it. `make soak` injects 100,000 per server.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.convergence.cluster import Cluster
from tests.support.control_plane import ControlPlane

#: Per server; the two servers together have twenty thousand.
FAULTS = int(os.environ.get("CTRLHOST_FAULTS", "10000"))
A_ROUND = 200


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Disable the logs, which so many faults would fill."""
    loggers = [logging.getLogger(name) for name in ("ctrlhost.informers", "ctrlhost.client", "urllib3")]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger in loggers:
        logger.setLevel(logging.NOTSET)


@pytest.mark.behaviour("scale/SC149")
@pytest.mark.slow
@pytest.mark.timeout(60 + FAULTS // 20)
def test_informers_agree_with_the_server_after_every_storm(control_plane: ControlPlane, faults: Any) -> None:
    proxy = faults(control_plane)
    with Cluster(control_plane, proxy) as cluster:
        number = 0
        while proxy.total < FAULTS:
            cluster.round(proxy.seed + number, A_ROUND)
            number += 1
        assert cluster.writes > 0
        assert cluster.versions.compared > cluster.writes
        received = cluster.received()
        # The sandbox has no protobuf for reads.
        assert received["json"] > 0
        assert (received["protobuf"] > 0) == (control_plane.kind == "kube-apiserver")
        assert all(informer.handler.events and informer.reconciler.runs for informer in cluster.informers)
