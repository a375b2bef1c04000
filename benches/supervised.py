"""`ctrlhost run` on pods of the stub server, with a plugin `good` that is measured and others beside it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.pods import FIRST_REVISION
from tests.host.conftest import Distributions
from tests.support.host_process import HostProcess
from tests.support.kubeconfigs import kubeconfig, written

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PROBES = ("/livez", "/readyz", "/healthz", "/metrics")
#: Seconds that a shutdown waits for what hangs.
DRAIN = 1.0
#: Linux's flag of the clock of a process: CPUCLOCK_SCHED.
_PROCESS_CLOCK = 2
GOOD = {"good": "from benches.good_plugin import *\n"}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a plugin does to others."""

    #: Seconds from an event to its reconcile in the other plugin.
    p99: float
    #: Seconds that the slowest kind of probe takes, and `/metrics`.
    probe: float
    metrics: float
    #: Seconds from SIGTERM to the end.
    end: float
    #: Processor time of the host in an event.
    cpu: float


def processor_time(pid: int) -> float:
    """Return the seconds that a process has run."""
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


def resident(pid: int) -> int:
    """Return the resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@contextmanager
def host(folder: Path, url: str, plugins: dict[str, str], *arguments: str) -> Iterator[HostProcess]:
    """Run a host with plugins, each with its source."""
    site = folder / "site"
    site.mkdir(parents=True)
    distributions = Distributions(site)
    for name, source in plugins.items():
        distributions.add(name, source)
    config = written(folder, kubeconfig({"server": url}))
    environment = distributions.environment(PYTHONPATH=f"{site}:{ROOT}")
    options = (f"--plugins={','.join(plugins)}", f"--kubeconfig={config}", f"--set=host.drain_timeout={DRAIN:g}s")
    with HostProcess(*options, *arguments, environment=environment, forked=False) as process:
        yield process


def p99(seconds: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(seconds)[max(len(seconds) * 99 // 100 - 1, 0)]


def latencies(process: HostProcess, events: int, pace: int) -> list[float]:
    """Wait until `good` has reconciled the last event, and return how long each took, without the first tenth."""
    time.sleep(events / pace)

    def over() -> list[int]:
        answer: dict[str, Any] = json.loads(process.get("/good/latencies")[1])
        return answer["latencies"] if answer["newest"] == FIRST_REVISION + events else []

    taken: list[int] = process.eventually(over, "last event")
    return [nanoseconds / 1e9 for nanoseconds in taken[len(taken) // 10 :]]


def answered(address: str, path: str) -> float:
    """Return the seconds that a request on a connection of its own takes."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        # As the kubelet does.
        connection.request("GET", path, headers={"Connection": "close"})
        assert connection.getresponse().read()
    finally:
        connection.close()
    return time.perf_counter() - began


def bad(*kinds: str) -> dict[str, str]:
    """Return the plugins of these kinds with their sources."""
    sources = dict.fromkeys(kinds, "from benches.bad_plugin import *\n")
    if "import-hangs" in kinds:
        sources["import-hangs"] = "from benches.bad_plugin import hang\n\nhang()\n"
    return sources


def visit(process: HostProcess, path: str) -> None:
    """Ask for a page that may never answer."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        process.get(path)


def beside(process: HostProcess, events: int, pace: int, requests: int) -> Measured:
    """Measure `good` beside plugins that misbehave, then the probes, then the end."""
    process.line("plugin good running")
    for kind in ("page-hangs", "page-computes"):
        threading.Thread(target=visit, args=(process, f"/{kind}/"), daemon=True).start()
    process.get("/metrics")
    process.get("/healthz")
    spent = processor_time(process.pid)
    seconds = latencies(process, events, pace)
    spent = processor_time(process.pid) - spent
    probes = {path: p99([answered(process.address, path) for _ in range(requests)]) for path in PROBES}
    began = time.monotonic()
    assert process.stop() == 0
    return Measured(
        p99=p99(seconds),
        probe=max(probes.values()),
        metrics=probes["/metrics"],
        end=time.monotonic() - began,
        cpu=spent / events,
    )
