"""Links in the documentation lead to existing files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("plugins/*/README.md")])
LINK = re.compile(r"\]\((?!https?://)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\((?!https?://)(?P<target>[^)#\s]*)#(?P<anchor>[^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_every_link_has_a_target(page: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_every_anchor_is_a_heading(page: Path) -> None:
    links = [match.groups() for match in ANCHOR.finditer(page.read_text(encoding="utf-8"))]
    assert [
        link for link in links if link[1] not in anchors((page.parent / link[0]).resolve() if link[0] else page)
    ] == []


def test_the_readme_has_links() -> None:
    assert len(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) >= 5
