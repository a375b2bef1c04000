"""Each test named on the page of guarantees exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "informer-guarantees.md").read_text(encoding="utf-8")


def test_each_test_on_the_page_exists() -> None:
    python = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    rust = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "rust").rglob("*.rs"))
    defined = set(re.findall(r"def (test_\w+)", python)) | set(re.findall(r"fn (\w+)\(\)", rust))
    named = {name for name in re.findall(r"`(\w+)`", PAGE) if name.count("_") >= 4}
    assert len(named) > 50
    assert sorted(named - defined) == []


def test_each_promise_has_a_test() -> None:
    rows = [line for line in PAGE.partition("## Not promised")[0].splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "`test_" not in row] == []
