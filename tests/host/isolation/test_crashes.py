"""The process of an isolated plugin crashes: the host notices, restarts the plugin, and nobody else feels it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.support.isolated import IsolatedHost
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
Isolated = Callable[..., IsolatedHost]

CPU_SECONDS = "ctrlhost_plugin_cpu_seconds_total"
#: The line about the end of a process.
ENDED = re.compile(r"plugin bad failing: its process (\d+) ended after (\d+\.\d) s with (\d+) MiB: (.+)")


@behaviour("supervision/PI1")
def test_an_isolated_plugin_is_not_in_the_process_of_the_host(isolated: Isolated) -> None:
    host = isolated()
    child = host.running()
    host.process.line("plugin good running")
    assert child != host.process.pid
    assert host.process.get("/readyz")[0] == 200
    assert json.loads(host.process.get("/good/modules")[1]) == [host.process.pid, ["test_good"]]
    host.client.create(config_map("for-both"))
    host.process.line("good saw for-both")
    host.process.line(f"bad saw for-both in process {child}")
    lines = [line for line in host.process.lines if "bad saw" in line["msg"]]
    assert {(line["plugin"], line["pid"]) for line in lines} == {("bad", child)}
    assert host.process.stop() == 0


@behaviour("supervision/PI2")
@pytest.mark.parametrize(
    ("crash", "label", "told"),
    [
        ("segv", "signal", "SIGSEGV"),
        ("kill", "signal", "SIGKILL"),
        ("exit", "exit", "exit code 0"),
        ("abort", "signal", "SIGABRT"),
    ],
)
def test_a_crash_is_one_line_and_a_restart(isolated: Isolated, crash: str, label: str, told: str) -> None:
    host = isolated()
    for number in range(10):
        host.client.create(config_map(f"map-{number}"))
    child = host.running()
    host.process.line("bad saw map-9")
    eventually(lambda: host.process.metric("ctrlhost_child_rss_bytes", plugin="bad") > 10 << 20)
    used = host.process.metric(CPU_SECONDS, plugin="bad")
    assert used > 0
    read = host.reads("configmaps")
    assert read["WATCH"] == 1
    name = host.do(crash, child)
    line = host.process.line("plugin bad failing")
    match = ENDED.fullmatch(line["msg"])
    assert match is not None, line
    assert (int(match[1]), match[4]) == (child, told)
    assert float(match[2]) > 0
    assert int(match[3]) > 10
    assert (line["plugin"], line["level"]) == ("bad", "error")
    host.good_goes_on()
    again = host.running(restarts=1)
    assert again != child
    for key in (*(f"map-{number}" for number in range(10)), name):
        host.process.line(f"bad saw {key} in process {again}")
    assert host.restarts(label) == 1
    assert host.process.metric(CPU_SECONDS, plugin="bad") > used
    assert host.reads("configmaps") == read
    assert len(host.lines("its process", "ended")) == 1
    if crash in ("segv", "abort"):
        assert "in reconcile" in host.process.text
    assert host.process.stop() == 0
