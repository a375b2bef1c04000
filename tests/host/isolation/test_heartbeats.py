"""The process of an isolated plugin hangs: it is killed after the time for its heartbeat, and restarted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.isolated import IsolatedHost

behaviour = pytest.mark.behaviour


@behaviour("supervision/PI3")
@pytest.mark.parametrize(("hang", "stacks"), [("hold", True), ("stop", False)])
def test_a_process_that_hangs_is_killed_and_restarted(
    isolated: Callable[..., IsolatedHost], hang: str, stacks: bool
) -> None:
    host = isolated(heartbeat_timeout="3s")
    child = host.running()
    name = host.do(hang, child)
    host.good_goes_on()
    assert host.lines("plugin bad failing") == []
    line = host.process.line("plugin bad failing", f"its process {child} ended", "SIGKILL: no heartbeat for 3 s")
    written = [
        entry["msg"] for entry in host.process.lines[: host.process.lines.index(line)] if entry["level"] == "plain"
    ]
    assert any("most recent call first" in text for text in written) == stacks
    assert any(text.endswith(" in hold") for text in written) == stacks
    again = host.running(restarts=1)
    assert again != child
    host.process.line(f"bad saw {name} in process {again}")
    assert host.restarts("heartbeat") == 1
    host.good_goes_on()
    assert host.process.stop() == 0
