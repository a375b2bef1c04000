"""Hundreds of networks: the writes of a cold start, and of no change."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

NETWORKS, NODES = 200, 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.behaviour("bitcoin/B43")
def test_two_hundred_networks_start_cold_with_few_writes_and_rest_with_none(cluster: Any) -> None:
    first = cluster.start()
    cluster.settles = False
    names = [f"net-{number}" for number in range(NETWORKS)]
    for name in names:
        cluster.net(NODES, name=name, secret=None)
    cluster.idle()
    written = first.writes()
    first.host.stop()
    cluster.replicas.clear()
    ips = {name: [f"10.0.{number}.{ordinal + 1}" for ordinal in range(NODES)] for number, name in enumerate(names)}
    for name in names:
        for ordinal, ip in enumerate(ips[name]):
            cluster.daemon(ip)
            cluster.pod(ordinal, ip, name=name)
    second = cluster.start()
    for name in names:
        assert cluster.condition("Ready", name) == ("True", "Ready")
        for ip in ips[name]:
            daemon = cluster.http.daemons[ip]
            assert set(daemon.added) == daemon.links == set(ips[name]) - {ip}
    cluster.after(66, step=33)

    def of(resource: str) -> list[str]:
        return [
            request.path.partition("?")[0] for request in written + second.writes() if f"/{resource}/" in request.path
        ]

    assert len(of("services")) == len(of("statefulsets")) == NETWORKS
    statuses = Counter(of("bitcoinnetworks"))
    assert all(path.endswith("/status") for path in statuses)
    assert max(statuses.values()) <= 3
    second.forget()
    calls = sum(len(daemon.calls) for daemon in cluster.http.daemons.values())
    cluster.after(66, step=33)
    assert sum(len(daemon.calls) for daemon in cluster.http.daemons.values()) >= calls + 2 * NETWORKS * NODES
    assert second.writes(events=True) == []
