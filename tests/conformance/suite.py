"""Kubernetes' own Conformance tests, run one by one against a server."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.control_plane import BINARY as CONTROL_PLANE

BINARY = CONTROL_PLANE.with_name("conformance")
AT_ONCE = 4
PARTS = 12
SECONDS_EACH, SECONDS_PART = 90, 300

#: The tests that need neither the output of a container nor a webhook that a container serves.
AREAS = re.compile(
    r"\[sig-(api-machinery|auth|instrumentation)\]|ControllerRevision|CSI|DisruptionController|EndpointSlice|Events"
    r"|IngressClass|Ingress API|Lease|lifecycle|API operations|PodTemplates|RuntimeClass|Service ?CIDR|StorageClass"
    r"|VolumeAttachment"
)
NEED_CONTAINERS = re.compile(
    r"[Ww]ebhook|Aggregator|CustomResourceConversion|CustomResourceDefinition conversion|[Ll]ifecycle [Hh]ook"
    r"|container lifecycle|Lifecycle|PreStop|Kubelet|Ephemeral"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended; `why` is empty if it passed."""

    test: str
    passed: bool
    why: str


class Suite:
    """The binary of the tests, with the server that it tests."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        """Keep reports in `directory`, and a kubectl for the tests that run one."""
        self._directory = directory
        self._numbers = itertools.count()
        kubectl = directory / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {CONTROL_PLANE} kubectl "$@"\n')
        kubectl.chmod(0o755)
        self._command = [
            str(BINARY),
            "--provider=local",
            f"--kubeconfig={kubeconfig}",
            f"--kubectl-path={kubectl}",
            "--allowed-not-ready-nodes=10",
            "--delete-namespace-on-failure=true",
            "--ginkgo.no-color",
        ]

    def tests(self) -> list[str]:
        """Return the names of the tests to run."""
        specs = self._run("list", 60, "--ginkgo.dry-run", r"--ginkgo.focus=\[Conformance\]")
        names = {_name(spec) for spec in specs if spec["State"] == "passed"}
        return sorted(name for name in names if AREAS.search(name) and not NEED_CONTAINERS.search(name))

    def run(self, tests: list[str], failing: Collection[str] = ()) -> list[Outcome]:
        """Run the tests, a few at once; a process starts slowly, so each runs several, one after the other.

        Those that are known as `failing` run alone, since some never end.
        """
        alone = [[test] for test in tests if test in failing]
        others = [test for test in tests if test not in failing]
        parts = [*alone, *(others[start::PARTS] for start in range(PARTS))]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = {test: outcome for part in pool.map(self._outcomes, parts) for test, outcome in part.items()}
            # What a test that did not end has cut off, and that test.
            left = [[test] for test in others if test not in outcomes]
            outcomes |= {test: outcome for part in pool.map(self._outcomes, left) for test, outcome in part.items()}
        unended = (Outcome(test, passed=False, why="it did not end") for test in tests if test not in outcomes)
        return [*outcomes.values(), *unended]

    def _outcomes(self, tests: list[str]) -> dict[str, Outcome]:
        """Return the outcomes of the tests that ended in one process."""
        names = "|".join(re.sub(r"([^\w\s])", r"\\\1", test) for test in tests)
        seconds = SECONDS_EACH if len(tests) == 1 else SECONDS_PART
        try:
            specs = self._run(
                str(next(self._numbers)), seconds + 60, f"--ginkgo.focus= ({names})$", f"--ginkgo.timeout={seconds}s"
            )
        except subprocess.TimeoutExpired:
            return {}
        # What follows a test that did not end is skipped.
        ended_states = ("passed", "failed", "panicked", *(("skipped",) if len(tests) == 1 else ()))
        ended = [spec for spec in specs if _name(spec) in tests and spec["State"] in ended_states]
        return {outcome.test: outcome for outcome in map(_outcome, ended)}

    def _run(self, name: str, seconds: float, *flags: str) -> list[dict[str, Any]]:
        """Run the binary; return its report of every test."""
        report = self._directory / f"{name}.json"
        command = [*self._command, f"--ginkgo.json-report={report}", *flags]
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=self._directory,
            env=_environment(),
        )
        if not report.exists():
            raise AssertionError(f"{BINARY.name} wrote no report: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        (suite,) = json.loads(report.read_text())
        return [spec for spec in suite["SpecReports"] if spec["LeafNodeType"] == "It"]


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "GINKGO"))}


def _outcome(spec: dict[str, Any]) -> Outcome:
    passed = spec["State"] == "passed"
    why = "" if passed else f"{spec['State']}: {(spec.get('Failure') or {}).get('Message', '')}"
    return Outcome(_name(spec), passed, why[:300])


def _name(spec: dict[str, Any]) -> str:
    return " ".join((*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]))
