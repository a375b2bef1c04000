"""docs/architecture.md lists exactly the rooms of the tree, and each room has a description."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAPPED = re.findall(r"^\| `([\w/-]+)` \| \S.* \|$", PAGE, re.MULTILINE)
AREAS = ("ctrlhost", "sandbox/src/ctrlhost_sandbox", "rust", "plugins", "tests")


def rooms(area: str) -> list[str]:
    """Return the folders of `area` with files of the project."""
    folders = [path for path in (ROOT / area).iterdir() if path.is_dir() and path.name not in {"__pycache__", "target"}]
    return sorted(f"{area}/{path.name}" for path in folders if any(holds(path)))


def holds(folder: Path) -> list[Path]:
    kinds = ("*.py", "*.rs", "*.go", "*.java", "*.toml")
    return [path for kind in kinds for path in folder.rglob(kind) if "__pycache__" not in path.parts]


@pytest.mark.parametrize("area", AREAS)
def test_each_folder_is_on_the_map_and_each_room_of_the_map_is_a_folder(area: str) -> None:
    assert sorted(room for room in MAPPED if room.rpartition("/")[0] == area) == rooms(area)


@pytest.mark.parametrize("room", [room for room in MAPPED if room.startswith("ctrlhost/")])
def test_each_room_says_what_it_is_for_what_it_may_import_and_what_is_public(room: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert text.splitlines()[0].endswith(".")
    assert re.search(r"\bImports\s+\S", text)
    assert re.search(r"\bPublic:\s+\S", text)


def test_the_contracts_know_each_room() -> None:
    contracts = (ROOT / ".importlinter").read_text(encoding="utf-8")
    for room in MAPPED:
        if room.startswith("ctrlhost/"):
            assert re.search(rf"^\s.*\b{room.rpartition('/')[2]}\b", contracts, re.MULTILINE), room
