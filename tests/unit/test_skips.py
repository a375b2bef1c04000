"""CI fails on a skipped test that it can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest

@pytest.mark.skipif(True, reason="no kubectl here")
def test_marked(): ...

def test_inside():
    pytest.skip("no Go here")

def test_allowed():
    pytest.skip("this machine has no IPv6")

@pytest.mark.xfail(reason="a known defect")
def test_expected(): assert False

def test_run(): ...
"""


@pytest.mark.behaviour("findings/FT4")
@pytest.mark.parametrize(
    ("ci", "outcome"),
    [("true", "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error"), ("", "1 passed, 3 skipped, 1 xfailed")],
)
def test_a_skip_fails_in_ci_unless_the_machine_cannot_run_the_test(tmp_path: Path, ci: str, outcome: str) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert outcome in ran.stdout, ran.stdout + ran.stderr
    if ci:
        assert "skipped in CI: no kubectl here." in ran.stdout
        assert "skipped in CI: no Go here." in ran.stdout
        assert ran.returncode == 1


@pytest.mark.behaviour("findings/FT4")
def test_ci_says_that_it_is_ci() -> None:
    assert "export CI=true" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
