"""Kubernetes' own Conformance tests on the sandbox: those that docs/sandbox.md lists fail, and no others.

`make conformance` runs this file. It is not among the tests that pytest finds, since it takes several minutes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ctrlhost_sandbox import Sandbox

from tests.conformance.suite import BINARY, Outcome, Suite
from tests.support.control_plane import require_kube_apiserver

PAGE = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text(encoding="utf-8")
_, _, SECTION = PAGE.partition("\n## Conformance\n")
SECTION = SECTION.partition("\n## ")[0]
#: The tests in the table, with their reasons.
LISTED = dict(re.findall(r"^\| `(\[sig-.*)` \| (\S.*) \|$", SECTION, re.MULTILINE))
CONTROLLERS = ("gc", "namespace", "workloads", "service")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Run all tests once."""
    if not BINARY.exists():
        pytest.skip("the Conformance tests are not built; `make conformance` builds them")
    require_kube_apiserver()  # for its kubectl
    directory = tmp_path_factory.mktemp("conformance")
    with Sandbox(kubeconfig=directory / "kubeconfig", controllers=CONTROLLERS):
        suite = Suite(directory / "kubeconfig", directory)
        return suite.run(suite.tests(), LISTED)


@pytest.mark.behaviour("findings/FS28")
def test_exactly_the_listed_tests_fail(outcomes: list[Outcome]) -> None:
    failed = {outcome.test: outcome.why for outcome in outcomes if not outcome.passed}
    assert {test: why for test, why in failed.items() if test not in LISTED} == {}, "tests fail that should pass"
    assert LISTED.keys() - failed.keys() == set(), "tests pass that docs/sandbox.md lists as failing"


@pytest.mark.behaviour("findings/FS28")
def test_the_docs_say_how_many_pass(outcomes: list[Outcome]) -> None:
    passed = sum(outcome.passed for outcome in outcomes)
    assert len(outcomes) == 110
    assert passed >= 100
    assert f"{passed} of the {len(outcomes)} tests pass" in " ".join(SECTION.split())
