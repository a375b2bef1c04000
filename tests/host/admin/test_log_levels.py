"""Levels of the log that end by themselves."""

from __future__ import annotations

import re

import pytest

from tests.support.admin import EITHER, Acting, done
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@EITHER
@behaviour("operations/OP89")
def test_a_level_of_the_log_ends_by_itself(shared: Acting, plugin: str) -> None:
    other, key = "apart" if plugin == "inside" else "inside", f"default/level-{plugin}"
    shared.create("a", key.partition("/")[2])
    for name in (plugin, other):
        shared.ran(f"{name}/a", key)

    def again(times: int) -> int:
        """Reconcile the key in both plugins; return the debug lines so far."""
        for name in (plugin, other):
            done(shared.host, "enqueue", controller=f"{name}/a", keys=[key])
            shared.ran(f"{name}/a", key, times)
            ended = f"ended {name}/a {key}"
            shared.host.wait_for(lambda: len([x for x in shared.host.lines if x["msg"] == ended]) == times, ended)  # noqa: B023 - called here
        return len([entry for entry in shared.host.lines if entry["msg"] == f"a debug line of {key}"])

    assert again(2) == 0
    answer = done(shared.host, "log-level", target=plugin, level="debug", seconds=3600)
    assert (answer["target"], answer["level"], answer["was"]) == (plugin, "debug", "info")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", answer["until"])
    assert again(3) == 1
    line = shared.host.line(f"a debug line of {key}")
    assert (line["plugin"], line["controller"]) == (plugin, f"{plugin}/a")
    answer = done(shared.host, "log-level", target=plugin, level="info", seconds=0)
    assert answer["was"] == "debug"
    answer = done(shared.host, "log-level", target=plugin, level="debug", seconds=0.01)
    assert answer["was"] == "info"
    runs = iter(range(4, 1000))
    eventually(lambda: again(next(runs)) == again(next(runs)), what="the level ends")
    for level in ("debug", "info"):
        assert done(shared.host, "log-level", target=None, level=level, seconds=0)["until"] is None
    assert done(shared.host, "log-level", level="info", seconds=0)["was"] == "info"
