"""The figures of writing plugins: each has a limit in `benches/budget.toml`, and the last full run was within it.

`make bench` fails above a limit and writes `docs/benchmarks.md`, which these tests read: they measure nothing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.figures import NOISE, budget, limit, measured, rows

behaviour = pytest.mark.behaviour


def line(row: str | None, figure: str, most: float) -> object:
    """Return a figure with its limit, and the row of the specification that names it."""
    return pytest.param(figure, most, id=figure, marks=(behaviour(row),) if row else ())


SIZES = [
    line("authoring/AD6", "authoring: installed size", 230e6),
    line("authoring/AD6", "authoring: installed size without kubernetes", 100e6),
]

#: Seconds.
TIMES = [
    line("authoring/AD6", "authoring: import of ctrlhost", 0.04),
    line("authoring/AD6", "authoring: import of ctrlhost.Plugin and a model", 0.09),
    line("authoring/AN2", "authoring: ctrlhost new to the first reconcile", 60),
    line(None, "authoring: ctrlhost new", 1),
    line(None, "authoring: new project: tests", 15),
    line(None, "authoring: new project: mypy --strict", 20),
    line(None, "authoring: ctrlhost run FILE.py --sandbox until it runs", 2.5),
    line("authoring/AN10", "authoring: ctrlhost dev: change to the first run with new code", 2),
    line("authoring/AT17", "test kit: added to the start of pytest", 0.02),
    line("authoring/AC2", "authoring: ctx.ensure of an unchanged Deployment", 60e-6),
]


@pytest.mark.parametrize(("figure", "most"), [*SIZES, *TIMES])
def test_the_last_full_run_was_within_the_limit(figure: str, most: float) -> None:
    assert measured(figure, "itself") <= most


@pytest.mark.parametrize(("figure", "most"), SIZES)
def test_a_size_has_its_limit_in_the_budget(figure: str, most: float) -> None:
    assert limit(figure, "itself") <= most


@pytest.mark.parametrize(("figure", "most"), TIMES)
def test_a_time_has_its_limit_in_the_budget(figure: str, most: float) -> None:
    assert limit(figure, "itself") <= most * NOISE


def test_each_limit_is_that_of_a_figure_that_is_measured() -> None:
    known = {f"{row[0]}: {row[1]}" for row in rows()}
    assert {figure for figure in budget() if figure.startswith(("authoring:", "test kit:"))} <= known


@behaviour("authoring/AD6")
def test_an_import_does_not_import_the_official_client() -> None:
    code = "import sys, ctrlhost, ctrlhost.testing; ctrlhost.Plugin; ctrlhost.Model; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
