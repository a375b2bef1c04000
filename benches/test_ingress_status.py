"""A new address on every Ingress of a kube-apiserver, against a client that only sends the requests."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.host_process import HostProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from benches.ratios import Ratios

INGRESS = ("networking.k8s.io/v1", "Ingress")
CONNECTIONS = 8
ROUNDS = 3
LIMIT = 300.0
#: The audit rule for writes of a status, without their bodies.
AUDIT = [{"level": "Metadata", "verbs": ["patch", "update"], "resources": [{"group": INGRESS[0][:-3]}]}]
SETTINGS = {
    "envoy-service-namespace": '"default"',
    "status-qps": "0",
    "status-workers": str(CONNECTIONS),
    "address-holdoff": '"0s"',
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubeApiserver]:
    require_kube_apiserver()
    with KubeApiserver(tmp_path / "kube-apiserver", audit=AUDIT) as running:
        yield running


class Cluster:
    """Ingresses of two classes, the Service that ours follow, and the server's audit log."""

    def __init__(self, server: KubeApiserver, count: int, others: int) -> None:
        self.server = server
        names = [f"ours-{number:05}" for number in range(count)] + [f"theirs-{number:05}" for number in range(others)]
        with ThreadPoolExecutor(4 * CONNECTIONS) as pool:
            ingresses = list(pool.map(self._create, names))
        self.theirs = [
            f"{ingress['name']} {ingress['uid']}" for ingress in ingresses if ingress["name"].startswith("theirs")
        ]
        metadata = {"name": "envoy", "namespace": "default"}
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        server.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def _create(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
        if name.startswith("theirs"):
            spec["ingressClassName"] = "theirs"
        metadata = {"name": name, "namespace": "default"}
        created = self.server.client.create(
            {"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": metadata, "spec": spec}
        )
        new_metadata: dict[str, Any] = created["metadata"]
        return new_metadata

    def assign(self, ip: str) -> None:
        status = {"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}}
        self.server.client.patch("v1", "Service", "envoy", "default", status, subresource="status")

    def writes(self) -> list[dict[str, Any]]:
        return [event for event in self.server.audited() if event["stage"] == "ResponseComplete"]

    def written(self, count: int, cause: Callable[[], None]) -> list[dict[str, Any]]:
        """Wait until a number of Ingresses were written after a step, and return these writes."""
        before, deadline = len(self.writes()), time.monotonic() + LIMIT
        with (self.server.directory / "audit.log").open("rb") as log:
            log.seek(0, os.SEEK_END)
            cause()
            seen, rest = 0, b""
            # Rarely, and only new lines: reading takes time from the measured processes.
            while seen < count:
                assert time.monotonic() < deadline, f"{seen} of {count} were written"
                time.sleep(0.2)
                lines, _, rest = (rest + log.read()).rpartition(b"\n")
                seen += lines.count(b'"ResponseComplete"')
        writes = self.writes()[before:]
        assert len(writes) == len({write["objectRef"]["name"] for write in writes}) == count, "one write each"
        assert {write["responseStatus"]["code"] for write in writes} == {200}
        return writes


def seconds(writes: list[dict[str, Any]]) -> float:
    """Return the time per write, from the arrival of the first request to the answer of the last one."""
    first = min(datetime.fromisoformat(write["requestReceivedTimestamp"]) for write in writes)
    last = max(datetime.fromisoformat(write["stageTimestamp"]) for write in writes)
    return (last - first).total_seconds() / len(writes)


def processor_time(host: HostProcess) -> float:
    """Return the processor time of a host so far, in seconds."""
    fields = Path(f"/proc/{host.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(server: KubeApiserver) -> HostProcess:
    options = [f"--set=ingress-status.{name}={value}" for name, value in SETTINGS.items()]
    return HostProcess("--plugins=ingress-status", f"--kubeconfig={server.kubeconfig}", *options, forked=False)


def current(host: HostProcess, count: int) -> bool:
    return f'ctrlhost_ingress_status_objects{{state="current"}} {count}.0' in host.get("/metrics")[1]


def bare(which: str, cluster: Cluster, ip: str, taken: list[float]) -> None:
    """Write this address to every other Ingress with a bare client, and record its processor time."""
    done = subprocess.run(
        [sys.executable, "-m", "benches.bare_patches", which, str(cluster.server.kubeconfig), str(CONNECTIONS), ip],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        input="\n".join(cluster.theirs),
        text=True,
        timeout=LIMIT,
    )
    taken.append(float(done.stdout) / len(cluster.theirs))


def settle(host: HostProcess, count: int) -> None:
    """Wait until the host has seen all its writes."""
    deadline = time.monotonic() + LIMIT
    while not current(host, count):
        assert time.monotonic() < deadline, host.get("/metrics")[1]
        time.sleep(0.2)


def test_a_changed_address_on_every_ingress(benchmark: BenchmarkFixture, ratios: Ratios, server: KubeApiserver) -> None:
    count, others = 10_000, 2_500
    cluster = Cluster(server, count, others)
    cluster.assign("203.0.113.1")
    ours: list[float] = []
    theirs: dict[str, list[float]] = {"ctrlhost": [], "http.client": []}
    processor: dict[str, list[float]] = {"host": [], "ctrlhost": [], "http.client": []}

    def measure() -> None:
        for turn in range(ROUNDS):
            before = processor_time(host)
            ours.append(seconds(cluster.written(count, lambda turn=turn: cluster.assign(f"203.0.113.{turn + 10}"))))
            settle(host, count)
            processor["host"].append((processor_time(host) - before) / count)
            # The watch stays open, so every client has a server with one watcher; the host does not slow the others.
            host.signal(signal.SIGSTOP)
            for number, which in enumerate(theirs):
                ip = f"203.0.113.{turn * 2 + number + 100}"
                cause = functools.partial(bare, which, cluster, ip, processor[which])
                theirs[which].append(seconds(cluster.written(others, cause)))
            host.signal(signal.SIGCONT)
            settle(host, count)
            time.sleep(1.0)

    with start(server) as host:
        host.line("plugin ingress-status running")
        settle(host, count)
        benchmark.pedantic(measure, rounds=1)
    before = len(cluster.writes())
    with start(server) as host:
        host.line("plugin ingress-status running")
        settle(host, count)
        host.signal(signal.SIGTERM)
        assert host.wait() == 0
    assert len(cluster.writes()) == before, "a pass over what is right writes nothing"
    for what, mine, them in (
        (f"new address on {count:,} Ingresses, a write", ours, theirs),
        (f"new address on {count:,} Ingresses, processor time of a write", processor["host"], processor),
    ):
        bare_client, http_client = median(them["ctrlhost"]), median(them["http.client"])
        ratios.add("ingress-status", what, "s", median(mine), bare_client=bare_client, http_client=http_client)
