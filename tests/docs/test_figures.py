"""The figures of specifications: each has a limit in `benches/budget.toml`, and the last full run was within it.

`make bench` fails above a limit and writes `docs/benchmarks.md`, which these tests read: they measure nothing.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}

behaviour = pytest.mark.behaviour


def limit(figure: str, peer: str) -> float:
    """Return the largest ratio to the peer that the benches accept, or amount if the peer is `itself`."""
    budget = tomllib.loads((ROOT / "benches" / "budget.toml").read_text(encoding="utf-8"))
    found: float = budget[figure][peer]
    return found


def measured(figure: str, peer: str) -> float:
    """Return the ratio to the peer that the last run measured, or the amount in seconds if the peer is `itself`."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line] for line in lines]
    named = "none" if peer == "itself" else peer
    (row,) = (row for row in rows if f"{row[0]}: {row[1]}" == figure and row[3] == named)
    if peer != "itself":
        return float(row[5])
    amount = re.fullmatch(r"([\d.e-]+) (\S+)", row[2])
    assert amount is not None, row[2]
    return float(amount[1]) * SECONDS[amount[2]]


@pytest.mark.parametrize(
    ("figure", "peer", "most"),
    [
        pytest.param(
            "queue: 80,000 keys with a priority each, added and drained, per key",
            "five-priorities",
            3,
            id="priorities",
            marks=behaviour("findings/FQ6"),
        ),
        pytest.param(
            "queue: snapshot of 100,000 keys: stall of another thread",
            "itself",
            0.02,
            id="snapshot",
            marks=behaviour("findings/FQ18"),
        ),
        pytest.param(
            "queue: page of 100,000 keys: stall of another thread",
            "itself",
            0.02,
            id="page",
            marks=behaviour("findings/FQ18"),
        ),
        pytest.param(
            "queue: 100,000 adds of keys that collide under a known seed, per key",
            "other-keys",
            3,
            id="collisions",
            marks=behaviour("findings/FQ20"),
        ),
    ],
)
def test_a_figure_is_within_its_limit(figure: str, peer: str, most: float) -> None:
    assert limit(figure, peer) <= most
    assert measured(figure, peer) <= most
