"""What a restart takes, in the host's process or in the plugin's own, and what such a process costs and gives."""

from __future__ import annotations

import os
import signal
import statistics
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benches.supervised import GOOD, bad, host, latencies, processor_time, resident

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benches.ratios import Ratios
    from tests.support.host_process import HostProcess

    StubPods = Callable[..., Any]

PODS = 10_000
#: Seconds without a heartbeat until a process is killed; 10 by default.
HEARTBEAT = 2
COMPUTING = "from benches.computing_plugin import *\n"


def at(line: dict[str, Any]) -> float:
    """Return the time of a log line, in seconds since the epoch."""
    return datetime.fromisoformat(line["ts"]).timestamp()


def process_of(running: HostProcess, plugin: str) -> int:
    """Return the id of the plugin's newest process, which its own log lines have."""
    numbers: list[int] = [line["pid"] for line in running.lines if line.get("plugin") == plugin and "pid" in line]
    return numbers[-1]


def restarted(running: HostProcess, plugin: str, after: int) -> tuple[dict[str, Any], float]:
    """Wait for a failure and the restart after it; return the line of the failure, and the seconds after the pause."""
    failed = running.line(f"plugin {plugin} failing", after=after)
    begun = running.line(f"plugin {plugin} restarts", after=running.lines.index(failed))
    again = running.line(f"plugin {plugin} running", after=running.lines.index(begun))
    return failed, at(again) - at(begun)


@pytest.mark.behaviour("supervision/LC5")
def test_a_restart_in_the_process(ratios: Ratios, stub_pods: StubPods, tmp_path: Path) -> None:
    plugin = "reconcile-hangs-once"
    settings = (f"--set=supervision.{plugin}.stuck_limit=1", f'--set=controllers."{plugin}/pods".slow_after=100ms')
    with stub_pods(PODS, 0) as url, host(tmp_path, url, GOOD | bad(plugin), *settings) as running:
        _, seconds = restarted(running, plugin, 0)
        assert running.stop() == 0
    ratios.add("supervision", "restart in the process with 10,000 objects, after the pause", "s", seconds)


@contextmanager
def isolated(folder: Path, url: str, *settings: str) -> Iterator[tuple[HostProcess, int]]:
    """Run `good`, and a plugin in a process of its own; both watch the pods."""
    with host(folder, url, GOOD | bad("nothing"), "--isolate=nothing", *settings) as running:
        running.line("plugin nothing running")
        running.line("plugin good running")
        yield running, process_of(running, "nothing")
        assert running.stop() == 0


def settled(pid: int) -> int:
    """Return the resident bytes of a process once they no longer change."""
    before, now = 0, resident(pid)
    while before != now:
        time.sleep(0.5)
        before, now = now, resident(pid)
    return now


@pytest.mark.headline
def test_memory_of_a_process(ratios: Ratios, stub_pods: StubPods, tmp_path: Path) -> None:
    sizes = []
    for pods in (0, PODS):
        with stub_pods(pods, 0) as url, isolated(tmp_path / str(pods), url) as (running, child):
            sizes.append((settled(child), settled(running.pid)))
    (child, here), (child_with_cache, here_with_cache) = sizes
    ratios.add("isolation", "memory of a process before its cache", "B", child)
    per_pod, per_pod_here = (child_with_cache - child) / PODS, (here_with_cache - here) / PODS
    ratios.add("isolation", "memory of a process in each cached pod", "B", per_pod, host=per_pod_here)


#: A host with this plugin spawns all processes.
SPAWNS = """
from ctrlhost.supervisor.fork_server import ForkServer

ForkServer.prepare = lambda *_, **__: None
from benches.good_plugin import *
"""


