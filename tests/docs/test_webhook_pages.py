"""The commands of the pages about webhooks and versions work as written, in the order of the page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.guides import Terminal, matches, steps_of
from tests.support.programs import ROOT, install_programs

PAGES = ("validate", "versions")


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.behaviour("webhooks/WH28")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_work(page: str, tmp_path: Path) -> None:
    programs = install_programs(tmp_path / "programs")
    environment = {**os.environ, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}
    environment.pop("KUBECONFIG", None)
    folder = tmp_path / "checkout"
    folder.mkdir()
    # What the reader's commands leave in the checkout stays out of this one.
    (folder / "examples").symlink_to(ROOT / "examples")
    steps = steps_of((ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8"))
    assert len(steps) >= 4
    with Terminal(folder, tmp_path / "notes", environment) as terminal:
        for step in steps:
            printed = terminal.run(step.commands)
            assert terminal.failures() == [], f"{step.commands}\n{printed}"
            if step.output is not None:
                assert matches(printed, step.output), f"{step.commands}\n{printed}"
