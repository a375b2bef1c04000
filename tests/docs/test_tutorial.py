"""Each marked code block of the documentation is part of the file that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKED = re.compile(r"<!-- code: (?P<path>\S+) -->\n```\w+\n(?P<code>.*?)```", re.DOTALL)
BLOCKS = [
    (page.relative_to(ROOT).as_posix(), match["path"], match["code"])
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("plugins/*/README.md"), *(ROOT / "docs").rglob("*.md")])
    for match in MARKED.finditer(page.read_text(encoding="utf-8"))
]


def test_pages_have_code() -> None:
    assert sum(page == "docs/how-to/hooks.md" for page, _, _ in BLOCKS) >= 5


@pytest.mark.parametrize(("page", "path", "code"), BLOCKS, ids=[f"{page}:{path}" for page, path, _ in BLOCKS])
def test_quoted_code_equals_its_file(page: str, path: str, code: str) -> None:
    assert code in (ROOT / path).read_text(encoding="utf-8"), f"{page} shows other code than {path}"
