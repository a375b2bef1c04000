"""From the start of a host to 10,000 pods of a kube-apiserver, beside controller-runtime and bare downloads."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pytest

from benches.bare_patches import connect
from benches.bundled import PLUGINS
from benches.test_host import fill, run
from benches.test_varied_pods import cached
from ctrlhost.supervisor.loader import PluginManager, owned_crds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.ratios import Ratios
    from tests.support.control_plane import KubeApiserver

pytestmark = pytest.mark.scale

PODS = "/api/v1/pods"
STREAM = f"{PODS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def download(kubeconfig: Path, path: str, end: bytes = b"") -> float:
    """Return the seconds of a bare download, connection and all, until an end in the answer, or its own."""
    start = time.perf_counter()
    connection, headers = connect(kubeconfig)
    connection.request("GET", path, headers=headers | {"Accept": PROTOBUF})
    answer, last = connection.getresponse(), b""
    assert answer.status == 200
    while piece := answer.read1(1 << 20):
        if end and end in last + piece:
            break
        last = piece[-len(end) :]
    taken = time.perf_counter() - start
    connection.close()
    return taken


@pytest.mark.headline
@pytest.mark.behaviour("scale/SC151")
@pytest.mark.behaviour("scale/SC152")
@pytest.mark.behaviour("scale/SC153")
@pytest.mark.behaviour("faster/FA1")
@pytest.mark.behaviour("faster/FA2")
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
    ours, beside, go, lists, listed, streamed = [], [], [], [], [], []
    for _ in range(rounds):
        ours.append(run("ctrlhost", own_kube_apiserver, count))
        beside.append(run("ctrlhost", own_kube_apiserver, count, *PLUGINS))
        go.append(go_peers("controller", str(config)))
        lists.append(cached("auto", str(config))["seconds"])
        listed.append(download(config, PODS))
        streamed.append(download(config, STREAM, b"k8s.io/initial-events-end"))

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
    peers = {"raw_download": statistics.median(listed), "raw_stream": statistics.median(streamed)}
    ratios.add("scale", f"list of {count:,} pods until synced", "s", statistics.median(lists), **peers)
