"""Profiles of a running host: processor time by stack, of each of its processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.host.conftest import Distributions
from tests.support import fork_server
from tests.support.admin import act, done, socket_of
from tests.support.host_process import HostProcess

behaviour = pytest.mark.behaviour

#: A task that uses the processor, and one that waits.
BUSY = """
    import time
    import ctrlhost

    kept = []

    def burn_here(stop):
        while not stop.is_set():
            burn_a_while()

    def burn_a_while():
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        kept.append(bytearray(10_000))
        del kept[:-100]

    def wait_here(stop):
        stop.wait()

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_task("burn", burn_here)
        plugin.add_task("wait", wait_here)
"""


@pytest.fixture(scope="module")
def host() -> Iterator[HostProcess]:
    with TemporaryDirectory(prefix="profile-") as folder:
        site = Path(folder, "site")
        site.mkdir()
        installed = Distributions(site)
        for name in ("inside", "apart"):
            installed.add(name, BUSY)
        arguments = ["--sandbox", "--admin", "--plugins=inside,apart", "--isolate=apart"]
        with HostProcess(*arguments, environment=installed.environment(XDG_RUNTIME_DIR=folder)) as running:
            for name in ("inside", "apart"):
                running.line(f"plugin {name} running")
            yield running


def burnt(stacks: dict[str, int]) -> dict[str, int]:
    """Return the time of the busy tasks, by process."""
    spent: dict[str, int] = {}
    for stack, time in stacks.items():
        process, *functions = stack.split(";")
        if any(function.startswith("burn_here (") for function in functions):
            spent[process] = spent.get(process, 0) + time
    return spent


@behaviour("oncall/OC31")
@pytest.mark.parametrize(
    ("plugin", "processes"), [(None, {"host", "apart"}), ("inside", {"host"}), ("apart", {"apart"})]
)
def test_a_profile_has_the_time_of_each_stack(host: HostProcess, plugin: str | None, processes: set[str]) -> None:
    answer = done(host, "profile", seconds=0.5, plugin=plugin)
    stacks = answer["stacks"]
    assert answer["samples"] > 1
    assert answer["heap"] == []
    spent = burnt(stacks)
    assert spent.keys() == processes
    assert {stack.partition(";")[0] for stack in stacks} == processes
    # What waits has no time.
    assert not any("wait_here" in stack for stack in stacks)
    assert all(time > 0 and "\n" not in stack for stack, time in stacks.items())
    if plugin == "inside":
        # Only its own threads.
        assert {stack.split(";")[1].partition("/")[0] for stack in stacks} == {"inside"}
    outermost = next(stack for stack in stacks if "burn_a_while" in stack).split(";")
    places = [
        next(at for at, function in enumerate(outermost) if name in function) for name in ("burn_here", "a_while")
    ]
    assert places == sorted(places)


@behaviour("oncall/OC31")
def test_the_heap_is_measured_only_on_request(host: HostProcess) -> None:
    answer = done(host, "profile", seconds=0.5, plugin="apart", heap=True)
    assert any("test_apart.py" in line and line.startswith("apart: ") for line in answer["heap"])
    assert burnt(answer["stacks"]).keys() == {"apart"}
    assert done(host, "profile", seconds=0.2, plugin="apart")["heap"] == []


@behaviour("oncall/OC31")
@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"seconds": 0}, 400, "invalid time: 0 s"),
        ({"seconds": 46}, 400, "invalid time: 46 s"),
        ({"plugin": "outside"}, 404, "no plugin `outside`"),
        ({"minutes": 1}, 400, "unknown field `minutes`"),
    ],
)
def test_mistakes(host: HostProcess, fields: dict[str, object], status: int, error: str) -> None:
    answer = act(host, "profile", **fields)
    assert answer[0] == status
    assert error in answer[1]["error"]


@behaviour("oncall/OC31")
def test_the_command_prints_folded_stacks(host: HostProcess) -> None:
    command = ("profile", "--seconds=0.5", f"--socket={socket_of(host)}")
    result = fork_server.run(*command)
    assert result.returncode == 0, result.stderr
    stacks = {}
    for line in result.stdout.splitlines():
        stack, _, spent = line.rpartition(" ")
        stacks[stack] = int(spent)
    assert burnt(stacks).keys() == {"host", "apart"}
    assert list(stacks.values()) == sorted(stacks.values(), reverse=True)
    assert result.stderr.startswith("hint: ")
    assert "of processor time" in result.stderr
    heap = fork_server.run(*command, "--heap")
    assert heap.returncode == 0, heap.stderr
    assert all(line.startswith(("host: ", "apart: ")) for line in heap.stdout.splitlines())
    answer = json.loads(fork_server.run(*command, "--output=json").stdout)
    assert answer.keys() == {"samples", "stacks", "heap"}
