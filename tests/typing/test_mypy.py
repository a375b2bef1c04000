"""mypy on declarations as an author writes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.behaviour("authoring/AU4")
@pytest.mark.behaviour("authoring/AU23")
@pytest.mark.behaviour("authoring/AU35")
def test_declarations_need_no_annotation_and_have_the_right_types() -> None:
    """`assert_type` and the unused-ignore check of --strict fail where a type is another one, or a mistake passes."""
    files = sorted(str(path) for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))
    command = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", *files]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert result.returncode == 0, result.stdout + result.stderr
