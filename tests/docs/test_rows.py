"""The pages of tests/rows and the tests have the same rows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "tests" / "rows").glob("*.md"))
SOURCES = ("tests", "sandbox", "plugins", "rust", "ctrlhost", "examples", "benches")
#: The first column of a table; a row may have several ids.
FIRST = re.compile(r"^\|([^|]+)\|", re.MULTILINE)
IDS = re.compile(r"\s*`?[A-Za-z]{0,3}-?\d+[a-z]?`?\s*(?:,\s*`?[A-Za-z]{0,3}-?\d+[a-z]?`?\s*)*")
LEFT_OUT = {"target", ".venv", "node_modules", "bin"}


def documented() -> set[str]:
    ids = set()
    for page in PAGES:
        for cell in FIRST.findall(page.read_text(encoding="utf-8")):
            if IDS.fullmatch(cell):
                ids.update(f"{page.stem}/{row.strip(' `')}" for row in cell.split(","))
    return ids


def rows_of_tests() -> set[str]:
    specs = "|".join(re.escape(page.stem) for page in PAGES)
    named = re.compile(rf"(?<!/)\b(?:{specs})/[A-Za-z]{{0,3}}-?\d+[a-z]?\b")
    ids: set[str] = set()
    for top in SOURCES:
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".py", ".rs"} and path.is_file() and not LEFT_OUT & set(path.parts):
                ids.update(named.findall(path.read_text(encoding="utf-8")))
    return ids


def specs_of_tests() -> set[str]:
    """Return the pages that the markers of tests name."""
    marker = re.compile(r"""behaviour(?:\("|: )([a-z][a-z-]*)/[A-Za-z]{0,3}-?\d""")
    ids: set[str] = set()
    for top in SOURCES:
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".py", ".rs"} and path.is_file() and not LEFT_OUT & set(path.parts):
                ids.update(marker.findall(path.read_text(encoding="utf-8")))
    return ids


def not_applicable() -> dict[str, str]:
    path = ROOT / "tests" / "not_applicable.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def test_each_documented_row_has_a_test_or_a_reason() -> None:
    assert sorted(documented() - rows_of_tests() - set(not_applicable())) == []


def test_each_row_that_a_test_names_is_documented() -> None:
    assert sorted(rows_of_tests() - documented()) == []


def test_each_row_that_does_not_apply_has_a_reason() -> None:
    assert [row for row, reason in not_applicable().items() if len(reason) <= 10] == []


@pytest.mark.behaviour("findings/FT3")
def test_every_table_that_tests_name_has_a_page() -> None:
    assert sorted(specs_of_tests() - {page.stem for page in PAGES}) == []
    assert specs_of_tests() >= {"bitcoin", "findings", "hostname", "informers", "ingress-status", "naming", "sandbox"}


@pytest.mark.behaviour("findings/FT3")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_says_what_follows(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and IDS.fullmatch(cells[0] or "-"):
            assert len(cells) >= 2, line
            assert cells[-1], line
