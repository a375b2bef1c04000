"""The runs of benches fail by ratios and amounts, whose medians count."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from benches import ratios
from benches.ratios import HEADLINE, Ratios

LIMITS = """
["queue: a cycle"]
peer = 1.0

["host: memory"]
itself = 100
"""


@pytest.fixture(params=[True, False], ids=["short", "full"])
def record(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ratios:
    (tmp_path / "limits.toml").write_text(LIMITS)
    for name in ("BUDGET", "HEADLINE"):
        monkeypatch.setattr(ratios, name, tmp_path / "limits.toml")
    return Ratios(short=request.param)


def test_the_median_counts(record: Ratios) -> None:
    for ours, theirs, size in ((9.0, 3.0, 900), (2.0, 3.0, 99), (3.0, 4.0, 100)):
        record.add("queue", "a cycle", "s", ours, peer=theirs)
        record.add("host", "memory", "B", size)
    assert record.over_budget() == []
    for _ in range(2):
        record.add("queue", "a cycle", "s", 9.0, peer=3.0)
        record.add("host", "memory", "B", 900)
    assert record.over_budget() == [
        "queue: a cycle: 3.00 times peer, the budget allows 1",
        "host: memory: 900 B, the budget allows 100",
    ]


def test_ci_measures_each_of_its_figures(record: Ratios) -> None:
    record.add("queue", "a cycle", "s", 9.0, peer=0.0)
    missing = ["queue: a cycle: not measured beside peer", "host: memory: not measured beside itself"]
    assert record.over_budget() == (missing if record.short else [])


def test_ci_has_few_figures() -> None:
    assert len(tomllib.loads(HEADLINE.read_text(encoding="utf-8"))) <= 20
