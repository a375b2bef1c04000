"""Each command has a help text, which is in the reference."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ctrlhost.cli.group import COMMANDS
from tests.docs.test_reference import PAGES, commands


def _help(*command: str) -> str:
    arguments = [sys.executable, "-m", "ctrlhost", *command, "--help"]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.behaviour("operations/OP91")
def test_the_help_of_each_command_is_in_the_reference() -> None:
    listed = _help()
    page = (PAGES / "cli.md").read_text()
    # The part that `make docs` writes.
    generated = commands()
    assert generated in page
    sections = {one.partition("`")[0]: one for one in generated.split("## `ctrlhost ")[1:]}
    assert list(sections) == list(COMMANDS)
    for name, summary in COMMANDS.items():
        assert f"  {name} " in listed
        assert summary in " ".join(listed.split())
        shown = _help(name)
        assert shown.startswith(f"Usage: ctrlhost {name} ")
        # The page is wider than a terminal may be.
        assert " ".join(shown.split()) in " ".join(sections[name].split())
