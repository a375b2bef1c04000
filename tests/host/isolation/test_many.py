"""Many isolated plugins that read one kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.host.conftest import Distributions, StartHost
from tests.support.host_process import HostProcess
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Answer, Computed, Failure, Frames, Json, StubApiServer
from tests.support.stub_http import ReceivedRequest

PODS, CHILDREN, EVENTS = 10_000, 10, 1000
PATH = "/api/v1/pods"
MIB = 1 << 20

#: Logs when it has seen all pods, and each pod that says so.
READER = """
    import ctrlhost

    seen = set()

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "Pod"))

    def reconcile(ctx, request):
        seen.add(request.name)
        if len(seen) == {pods}:
            ctx.log.info("{name} has seen all")
            seen.add("")
        pod = ctx.get(request)
        if pod is not None and pod.get_path("metadata", "annotations", "last"):
            ctx.log.info("{name} has seen the end")
"""


def pod(number: int, version: int, **annotations: str) -> dict[str, Any]:
    metadata = {
        "name": f"pod-{number}",
        "namespace": "default",
        "uid": str(number),
        "resourceVersion": str(version),
        "annotations": annotations,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"text": f"{number:08}" * 50}}


def resident(host: HostProcess) -> int:
    """Return the resident memory of the host in bytes."""
    text = Path(f"/proc/{host.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) << 10


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.behaviour("supervision/PI23")
def test_ten_processes_share_one_watch_and_the_cache_of_the_host(
    start_host: StartHost, distributions: Distributions, tmp_path: Path
) -> None:
    """The latency is a figure of the benches: `feed: event to its reader, p99`."""
    names = [f"bad{number}" for number in range(CHILDREN)]
    for name in ("good", *names):
        distributions.add(name, READER.format(name=name, pods=PODS))
    alone = _memory(start_host, tmp_path, "good")
    shared = _memory(start_host, tmp_path, "good", *names)
    assert shared - alone < 20 * 1000**2 + 16 * MIB, (shared / MIB, alone / MIB)


def _memory(start_host: StartHost, folder: Path, *plugins: str) -> int:
    """Return the memory of a host after some changes, all of whose plugins but the first are isolated."""
    frames = Frames()
    items = [pod(number, 1) for number in range(PODS)]
    with StubApiServer() as server:
        pods = Json({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items})

        def answer(request: ReceivedRequest) -> Answer:
            if "sendInitialEvents" in request.query:
                # As a server of an earlier version.
                return Failure(422, "Invalid")
            return frames if "watch" in request.query else pods

        server.on("GET", PATH, Computed(answer))
        config = written(folder, kubeconfig({"server": server.url}))
        isolated = [f"--isolate={','.join(plugins[1:])}"] if plugins[1:] else []
        host = start_host(f"--kubeconfig={config}", *isolated, plugins=",".join(plugins))
        for plugin in plugins:
            host.line(f"{plugin} has seen all")
        for number in range(EVENTS):
            frames.send_event({"type": "MODIFIED", "object": pod(number, 2 + number)})
        frames.send_event({"type": "MODIFIED", "object": pod(0, 2 + EVENTS, last="yes")})
        for plugin in plugins:
            host.line(f"{plugin} has seen the end")
        size = resident(host)
        watches = [request.query for request in server.received(watch=True) if "sendInitialEvents" not in request.query]
        assert len(watches) == 1, watches
        assert host.stop() == 0
    return size
