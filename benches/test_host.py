"""From the start of a host to every pod of a kube-apiserver reconciled once, against kopf and controller-runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from benches.pods import FIRST_REVISION, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from benches.ratios import Ratios
    from tests.support.control_plane import KubeApiserver

WRITERS = 16


def fill(server: KubeApiserver, count: int) -> None:
    """Create pods like the stub server's, without the fields that a server refuses on create."""
    client = server.client

    def create(number: int) -> None:
        body = pod(number, FIRST_REVISION)
        metadata, spec = body["metadata"], body["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        kept = {key: metadata[key] for key in ("name", "labels", "annotations")}
        containers = [container | {"resources": {"limits": {"memory": "8Gi"}}} for container in spec["containers"]]
        client.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**kept, "namespace": "default"},
                "spec": {**spec, "containers": containers, "serviceAccountName": "default"},
            }
        )

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(create, range(count)))


def run(which: str, server: KubeApiserver, pods: int, *plugins: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benches.hosts", which, str(server.kubeconfig), str(pods), *plugins]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=400)
    figures: dict[str, float] = json.loads(done.stdout)
    assert figures["complete"], f"{which} did not reconcile all pods in time"
    return figures


def test_every_pod_once(
    benchmark: BenchmarkFixture,
    ratios: Ratios,
    own_kube_apiserver: KubeApiserver,
    go_peers: Callable[..., dict[str, float]],
) -> None:
    pods, rounds = 10_000, 3
    fill(own_kube_apiserver, pods)
    ours = benchmark.pedantic(lambda: [run("ctrlhost", own_kube_apiserver, pods) for _ in range(rounds)], rounds=1)
    ours = sorted(ours, key=lambda run: run["seconds"])[rounds // 2]
    kopf = run("kopf", own_kube_apiserver, pods)
    go = go_peers("controller", str(own_kube_apiserver.kubeconfig))
    ratios.add(
        "host",
        f"start to {pods:,} pods reconciled once",
        "s",
        ours["seconds"],
        kopf=kopf["seconds"],
        controller_runtime=go.get("seconds", 0.0),
    )
    ratios.add(
        "host",
        "peak memory",
        "B",
        ours["peak_bytes"],
        kopf=kopf["peak_bytes"],
        controller_runtime=go.get("resident_bytes", 0.0),
    )


@pytest.mark.headline
def test_reconciles_that_do_nothing(ratios: Ratios, go_peers: Callable[..., dict[str, float]]) -> None:
    """Run 100,000 requests through four workers: context, metrics, queue, and a reconciler that only counts."""
    command = [sys.executable, "-m", "benches.reconciles", "100000"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300)
    peer = go_peers("reconciles").get("reconcile", 0.0)
    ratios.add("host", "no-op reconcile, 4 workers", "s", json.loads(done.stdout)["reconcile"], controller_runtime=peer)
