"""Progress bars of slow first lists, and the log lines without a terminal."""

from __future__ import annotations

import io
import logging
import os
import pty
from typing import Any

import pytest
from rich.console import Console

from ctrlhost.cli.progress import CurrentStderr, ListBars, can_draw
from ctrlhost.informers import InformerStatus
from ctrlhost.reflector.progress import ListProgress
from ctrlhost.testing import ManualClock


def status(kind: str, listing: int, remaining: int | None, *, synced: bool = False) -> InformerStatus:
    fields: dict[str, Any] = dict.fromkeys(InformerStatus.__dataclass_fields__)
    fields |= {"key": kind, "kind": kind, "listing": listing, "remaining": remaining, "has_synced": synced}
    return InformerStatus(**fields)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def drawn(console: Console) -> str:
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_slow_list_has_a_bar_with_count_and_rate(console: Console) -> None:
    statuses = [status("Pod", 2_000, 8_000), status("Node", 5, 0, synced=True)]
    bars = ListBars(lambda: statuses, console)
    bars.update(now=10)
    assert drawn(console) == ""
    bars.update(now=12)
    statuses[0] = status("Pod", 6_000, 4_000)
    bars.update(now=14)
    bars._bars.refresh()
    text = drawn(console)
    assert "listing Pod" in text
    assert "6000/10000" in text
    assert "2,000/s" in text
    assert "Node" not in text
    statuses[0] = status("Pod", 0, None, synced=True)
    bars.update(now=16)
    assert bars._bars is None


def test_a_list_of_unknown_length_has_a_bar_too(console: Console) -> None:
    bars = ListBars(lambda: [status("Pod", 300, None), status("Secret", 7, 0)], console)
    bars.update(now=0)
    bars.update(now=2)
    bars._bars.refresh()
    bars.stop()
    assert "300/?" in drawn(console)
    assert "listing Secret" in drawn(console)


def test_no_bar_is_drawn_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_draw(io.StringIO())
    parent, child = pty.openpty()
    with os.fdopen(child, "w") as terminal, os.fdopen(parent):
        assert can_draw(terminal)
        monkeypatch.setattr("sys.stderr", terminal)
        assert CurrentStderr().isatty()


def test_the_progress_of_a_list_is_logged_every_few_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    progress = ListProgress(clock)
    with caplog.at_level(logging.INFO, "ctrlhost.informers.list_log"):
        clock.advance(4)
        progress.report("pods", 400, 600)
        clock.advance(1)
        progress.report("pods", 500, 500)
        clock.advance(3)
        progress.report("pods", 800, 200)
        clock.advance(2)
        progress.report("pods", 2_000)
    assert [record.message for record in caplog.records] == [
        "listing pods: 500 of about 1000, 100/s",
        "listing pods: 2000, 200/s",
    ]
