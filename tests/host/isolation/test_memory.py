"""The process of an isolated plugin takes more memory than its limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.isolated import IsolatedHost
from tests.support.objects import config_map
from tests.support.processes import rss_of

behaviour = pytest.mark.behaviour

#: Bytes that a host may use more after a while; the process takes many times as much.
NOISE = 16 << 20


@behaviour("supervision/PI11")
@pytest.mark.parametrize(("how", "ended"), [("grow 110", "exit code 4"), ("jump 200", "SIGKILL")])
def test_a_process_beyond_its_memory_limit_is_restarted(
    isolated: Callable[..., IsolatedHost], how: str, ended: str
) -> None:
    host = isolated(memory_limit="100MB")
    child = host.running()
    host.good_goes_on()
    before = rss_of(host.process.pid)
    name = host.do(how, child)
    line = host.process.line("plugin bad failing", f"its process {child} ended", ended)
    assert f"{ended}: it has " in line["msg"]
    assert line["msg"].endswith("MiB, and its limit is 95 MiB")
    assert len(host.lines(f"bad did {name}")) == (ended == "exit code 4")
    if ended == "exit code 4":
        assert len(host.lines("it drains and restarts")) == len(host.lines("bad stops")) == 1
    assert rss_of(host.process.pid) < before + NOISE
    again = host.running(restarts=1)
    assert again != child
    host.process.line(f"bad saw {name} in process {again}")
    assert host.restarts("memory") == 1
    assert rss_of(host.process.pid) < before + NOISE
    assert host.process.stop() == 0


@behaviour("scale/SC110")
def test_an_isolated_plugin_is_degraded_while_the_host_is_over_its_memory_budget(
    isolated: Callable[..., IsolatedHost],
) -> None:
    host = isolated("--set=informers.memory_budget=1Mi")
    host.running()
    for number in range(60):
        host.client.create(config_map(f"large-{number}", {"data": "x" * 20_000}))
    host.process.wait_for_metric(1, "ctrlhost_plugin_degraded", plugin="bad", reason="over-budget")
    _, ready = host.process.get("/readyz?verbose")
    line = next(entry for entry in ready.splitlines() if "plugin/bad" in entry)
    assert "degraded: over-budget: ConfigMap.v1: memory budget of 1 MiB reached after " in line
    assert host.process.stop() == 0
