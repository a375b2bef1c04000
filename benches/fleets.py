"""Replicas of a host that share the keys of a controller, each in a process, and their figures.

The API server is a sandbox in another process, whose feature gate can be turned.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from benches.sandboxes import SandboxProcess
from tests.host.conftest import Distributions
from tests.host.replicas import SHORT
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 300.0
SERVER = """
import sys
from ctrlhost_sandbox import Options, Sandbox
gates = {"ShardedListAndWatch": True}
sandbox = Sandbox(kubeconfig=sys.argv[1], controllers=(), options=Options(feature_gates=gates)).start()
print(sandbox.url, flush=True)
for line in sys.stdin:
    gates["ShardedListAndWatch"] = line == "on\\n"
    print(line, end="", flush=True)
"""


class GatedSandbox(SandboxProcess):
    """A sandbox whose feature gate for shards can be turned; it is on at first."""

    process: subprocess.Popen[str]

    def turn(self, gate: str) -> None:
        """Turn the gate `on` or `off`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{gate}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{gate}\n"


@contextmanager
def gated_sandbox(directory: Path) -> Iterator[GatedSandbox]:
    """Run a sandbox without controllers, which keeps its objects in memory."""
    began, kubeconfig = time.perf_counter(), directory / "kubeconfig"
    command = [sys.executable, "-c", SERVER, str(kubeconfig)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            server = GatedSandbox(url, kubeconfig, process.pid, time.perf_counter() - began)
            server.process = process
            yield server
        finally:
            process.kill()


class Replica(HostProcess):
    """One replica, and its metrics."""

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over all samples with these labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        samples = (sample for family in families for sample in family.samples)
        return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())

    @property
    def ready(self) -> bool:
        """Whether what it should have is open."""
        return self.get("/readyz")[0] == 200


@contextmanager
def replicas(server: SandboxProcess, directory: Path, source: str, shards: int = 0) -> Iterator[Replicas]:
    """Run replicas of a host with one plugin; `shards` is the setting `min_members`, 0 for a host without shards."""
    with ExitStack() as running:
        yield Replicas(server, directory, source, shards, running)


class Replicas:
    """The replicas that run."""

    def __init__(self, server: SandboxProcess, directory: Path, source: str, shards: int, running: ExitStack) -> None:
        directory.mkdir()
        self._distributions = Distributions(directory)
        self._distributions.add("bench", source)
        self._options = [f"--kubeconfig={server.kubeconfig}", "--plugins=bench", *SHORT.options()]
        self._options.append("--set=host.leader_elect_resource_namespace=default")
        if shards:
            # Leases of their own, so that no map is left of others.
            self._options += ["--shards", f"--set=shards.name={directory.name}", f"--set=shards.min_members={shards}"]
        self._running = running
        self.all: list[Replica] = []

    def start(self, count: int) -> None:
        """Start so many more, and wait until they are ready."""
        for _ in range(count):
            environment = self._distributions.environment(HOSTNAME=f"replica-{len(self.all)}")
            self.all.append(self._running.enter_context(Replica(*self._options, environment=environment)))
        for replica in self.all[-count:]:
            eventually(lambda replica=replica: replica.ready, LIMIT, "a replica that is ready", pause=0.1)

    def total(self, name: str) -> float:
        """Return the sum of a metric over all replicas."""
        return sum(each.total(name) for each in self.all)

    def cached(self, resource: str) -> list[float]:
        """Return the number of objects in each cache."""
        return [each.total("ctrlhost_informer_objects", resource=resource) for each in self.all]

    def share(self, resource: str, count: int) -> None:
        """Wait until each object is in one cache, and no replica has over 1.15 of the mean, or of one more object."""

        def shared() -> bool:
            cached = self.cached(resource)
            return sum(cached) == count and max(cached) * len(cached) <= 1.15 * count

        eventually(shared, LIMIT, f"the replicas share {count} {resource}", pause=0.2)

    def settled(self, resource: str) -> dict[str, list[float]]:
        """Wait until the caches change no more, such as by compression, for three seconds; return their figures."""
        names = {"cache": "ctrlhost_informer_memory_bytes", "received": "ctrlhost_informer_received_bytes_total"}
        last: dict[str, list[float]] = {}
        since, deadline = time.monotonic(), time.monotonic() + LIMIT
        while time.monotonic() < since + 3 and time.monotonic() < deadline:
            figures: dict[str, list[float]] = defaultdict(list)
            for what, name in names.items():
                figures[what] = [each.total(name, resource=resource) for each in self.all]
            if figures != last:
                last, since = figures, time.monotonic()
            time.sleep(0.5)
        return last
