"""The targets of the Makefile: how they run the tests, and which they leave to `make nightly`."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands(target: str, *variables: str) -> str:
    """Return what `make` would run for a target outside of CI, unless a variable says otherwise."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target, "CI=", *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def run_of(target: str) -> str:
    """Return how a target runs pytest on two processes."""
    (run,) = [line for line in commands(target, "WORKERS=2").splitlines() if "-m pytest" in line]
    return run.partition(" -m pytest --quiet ")[2]


@pytest.mark.behaviour("findings/FT5")
def test_the_suites_run_in_parallel_and_in_time() -> None:
    # More than twice the 8 minutes that a run is to take, for a slow machine: the run of CI fails beyond.
    assert run_of("test-python") == '-m "not real and not slow" -n 2 --session-timeout 1200'
    assert run_of("test-real") == '-m "real and not slow" -n 2 --session-timeout 1200'
    default = re.search(r"^WORKERS [?]= (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert default is not None
    assert "$$(nproc " in default[1]
    # What fails by a race does not lose a run of CI, and is listed.
    assert " -m pytest --reruns 1 -raR --quiet -m " in commands("test-python", "CI=true")


@pytest.mark.behaviour("findings/FT5")
@pytest.mark.behaviour("findings3/NC18")
def test_each_test_runs_in_ci_or_in_the_night() -> None:
    assert run_of("slow") == "-m slow -n 2"
    assert "-m pytest --quiet -m slow" in commands("nightly")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"\bmake (test|test-real|slow)$", ci, re.MULTILINE) == ["test", "test-real"]


def test_the_tests_that_need_programs_fetch_them() -> None:
    real = commands("test-real", "--always-make")
    assert "for program in bitcoind promtool browser; do tests/$program/fetch" in real
    assert "tests/go/build controlplane" in real
    alone = commands("test", "--always-make")
    assert "fetch" not in alone
    assert "tests/go" not in alone


@pytest.mark.behaviour("findings/FT5")
def test_long_proofs_are_in_soak_and_short_in_the_suite() -> None:
    soak = commands("soak")
    lengths = set(re.findall(r"CTRLHOST_[A-Z_]+(?==)", soak))
    assert lengths
    files = [
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "sandbox/tests").rglob("*.py"),
        *(ROOT / "rust/core/tests").rglob("*.rs"),
    ]
    sources = [path.read_text(encoding="utf-8") for path in files]
    for name in lengths:
        # Each has a length for the suite, too, or runs in soak only.
        assert any(
            re.search(rf'environ.get\("{name}"|"{name}" (not )?in os.environ|env::var\("{name}"', text)
            for text in sources
        ), name


@pytest.mark.behaviour("scale/SC150")
def test_each_fuzz_target_runs_at_night_and_with_its_seeds_in_each_run_of_ci() -> None:
    fuzz = ROOT / "rust" / "fuzz"
    assert "rust/fuzz/run 300" in commands("nightly").splitlines()
    assert "rust/fuzz/run 3600" in commands("nightly", "SECONDS_EACH=3600").splitlines()
    assert re.search(r"\bmake fuzz SECONDS_EACH=0$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {path.stem for path in (fuzz / "targets").glob("*.rs")}
    assert len(targets) >= 9
    binaries = tomllib.loads((fuzz / "Cargo.toml").read_text(encoding="utf-8"))["bin"]
    assert {binary["name"]: binary["path"] for binary in binaries} == {name: f"targets/{name}.rs" for name in targets}
    for name in targets:
        assert list((fuzz / "seeds" / name).iterdir()), name
    run = (fuzz / "run").read_text(encoding="utf-8")
    assert "targets/*.rs" in run
    assert '"corpus/$1" "seeds/$1"' in run
    # Seconds for one input, and megabytes in all.
    assert "-timeout=1 -rss_limit_mb=512" in run


@pytest.mark.behaviour("scale/SC133")
def test_without_a_free_threaded_interpreter_nothing_is_tested_and_that_is_said() -> None:
    said = subprocess.run(
        ["make", "--no-print-directory", "test-free-threaded", "FREE_THREADED="],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.count("\n") == 1
    assert said.endswith("nothing was tested on one\n")


@pytest.mark.behaviour("scale/SC133")
@pytest.mark.behaviour("findings3/NC18")
def test_on_a_free_threaded_interpreter_the_whole_suite_runs_without_the_lock() -> None:
    lines = commands("test-free-threaded", "FREE_THREADED=python3.14t").splitlines()
    assert any("sys._is_gil_enabled()" in line and "PYTHON_GIL" not in line for line in lines)
    (run,) = [line for line in lines if "pytest" in line]
    assert run == 'PYTHON_GIL=0 .venv-free-threaded/bin/python -m pytest --quiet -m "not real and not slow"'
    assert "test-free-threaded" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nnightly:")[2]
    module = (ROOT / "rust/python/src/lib.rs").read_text(encoding="utf-8")
    assert "#[pymodule(gil_used = false)]" in module


@pytest.mark.behaviour("findings3/NC22")
def test_each_python_that_is_installed_runs_unit_host_and_sandbox_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each nightly run does it, for the versions after the oldest one, which `.venv` has.
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "test-pythons" in makefile.partition("\nnightly:")[2].partition("\n\n")[0]
    assert re.findall(r"^PYTHONS .*", makefile, re.MULTILINE) == ["PYTHONS ?= 3.12 3.13 3.14"]
    program = tmp_path / "python3.98"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    lines = commands("test-pythons", "PYTHONS=3.98 3.99", "WORKERS=2").splitlines()
    (run,) = [line for line in lines if "-m pytest" in line]
    assert (
        run == '.venv-3.98/bin/python -m pytest --quiet tests/unit tests/host sandbox -m "not real and not slow" -n 2'
    )
    (build,) = [line for line in lines if line.startswith("make ")]
    assert build == f"make VENV=.venv-3.98 PYTHON={program} .venv-3.98/.plugins"
    assert 'echo "Python 3.99 is not installed; nothing was tested on it"' in lines


@pytest.mark.behaviour("findings3/NC22")
def test_the_classifiers_name_the_versions_on_which_the_tests_pass() -> None:
    for project in (ROOT / "pyproject.toml", ROOT / "sandbox" / "pyproject.toml"):
        metadata = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        versions = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(metadata["classifiers"]))
        assert versions == ["3.11", "3.13"]
        assert metadata["requires-python"] == f">={versions[0]}"


@pytest.mark.behaviour("scale/SC135")
def test_a_wheel_for_a_free_threaded_interpreter_is_built_where_there_is_one() -> None:
    def builds(interpreter: str) -> list[str]:
        """Return the commands that build ctrlhost itself."""
        lines = commands("wheel", f"FREE_THREADED={interpreter}").splitlines()
        return [line for line in lines if line.startswith(".venv/bin/maturin build")]

    usual, other = builds("python3.14t")
    assert other == f"{usual} --interpreter python3.14t"
    assert builds("") == [usual]
