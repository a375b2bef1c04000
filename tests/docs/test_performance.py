"""The tables of docs/performance.md that say where the time and the memory of a figure go."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
LAST = "all of it"


def section(title: str) -> str:
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert match is not None, f"no section {title!r}"
    return match[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the rows below the head of the first table."""
    lines = [line for line in text.split("\n\n| ", 1)[1].split("\n\n")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "--" not in line]


@pytest.mark.behaviour("faster/FA20")
@pytest.mark.parametrize(
    ("title", "columns"),
    [("The parts of a start", 1), ("The parts of a list", 1), ("The parts of a library's memory", 2)],
)
def test_the_parts_of_a_figure_add_up_to_it(title: str, columns: int) -> None:
    text = section(title)
    *parts, whole = rows(text)
    assert whole[0] == LAST
    assert len(parts) >= 5
    for column in range(1, columns + 1):
        assert sum(Decimal(part[column]) for part in parts) == Decimal(whole[column])
    # Also what is worse than asked.
    assert "The goal" in text
