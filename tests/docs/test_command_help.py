"""Each command has a help text, which is in the reference."""

from __future__ import annotations

import pytest

from ctrlhost.cli.group import COMMANDS
from tests.docs.test_reference import PAGES, commands
from tests.support import fork_server


def _help(*command: str) -> str:
    done = fork_server.run(*command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.behaviour("operations/OP91")
def test_the_help_of_each_command_is_in_the_reference() -> None:
    listed = _help()
    page = (PAGES / "cli.md").read_text()
    # The part that `make docs` writes.
    generated = commands()
    assert generated in page
    sections = {section.partition("`")[0]: section for section in f"\n{generated}".split("\n## `ctrlhost ")[1:]}
    assert list(sections) == list(COMMANDS)
    for name, summary in COMMANDS.items():
        assert f"  {name} " in listed
        assert summary in " ".join(listed.split())
        text = _help(name)
        assert text.startswith(f"Usage: ctrlhost {name} ")
        # The page is wider than a terminal may be.
        assert " ".join(text.split()) in " ".join(sections[name].split())
