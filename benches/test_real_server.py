"""From the start of a host to 10,000 pods of a kube-apiserver, beside controller-runtime and bare downloads."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benches.bundled import PLUGINS
from benches.test_host import fill, run
from ctrlhost.supervisor.loader import PluginManager, owned_crds

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios
    from tests.support.control_plane import KubeApiserver

pytestmark = pytest.mark.scale


def first_lists(server: KubeApiserver, rounds: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benches.first_lists", str(server.kubeconfig), str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=400)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@pytest.mark.headline
@pytest.mark.behaviour("scale/SC151")
@pytest.mark.behaviour("scale/SC152")
@pytest.mark.behaviour("scale/SC153")
@pytest.mark.behaviour("faster/FA1")
@pytest.mark.behaviour("faster/FA2")
@pytest.mark.behaviour("faster/FA3")
def test_a_list_of_a_real_server(
    ratios: Ratios, own_kube_apiserver: KubeApiserver, go_peers: Callable[..., dict[str, float]]
) -> None:
    """All take turns, since the speed of a machine drifts. The server has all pods in its cache."""
    count, rounds = (2_000, 1) if ratios.short else (10_000, 9)
    config = own_kube_apiserver.kubeconfig
    manager = PluginManager()
    for crd in owned_crds(map(manager.load, PLUGINS)):
        own_kube_apiserver.client.create(crd)
    fill(own_kube_apiserver, count)
    ours, beside, go = [], [], []
    for _ in range(rounds):
        ours.append(run("ctrlhost", own_kube_apiserver, count))
        beside.append(run("ctrlhost", own_kube_apiserver, count, *PLUGINS))
        go.append(go_peers("controller", str(config)))
    lists = first_lists(own_kube_apiserver, rounds)

    def of(runs: list[dict[str, float]], figure: str) -> float:
        return statistics.median(run.get(figure, 0.0) for run in runs)

    name = f"start of a host to {count:,} pods reconciled"
    ratios.add("scale", name, "s", of(ours, "seconds"), controller_runtime=of(go, "seconds"))
    with_all = "start of a host with the bundled plugins"
    ratios.add(
        "scale",
        f"{with_all} to {count:,} pods reconciled",
        "s",
        of(beside, "seconds"),
        controller_runtime=of(go, "seconds"),
    )
    resident = of(ours, "resident_bytes")
    ratios.add("scale", f"{name}: memory", "B", resident, controller_runtime=of(go, "resident_bytes"))
    peers = {"raw_download": lists["list"], "raw_stream": lists["stream"]}
    ratios.add("scale", f"list of {count:,} pods until synced", "s", lists["informer"], **peers)
