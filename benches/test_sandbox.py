"""The sandbox against kube-apiserver: start, memory, writes, lists, watches. Both serve TLS, each in its process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benches import sandboxes
from benches.ratios import Ratios
from tests.support.control_plane import KubeApiserver, require_kube_apiserver

SUITE = "sandbox"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, ratios: Ratios) -> Iterator[KubeApiserver]:
    """Start the real server and measure its start; it keeps the pods of one bench for the next."""
    require_kube_apiserver()
    began = time.perf_counter()
    with KubeApiserver(tmp_path_factory.mktemp("real")) as server:
        server_seconds[0] = time.perf_counter() - began
        yield server


server_seconds = [0.0]


def test_start(ratios: Ratios, real: KubeApiserver, tmp_path: Path) -> None:
    """Measure the time from the start of the process to ready, and the memory then."""
    seconds, resident = [], []
    for number in range(3):
        directory = tmp_path / str(number)
        directory.mkdir()
        with sandboxes.sandbox(directory) as server:
            seconds.append(server.seconds)
            resident.append(sandboxes.memory(server.pid))
    ratios.add(SUITE, "start to ready", "s", sorted(seconds)[1], kube_apiserver=server_seconds[0])
    ratios.add(SUITE, "memory when ready", "B", sorted(resident)[1], kube_apiserver=sandboxes.memory(real.pid))


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "in SQLite"])
def test_writes(ratios: Ratios, real: KubeApiserver, tmp_path: Path, on_disk: bool) -> None:
    """Create ConfigMaps of 1 KB over 16 connections."""
    count = 4_000
    path, make = sandboxes.CONFIG_MAPS, sandboxes.config_map
    first = 100_000 * (1 + on_disk)
    with sandboxes.sandbox(tmp_path, on_disk=on_disk) as server:
        sandboxes.create(server, path, 500, make)
        ours = sandboxes.create(server, path, count, make, first=first) / count
    theirs = sandboxes.create(real, path, count, make, first=first) / count
    ratios.add(
        SUITE, f"a write from 16 writers, {'in SQLite' if on_disk else 'in memory'}", "s", ours, kube_apiserver=theirs
    )


def test_watches(ratios: Ratios, real: KubeApiserver, tmp_path: Path) -> None:
    """Measure the 99th percentile of the delay of events, with 200 watches of a kind and 50 writes per second."""
    watchers, seconds = 200, 10.0
    with sandboxes.sandbox(tmp_path) as server:
        ours = sorted(sandboxes.watch_latencies(server, watchers, 50, seconds))
    theirs = sorted(sandboxes.watch_latencies(real, watchers, 50, seconds))
    at = int(len(ours) * 0.99)
    ratios.add(SUITE, "write to event at every watch, p99", "s", ours[at], kube_apiserver=theirs[at])


def test_lists(ratios: Ratios, real: KubeApiserver, tmp_path: Path) -> None:
    """List all pods as JSON, and measure their memory."""
    count = 10_000
    with sandboxes.sandbox(tmp_path) as server:
        sandboxes.create(server, sandboxes.PODS, count, sandboxes.created_pod)
        ours = sorted(sandboxes.list_seconds(server, sandboxes.PODS) for _ in range(5))[2]
        held = sandboxes.memory(server.pid)
    before = sandboxes.memory(real.pid)
    sandboxes.create(real, sandboxes.PODS, count, sandboxes.created_pod)
    theirs = sorted(sandboxes.list_seconds(real, sandboxes.PODS) for _ in range(5))[2]
    ratios.add(SUITE, "list of all pods as JSON", "s", ours, kube_apiserver=theirs)
    grown = sandboxes.memory(real.pid) - before
    ratios.add(SUITE, "memory with these pods", "B", held, kube_apiserver=before + grown)


def test_many_pods(ratios: Ratios, tmp_path: Path) -> None:
    """Measure the memory of a sandbox with 100,000 pods."""
    count = 100_000
    with sandboxes.sandbox(tmp_path) as server:
        for first in range(0, count, 5_000):
            sandboxes.create(server, sandboxes.PODS, 5_000, sandboxes.created_pod, first=first)
        ratios.add(SUITE, f"memory with {count:,} pods", "B", sandboxes.memory(server.pid))
