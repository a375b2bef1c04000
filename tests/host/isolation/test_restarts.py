"""Restarts of an isolated plugin: pauses, limits, and what is left of its processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.supervisor.runtime import PluginRuntime
from ctrlhost.testing import ManualClock
from tests.host.conftest import Distributions
from tests.support.misbehaviour import Good, metric, state_of
from tests.support.processes import Found, children_of, of_groups
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

#: Crashes at each start but those after the number of failures.
CRASHES = """
    import os, pathlib
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        starts = pathlib.Path(__file__).with_suffix(".starts")
        with starts.open("a") as file:
            file.write(".")
        if starts.stat().st_size <= {failures}:
            os._exit(7)
"""


def starts(distributions: Distributions) -> int:
    file = distributions.folder / "test_bad.starts"
    return file.stat().st_size if file.exists() else 0


def states(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the states of `bad` that the log names, in order."""
    matches = [re.match(r"plugin bad (failing|failed|waiting|running|restarts)\b", line) for line in caplog.messages]
    return [match[1] for match in matches if match]


@behaviour("supervision/PI6")
def test_pauses_grow_and_each_crash_is_one_line(ctrlhost_host, distributions, caplog) -> None:
    caplog.set_level("INFO")
    distributions.add("bad", CRASHES.format(failures=2))
    clock, good = ManualClock(), Good()
    supervision = {"bad": {"process": "own", "restart_delay": 1.0}}
    host = ctrlhost_host("bad", good.module, clock=clock, supervision=supervision)
    (bad, _) = host.host.plugins
    for count, least, most in ((1, 1.0, 1.2), (2, 2.0, 2.4)):
        eventually(lambda count=count: starts(distributions) == count and state_of(host, "bad") == "failing")
        assert f"restart {count} of 10 in " in bad.checks()[0].detail
        pause = bad.restarts_in()
        assert least <= pause <= most
        clock.advance(pause * 0.99)
        assert (state_of(host, "bad"), starts(distributions)) == ("failing", count)
        clock.advance(pause * 0.02)
    # The state comes before its line.
    eventually(lambda: states(caplog) == ["failing", "restarts", "failing", "restarts", "running"])
    assert state_of(host, "bad") == "running"
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2
    for line in errors:
        assert re.fullmatch(
            r"plugin bad failing: its process \d+ ended after \d+\.\d s with \d+ MiB: exit code 7", line
        )
    assert metric(host, "ctrlhost_plugin_restarts_total", plugin="bad", reason="exit") == 2
    good.goes_on(host)


@behaviour("supervision/PI6")
@pytest.mark.parametrize("limit", [3, 0])
def test_restarts_end_at_the_limit(ctrlhost_host, distributions, caplog, limit: int) -> None:
    distributions.add("bad", CRASHES.format(failures=100))
    good = Good()
    supervision = {"bad": {"process": "own", "restart_limit": limit, "restart_delay": 0.01}}
    host = ctrlhost_host("bad", good.module, supervision=supervision)
    eventually(lambda: state_of(host, "bad") == "failed")
    assert starts(distributions) == limit + 1
    assert state_of(host, "good") == "running"
    good.goes_on(host)
    assert starts(distributions) == limit + 1
    assert children() == []
    assert not [line for line in caplog.messages if line.startswith("plugin good") and "fail" in line]
    assert metric(host, "ctrlhost_plugin_state", plugin="bad", state="failed") == 1


def children() -> list[Found]:
    """Return the processes of plugins, and zombies, which have no command."""
    return [
        process for process in children_of(os.getpid()) if process.zombie or "ctrlhost.host.child" in process.command
    ]


class Watch:
    """Looks all the time which processes the plugins have, and ends the pauses before restarts."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        #: All processes there were, by their groups.
        self.groups: set[int] = set()
        self.doubles: list[list[Found]] = []
        self.crashes = 0
        self._seen = threading.Condition()
        self._now: dict[str, int] = {}
        self._ended = False

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def _look(self) -> None:
        while not self._ended:
            living = [child for child in children() if not child.zombie]
            plugins = [process.command.split()[-1] for process in living]
            if len(set(plugins)) < len(plugins):
                self.doubles.append(living)
            with self._seen:
                self._now = {name: process.pid for name, process in zip(plugins, living, strict=True)}
                self.groups |= set(self._now.values())
                self._seen.notify_all()
            self.clock.advance(300)

    def crash(self, *names: str, begin: Callable[[], None] = lambda: None) -> None:
        """Kill the processes of these plugins, as soon as all of them have one; call `begin` just before."""
        with self._seen:
            assert self._seen.wait_for(lambda: all(name in self._now for name in names), 60), (names, self._now)
            pids = [self._now[name] for name in names]
        begin()
        for pid in pids:
            # A host that stops may have ended it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.crashes += 1
        with self._seen:
            assert self._seen.wait_for(lambda: not set(pids) & set(self._now.values()), 60), (pids, self._now)


def reached(number: int, runtime: PluginRuntime) -> bool:
    """Return whether a plugin has come as far in its start as wanted for this round."""
    attempt = runtime.attempt
    assert attempt is not None
    return [True, attempt.configured.is_set(), attempt.set_up.is_set(), runtime.state == "running"][number % 4]


def used() -> tuple[int, int]:
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


@behaviour("supervision/PI24")
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hundred_crashes_leave_nothing_behind(
    ctrlhost_host: Callable[..., Any], distributions: Distributions, sandbox: Sandbox
) -> None:
    for name in ("bad", "worse"):
        distributions.add(name, "import ctrlhost\n\n@ctrlhost.hookimpl\ndef ctrlhost_setup(plugin):\n    pass\n")
    supervision = {"process": "own", "restart_limit": 100}
    with Watch() as watch:
        for _ in range(5):
            host = ctrlhost_host(
                "bad", "worse", start=False, sandbox=sandbox, clock=watch.clock, supervision=supervision
            )
            plugins = host.host.plugins
            starting = threading.Thread(target=host.host.start)
            starting.start()
            # While the host starts.
            watch.crash("bad")
            watch.crash("worse")
            starting.join()
            for number in range(8):
                eventually(partial(reached, number, plugins[1]))
                if number == 3:
                    before = used()
                # One crashes while the host handles the crash of the other one.
                watch.crash("bad", "worse")
            eventually(lambda plugins=plugins: all(plugin.state == "running" for plugin in plugins))
            threads, files = used()
            assert threads <= before[0] + 2
            assert files <= before[1] + 2
            # While the host stops.
            stopping = threading.Thread(target=host.stop)
            watch.crash("bad", "worse", begin=stopping.start)
            stopping.join()
            assert [plugin.state for plugin in plugins] == ["stopped", "stopped"]
            assert children() == []
    assert watch.crashes == 100
    assert watch.doubles == []
    assert of_groups(watch.groups) == []
