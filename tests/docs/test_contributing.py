"""The tables of CONTRIBUTING.md name files that exist, and the recipes name all that a newcomer needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctrlhost.cli.group import COMMANDS
from ctrlhost.supervisor.loader import RESERVED_NAMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLACEHOLDER = re.compile(r"\b(NAME|GROUP|ROOM|FILE)\b")


def rows(section: str) -> dict[str, list[str]]:
    """Return the paths in each row of the first table of a section, by the row's first cell."""
    _, _, text = PAGE.partition(f"\n## {section}\n")
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    cells = [line.strip("| ").split(" | ", 1) for line in lines]
    return {
        first: [path for path in re.findall(r"`([^`]+)`", second) if "/" in path or path[0] == "."]
        for first, second in cells
    }


PLACES, RECIPES = rows("Where things are"), rows("How to add")


def test_both_tables_have_rows() -> None:
    assert len(PLACES) >= 10
    assert len(RECIPES) >= 8


@pytest.mark.parametrize("path", sorted({path for row in [*PLACES.values(), *RECIPES.values()] for path in row}))
def test_each_path_exists(path: str) -> None:
    # A placeholder stands for any file that is there.
    assert list(ROOT.glob(PLACEHOLDER.sub("*", path)))


@pytest.mark.parametrize("what", PLACES)
def test_each_place_is_one_file_or_folder(what: str) -> None:
    assert len(PLACES[what]) == 1


def test_the_names_of_commands_are_reserved() -> None:
    """`How to add` names the file with the reserved names: a plugin of a command's name would have no commands."""
    assert "ctrlhost/supervisor/loader.py" in RECIPES["command"]
    assert set(COMMANDS) <= RESERVED_NAMES
