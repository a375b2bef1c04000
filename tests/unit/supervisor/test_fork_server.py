"""Processes of plugins that are forked: each is a child of this process, and like one that is spawned."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctrlhost import _core
from ctrlhost.supervisor import fork_server
from ctrlhost.supervisor.fork_server import ForkServer
from ctrlhost.supervisor.process import Process
from tests.support.processes import Found, children_of, processes
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.behaviour("faster/FA17"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only"),
]
Start = Callable[..., Process]
#: The exit code of a process whose control socket was closed.
ABANDONED = 3


@pytest.fixture
def forks() -> Iterator[ForkServer]:
    forks = ForkServer()
    yield forks
    forks.close()
    assert servers() == []


@pytest.fixture
def start(forks: ForkServer, tmp_path: Path) -> Iterator[Start]:
    """Start a process of the plugin `demo`, which waits for what it is to run."""
    started: list[Process] = []

    def start_one(server: ForkServer = forks) -> Process:
        server.prepare(unless=threading.Event())
        process = Process("demo", tmp_path, server)
        started.append(process)
        # At first it has the command of the server.
        eventually(lambda: "ctrlhost.host.child" in look_at(process).command)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.wait()
        process.channel.close()


def servers() -> list[Found]:
    """Return the processes that fork."""
    return [process for process in children_of(os.getpid()) if "ctrlhost.host.fork_server" in process.command]


def forked(process: Process) -> bool:
    return not isinstance(process._started, subprocess.Popen)


def look_at(process: Process) -> Found:
    return next(found for found in processes() if found.pid == process.pid)


def await_main(process: Process) -> None:
    """Wait until the program of the process waits for its first message."""
    eventually(lambda: (1 << signal.SIGUSR1 - 1) & int(status_of(process)["SigCgt"], 16))


def status_of(process: Process) -> dict[str, str]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_a_forked_process_is_a_child_like_one_that_is_spawned(start: Start) -> None:
    spawned, ours = start(ForkServer(spared=1)), start()
    assert (forked(spawned), forked(ours)) == (False, True)
    seen = []
    for process in (spawned, ours):
        await_main(process)
        found = look_at(process)
        assert (found.parent, found.group) == (os.getpid(), process.pid)
        status = status_of(process)
        descriptors = list(Path(f"/proc/{process.pid}/fd").iterdir())
        seen.append(
            (
                [word for word in found.command.split() if not word.isdigit()],
                {name: status[name] for name in ("Threads", "Umask", "SigBlk", "SigIgn", "SigCgt", "Seccomp", "Uid")},
                Path(f"/proc/{process.pid}/limits").read_text(),
                Path(f"/proc/{process.pid}/cwd").readlink(),
                [Path(f"/proc/{process.pid}/fd/{number}").stat() for number in range(3)],
                Counter(str(descriptor.readlink()).partition(":")[0] for descriptor in descriptors),
            )
        )
    assert seen[0] == seen[1]
    assert seen[0][0][-1] == "demo"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_end_of_a_forked_process_is_seen(start: Start, number: signal.Signals) -> None:
    process = start()
    await_main(process)
    assert process.rss() > 1 << 20
    process.signal(number)
    if number == signal.SIGTERM:
        assert not process.wait(0)
        process.channel.close()
    assert process.wait(30)
    assert process.code == (ABANDONED if number == signal.SIGTERM else -number)
    assert 0 < process.cpu_seconds() < 30
    assert [found for found in children_of(os.getpid()) if found.pid == process.pid] == []


def test_a_server_has_one_thread_and_adopts_only_during_a_fork(start: Start) -> None:
    assert start().pid != start().pid
    (server,) = servers()
    assert len(list(Path(f"/proc/{server.pid}/task").iterdir())) == 1
    assert children_of(server.pid) == []
    assert _core.adopt_orphans(False) is False


def test_the_first_process_of_a_single_plugin_is_spawned(start: Start) -> None:
    forks = ForkServer(spared=1)
    assert not forked(start(forks))
    assert servers() == []
    assert forked(start(forks))
    forks.close()


def test_processes_outlive_a_server_that_dies_and_the_next_start_has_a_new_one(start: Start, forks: ForkServer) -> None:
    first = start()
    (server,) = servers()
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    assert forked(start())
    (other,) = servers()
    assert other.pid != server.pid
    # Now between the look at it and the fork.
    forks.prepare(unless=threading.Event())
    os.kill(other.pid, signal.SIGKILL)
    process = Process("demo", first.directory, forks)
    assert not forked(process)
    process.kill()
    assert process.wait(30)
    process.channel.close()
    assert not first.ended
    assert forked(start())


def test_a_server_that_hangs_does_not_hold_up_a_start(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_FORK", 0.05)
    forks = ForkServer()
    forks.prepare(unless=threading.Event())
    (server,) = servers()
    os.kill(server.pid, signal.SIGSTOP)
    assert not forked(start(forks))
    assert servers() == []
    assert _core.adopt_orphans(False) is False
    forks.close()


def test_nobody_waits_for_a_server_once_the_attempt_ends(forks: ForkServer) -> None:
    ending = threading.Event()
    ending.set()
    forks.prepare(unless=ending)
    assert len(servers()) == 1
    assert 0 <= forks.cpu_seconds() < 30


def test_after_the_end_of_the_host_nothing_is_forked(start: Start, forks: ForkServer) -> None:
    forks.close()
    forks.close()
    assert not forked(start())
    assert servers() == []


@pytest.mark.parametrize("what", ["environment", "folder", "limits"])
def test_a_changed_host_has_another_server(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    start()
    (before,) = servers()
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        match what:
            case "environment":
                monkeypatch.setenv("COLOUR", "blue")
            case "folder":
                monkeypatch.chdir(tmp_path)
            case _:
                resource.setrlimit(resource.RLIMIT_CORE, (4096, limits[1]))
        process = start()
        assert forked(process)
        (after,) = servers()
        assert after.pid != before.pid
        root = Path(f"/proc/{process.pid}")
        assert (b"COLOUR=blue" in (root / "environ").read_bytes().split(b"\0")) == (what == "environment")
        assert (root / "cwd").readlink() == Path.cwd()
        assert (root / "limits").read_bytes() == Path("/proc/self/limits").read_bytes()
        start()
        assert [server.pid for server in servers()] == [after.pid]
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
