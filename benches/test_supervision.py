"""How long probes take beside a plugin that misbehaves."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from benches.ratios import Ratios

PROBES = ("/livez", "/readyz", "/healthz", "/metrics")
REQUESTS = 200


def answered(address: str, path: str) -> float:
    """Return the seconds that a request on a connection of its own takes."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path)
        assert connection.getresponse().read()
    finally:
        connection.close()
    return time.perf_counter() - began


@pytest.mark.parametrize("what", ["none", "computes", "collector-hangs", "page-blocks"])
def test_probes_beside_a_plugin(ratios: Ratios, what: str) -> None:
    """Measure the slowest kind of probe: the 99th percentile of 200 requests."""
    command = [sys.executable, "-m", "benches.misbehaving", what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        address = host.stdout.readline().strip()
        worst = 0.0
        for path in PROBES:
            seconds = sorted(answered(address, path) for _ in range(REQUESTS))
            worst = max(worst, seconds[REQUESTS * 99 // 100 - 1])
        assert host.stdin is not None
        host.stdin.close()
        host.wait(60)
    ratios.add("supervision", f"p99 of a probe, a plugin that misbehaves: {what}", "s", worst)