def private(pid: int) -> int:
    """Return the bytes of a process that it shares with no other one."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


def starts(folder: Path, url: str, good: str, count: int) -> tuple[list[float], int]:
    """Return the seconds of restarts from the start of a process until the plugin runs, and its private bytes."""
    delay = "--set=supervision.nothing.restart_delay=10ms", f"--set=supervision.nothing.restart_limit={count + 2}"
    with host(folder, url, bad("nothing") | {"good": good}, "--isolate=nothing", *delay) as running:
        running.line("plugin nothing running")
        taken = []
        for _ in range(count + 1):
            known = len(running.lines)
            os.kill(process_of(running, "nothing"), signal.SIGKILL)
            taken.append(restarted(running, "nothing", known)[1])
        child = process_of(running, "nothing")
        settled(child)
        size = private(child)
        assert running.stop() == 0
    # The first one waits for the imports of the process that forks the others.
    return taken[1:], size


@pytest.mark.behaviour("faster/FA17")
def test_start_from_a_fork(ratios: Ratios, stub_pods: StubPods, tmp_path: Path) -> None:
    count = 9
    with stub_pods(10, 0) as url:
        spawned, size_spawned = starts(tmp_path / "spawned", url, SPAWNS, count)
        forked, size = starts(tmp_path / "forked", url, GOOD["good"], count)
    name = "start of a process until its plugin runs, from a fork"
    ratios.add("isolation", name, "s", statistics.median(forked), spawned=statistics.median(spawned))
    ratios.add("isolation", "memory of a process that it does not share", "B", size, spawned=size_spawned)


@pytest.mark.behaviour("supervision/PI2")
@pytest.mark.behaviour("supervision/PI3")
def test_a_crash_and_a_hang(ratios: Ratios, stub_pods: StubPods, tmp_path: Path) -> None:
    timeout = f"--set=supervision.nothing.heartbeat_timeout={HEARTBEAT}s"
    with stub_pods(PODS, 0) as url, isolated(tmp_path, url, timeout) as (running, first):
        known, began = len(running.lines), time.time()
        os.kill(first, signal.SIGKILL)
        failed, seconds = restarted(running, "nothing", known)
        ratios.add("isolation", "crash to noticed", "s", at(failed) - began)
        ratios.add("isolation", "running again with 10,000 objects, after the pause", "s", seconds)
        known, began = len(running.lines), time.time()
        os.kill(process_of(running, "nothing"), signal.SIGSTOP)
        failed, _ = restarted(running, "nothing", known)
        late = at(failed) - began - HEARTBEAT
        ratios.add("isolation", "hang to noticed, beyond heartbeat_timeout", "s", late)


@pytest.mark.behaviour("faster/FA14")
def test_processor_time_of_the_host(ratios: Ratios, stub_pods: StubPods, tmp_path: Path) -> None:
    """Measure the host at 1,000 events/s, with and without a process that hears them all."""
    events, pace = 20_000, 1_000
    used = []
    for name, arguments in (("alone", ()), ("beside", ("--isolate=nothing",))):
        plugins = GOOD | (bad("nothing") if arguments else {})
        with stub_pods(2_000, events, pace) as url, host(tmp_path / name, url, plugins, *arguments) as running:
            for plugin in plugins:
                running.line(f"plugin {plugin} running")
            began = processor_time(running.pid)
            latencies(running, events, pace)
            used.append((processor_time(running.pid) - began) / events)
            assert running.stop() == 0
    name = "processor time that one process adds to the host in an event, at 1,000/s"
    ratios.add("isolation", name, "s", used[1] - used[0], host_without=used[0])


def reconciles(folder: Path, url: str, seconds: float, *arguments: str) -> float:
    """Return how many reconciles a second four plugins do that compute."""
    names = [f"computing-{number}" for number in range(4)]
    with host(folder, url, dict.fromkeys(names, COMPUTING), *arguments) as running:
        for name in names:
            running.line(f"plugin {name} running")

        def done() -> list[tuple[float, int]]:
            known = len(running.lines)
            lines = [told(running, name, known) for name in names]
            return [(float(words[3]), int(words[1])) for words in lines]

        before = done()
        time.sleep(seconds)
        busy = sum((late[1] - early[1]) / (late[0] - early[0]) for early, late in zip(before, done(), strict=True))
        assert running.stop() == 0
    return busy


def told(running: HostProcess, plugin: str, after: int) -> list[str]:
    """Return the words of the plugin's next line about its reconciles."""
    words: list[str] = running.wait_for(
        lambda: next(
            (
                line["msg"].split()
                for line in running.lines[after:]
                if line.get("plugin") == plugin and line["msg"].startswith("done ")
            ),
            None,
        ),
        f"line of {plugin}",
    )
    return words


@pytest.mark.headline
def test_plugins_that_compute_share_the_processors(ratios: Ratios, stub_pods: StubPods, tmp_path: Path) -> None:
    seconds = 3 if ratios.short else 15
    with stub_pods(100, 0) as url:
        shared = reconciles(tmp_path / "shared", url, seconds)
        own = reconciles(tmp_path / "own", url, seconds, "--isolate=all")
    name = "a reconcile of four plugins that compute, each in a process of its own"
    ratios.add("isolation", name, "s", 1 / own, one_process=1 / shared)
