"""Each code block of the documentation is cut from a tested file, or says of what it is a part."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_how_to import GUIDES
from tests.docs.test_webhook_pages import PAGES

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^(?P<before>[^\n]*)\n[ ]*```(?P<language>\w*)\n(?P<code>.*?)^[ ]*```$", re.MULTILINE | re.DOTALL)
#: Commands, and what they print; the first two are run by the tests of these pages.
COMMANDS = {"sh", "console", ""}
RUN = {"docs/tutorial.md", *(f"docs/how-to/{name}.md" for name in (*GUIDES, *PAGES))}
CUT = re.compile(r"<!-- (code|new): \S+ -->$")
PART = re.compile(r"(<!--|#) a part of \S+")
ALL = [
    (page.relative_to(ROOT).as_posix(), match["before"], match["code"], match["language"])
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("plugins/*/README.md"), *(ROOT / "docs").rglob("*.md")])
    for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
]
BLOCKS = [block for block in ALL if block[-1] not in COMMANDS]


def test_there_are_blocks_of_both_kinds() -> None:
    assert sum(bool(CUT.search(before)) for _, before, _, _ in BLOCKS) >= 20
    assert {language for *_, language in BLOCKS} >= {"python", "toml", "yaml"}


@pytest.mark.behaviour("authoring/AD2")
@pytest.mark.parametrize(("before", "code"), [pytest.param(before, code, id=page) for page, before, code, _ in BLOCKS])
def test_a_block_names_its_file_or_what_it_is_a_part_of(before: str, code: str) -> None:
    assert CUT.search(before) or PART.match(before.strip()) or PART.match(code.strip()), code


@pytest.mark.behaviour("authoring/AD2")
def test_commands_in_blocks_are_run() -> None:
    assert {page for page, *_, language in ALL if language in ("sh", "console")} == RUN


@pytest.mark.behaviour("authoring/AD2")
@pytest.mark.parametrize("page", sorted({page for page, *_ in BLOCKS}))
def test_only_commands_and_their_output_are_indented(page: str) -> None:
    fenced = re.sub(
        r"^[ ]*```.*?^[ ]*```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    code = re.compile(
        r"\n\n {4}((?:\[[a-z][\w.\"/-]*\]|from \w|import \w|with \w|def \w|class \w|@\w|\w+ = |[\w.]+\().*)"
    )
    assert code.findall(fenced) == []
