"""The health of an isolated plugin, from the reports of its process."""

from __future__ import annotations

import time
from typing import Any

from ctrlhost.health import Check
from ctrlhost.plugin.probe import CheckState, Outcome
from ctrlhost.supervisor.channel import Beat
from ctrlhost.supervisor.child_health import ChildHealth

LINE = Check("controller/bad/c", passed=True, detail="1 runs")
LEASE = Check("leaderElection/ctrlhost-bad", passed=True, detail="leading")


def beat(probe: int, *health: CheckState) -> Beat:
    return Beat(
        "running",
        "",
        final=False,
        hangs=False,
        checks=(LINE,),
        leadership=(LEASE,),
        health=health,
        probe=probe,
        degraded={},
    )


def state(name: str = "bad/a", value: str | None = "", ago: float = 0.0, since: float | None = None) -> CheckState:
    now = time.monotonic()
    last = Outcome(value, now - ago) if value is not None else None
    return CheckState(name, last, None if since is None else now - since)


def asking(deadline: float = 2.0) -> tuple[ChildHealth, list[int]]:
    pids: list[int] = []
    return ChildHealth(lambda: deadline, pids.append), pids


def test_a_process_is_asked_once_until_it_has_begun() -> None:
    health, pids = asking()
    health.heard(beat(0, state(value=None)))
    (check,) = health.checks
    assert check.last() == Check("bad/a", passed=True, detail="no answer yet")
    first = check.start()
    assert check.start() is first
    assert pids == [1]
    health.heard(beat(0, state(value=None)))
    assert not first.done()
    # It has begun, and one check still runs: those that have ended are called again.
    health.heard(beat(1, state("bad/a"), state("bad/b", value=None, since=0.1)))
    assert not first.done()
    assert health.checks[1].start() is first
    assert pids == [1, 2]
    health.heard(beat(2, state("bad/a", "RuntimeError: no peers"), state("bad/b")))
    assert first.done()
    lines = [entry.last() for entry in health.checks]
    assert lines == [Check("bad/a", passed=False, detail="RuntimeError: no peers"), Check("bad/b", passed=True)]
    assert health.checks[0].start() is not first
    assert pids == [1, 2, 3]


def test_a_check_that_runs_has_its_age_and_then_fails() -> None:
    health, _ = asking()
    health.heard(beat(0, state(ago=1.2, since=1.0), state("bad/b", ago=9.0, since=3.0)))
    age, late = (check.last() for check in health.checks)
    assert (age.passed, age.detail) == (True, "passed 1.2 s ago")
    assert (late.passed, late.detail) == (False, "no answer for 3 s")


def test_a_process_that_does_not_begin_has_not_answered(monkeypatch: Any) -> None:
    health, _ = asking()
    health.heard(beat(0, state()))
    (check,) = health.checks
    check.start()
    assert health.lines() == [LINE]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 5)
    assert check.last() == Check("bad/a", passed=False, detail="no answer for 5 s")
    assert [line.detail for line in health.lines()] == ["1 runs, 5 s old"]
    assert [line.detail for line in health.leadership()] == ["leading, 5 s old"]


def test_nothing_is_shown_of_a_process_that_has_ended() -> None:
    health, pids = asking()
    assert (health.lines(), health.checks) == ([], [])
    health.heard(beat(0, state()))
    (check,) = health.checks
    health.end()
    assert (health.lines(), health.checks) == ([], [])
    check.start()
    assert pids == []
    assert check.last() == Check("bad/a", passed=True, detail="no answer yet")
