"""The targets of the Makefile: how they run the tests, and which they leave to `make slow` and `make soak`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands(target: str, *variables: str) -> str:
    """Return what `make` would run for a target."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target, *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.behaviour("findings/FT5")
def test_the_suite_runs_in_parallel_and_in_time() -> None:
    (run,) = [line for line in commands("test-python", "WORKERS=2").splitlines() if "pytest" in line]
    # 12 minutes, and half as long again for a slow machine: the run of CI fails beyond.
    assert run.endswith('-m pytest --quiet -m "not slow" -n 2 --session-timeout 1080')
    default = re.search(r"^WORKERS [?]= (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert default is not None
    assert default[1].startswith("$(shell nproc")


@pytest.mark.behaviour("findings/FT5")
def test_the_slow_tests_have_a_stage_in_ci() -> None:
    (run,) = [line for line in commands("slow", "WORKERS=2").splitlines() if "pytest" in line]
    assert run.endswith("-m pytest --quiet -m slow -n 2")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"\bmake (test|slow)$", ci, re.MULTILINE) == ["test", "slow"]


@pytest.mark.behaviour("findings/FT5")
def test_long_proofs_are_in_soak_and_short_in_the_suite() -> None:
    soak = commands("soak")
    lengths = set(re.findall(r"CTRLHOST_[A-Z_]+(?==)", soak))
    assert lengths
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    for name in lengths:
        # Each has a length for the suite, too, or runs in soak only.
        assert any(re.search(rf'environ.get\("{name}"|"{name}" (not )?in os.environ', text) for text in sources), name
