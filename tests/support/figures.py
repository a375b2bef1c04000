"""The figures of the last benches, and their limits: tests of figures read them, and measure nothing themselves."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "": 1.0}

#: The benches accept so many times a figure that is a time, since machines are noisy.
NOISE = 1.5


@cache
def budget() -> dict[str, dict[str, float]]:
    """Return the limits that fail `make bench` and `make bench-scale`, by figure and peer."""
    return tomllib.loads((ROOT / "benches" / "budget.toml").read_text(encoding="utf-8"))


def limit(figure: str, peer: str) -> float:
    """Return the largest ratio to the peer that the benches accept, or amount if the peer is `itself`."""
    return budget()[figure][peer]


@cache
def rows() -> list[list[str]]:
    """Return the rows of the tables that the last full runs wrote: suite, figure, ours, peer, theirs, ratio."""
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("benchmarks*.md"))]
    lines = [line for page in pages for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def measured(figure: str, peer: str) -> float:
    """Return the ratio to the peer that the last full run measured, or the amount if the peer is `itself`."""
    found = [row for row in rows() if f"{row[0]}: {row[1]}" == figure and peer in ("itself", row[3])]
    assert found, f"no result for {figure!r} beside {peer!r}: run `make bench` or `make bench-scale`, which write docs/"
    row = found[0]
    if peer != "itself":
        return float(row[5])
    amount = re.fullmatch(r"([\d.e,-]+) ?(\S*)", row[2])
    assert amount is not None, row[2]
    return float(amount[1].replace(",", "")) * UNITS[amount[2]]
