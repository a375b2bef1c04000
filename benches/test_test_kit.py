"""What the installed test kit adds to the start of pytest in a project that does not use it.

The row is authoring/AT17.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from benches.ratios import Ratios


@pytest.mark.behaviour("authoring/AT17")
def test_start_of_pytest(ratios: Ratios, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # As after the first run on an author's machine, modules are compiled.
    left_out = ("PYTEST", "COV", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}

    def start(*arguments: str) -> float:
        # Other plugins of this environment take part in neither.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        environment = kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
        began = time.perf_counter()
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    # By turns, since a machine's speed drifts; the shortest of each has the least of other work in it.
    turns = [(start(), start("-p", "ctrlhost.testing.pytest_plugin")) for _ in range(30)]
    without, with_kit = (min(times) for times in zip(*turns, strict=True))
    ratios.add("test kit", "added to the start of pytest", "s", with_kit - without)
