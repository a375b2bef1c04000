"""A comparison of the same steps on the sandbox and on a real kube-apiserver.

Answers are compared as lines of text, with placeholders for all that must differ: uids, times, versions, addresses and
random names. A line from only one server must be in the table of docs/sandbox.md.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import ctrlhost

PAGE = Path(__file__).parents[3] / "docs" / "sandbox.md"
HEADING = "## Differences that the comparison finds"
SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]"

CERTIFICATE = "-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----"

#: The manager names of controllers.
CONTROLLERS = re.compile(
    r"\b(controlplane|sandbox-(deployment|replicaset|statefulset|daemonset|kubelet|job|cronjob|disruption))\b"
)
REPLACED: list[tuple[re.Pattern[str], str]] = [
    (re.compile(rf"{CERTIFICATE}(\s*{CERTIFICATE})*", re.DOTALL), "CERTIFICATE"),
    (re.compile(r"https?://[\w.:\[\]-]+"), "SERVER"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?(Z|[+-]\d{4}|[+-]\d\d:\d\d)( UTC)?)?"), "TIME"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"((?:resourceVersion|Resource Version)\"?:? *\"?'?)\d+"), r"\1VERSION"),
    (re.compile(rf"\b([a-z]+)-{SUFFIX}{{8,10}}-{SUFFIX}{{5}}\b"), r"\1-HASH-RANDOM"),
    (re.compile(rf"(hash=|hash: |hash\": \")({SUFFIX}|\d){{6,10}}\b"), r"\1HASH"),
    (re.compile(rf"\b(web|ssa|set|each|daemon|run|revised)-({SUFFIX}|\d){{8,10}}\b"), r"\1-HASH"),
    (re.compile(rf"\b(web|set|each|daemon|run|revised|svc|lb)-{SUFFIX}{{5}}\b"), r"\1-RANDOM"),
    (re.compile(r"\b(10|127|198)(\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b3[0-2]\d{3}\b"), "NODEPORT"),
    (re.compile(r"(?<![\w.-])((\d+[smhd])+|<invalid>|<unknown>)( ago)?(?![\w.-])"), "AGE"),
    (re.compile(r"(continue\"?:? ?\"?)[\w-]{20,}"), r"\1TOKEN"),
]


def normalise(answer: Any) -> list[str]:
    """Return an answer as lines with placeholders for random parts; objects become YAML with sorted keys."""
    text = answer if isinstance(answer, str) else yaml.safe_dump(_sorted_managers(_plain(answer)), width=10_000)
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    # The width of a column depends on its longest cell; indentation is structure and stays.
    lines = [re.sub(r"(?<=\S)( {2,}|\t+)", "  ", line).rstrip() for line in text.splitlines()]
    return [line.rstrip(",") for line in lines if line]


def _plain(answer: Any) -> Any:
    return json.loads(CONTROLLERS.sub("CONTROLLER", json.dumps(answer, default=str)))


def _sorted_managers(value: Any) -> Any:
    """Sort managed fields by their contents, independently of the time."""
    if isinstance(value, list):
        return [_sorted_managers(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {key: _sorted_managers(item) for key, item in value.items()}
    if "managedFields" in members:
        members["managedFields"].sort(key=lambda entry: (entry["operation"], entry["manager"], str(entry["fieldsV1"])))
    return members


@dataclass(slots=True)
class Server:
    """One of the two servers, and the answers of its steps so far."""

    kind: str
    url: str
    kubeconfig: Path
    client: ctrlhost.Client
    namespace: str = ""
    steps: list[tuple[str, list[str]]] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    """Steps whose result the test does not expect on either server."""

    def note(self, step: str, answer: Any) -> None:
        """Record the answer of a step for the comparison."""
        self.steps.append((step, normalise(answer)))


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of the table: a line of only one server, as shell patterns."""

    where: str
    real: str
    sandbox: str
    why: str

    def explains(self, where: str, sign: str, line: str) -> bool:
        """Return whether the row covers this line, which only server `sign` (- real, + sandbox) returned."""
        pattern = self.real if sign == "-" else self.sandbox
        return bool(pattern) and fnmatch.fnmatchcase(where, self.where) and fnmatch.fnmatchcase(line.strip(), pattern)


def listed() -> list[Difference]:
    """Return the table of known differences."""
    text = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [Difference(*(_cell(cell) for cell in row[:3]), why=row[3].strip()) for row in rows]


def _cell(text: str) -> str:
    """Return the pattern in a cell; brackets and escaped stars are literal."""
    inner = text.strip().strip("`")
    return "" if inner in ("", "-") else inner.replace("[", "[[]").replace("\\*", "[*]")


class Comparison:
    """Runs steps on both servers and fails on unlisted differences."""

    def __init__(self, sandbox: Server, real: Server, differences: list[Difference], used: set[Difference]) -> None:
        self.sandbox, self.real = sandbox, real
        self._differences, self._used = differences, used

    def __call__(self, name: str, steps: Callable[[Server], object], *, at_once: bool = True) -> None:
        """Run the steps on both servers and compare; the table's `where` is `name` and the step."""
        with ThreadPoolExecutor(2 if at_once else 1) as pool:
            runs = [pool.submit(steps, server) for server in (self.real, self.sandbox)]
            for run in runs:
                run.result()
        self.compare(name)

    def compare(self, name: str) -> None:
        """Compare the steps since the last comparison."""
        real, sandbox = self.real.steps.copy(), self.sandbox.steps.copy()
        self.real.steps.clear()
        self.sandbox.steps.clear()
        assert [step for step, _ in real] == [step for step, _ in sandbox]
        report = [f"{server.kind}: {line}" for server in (self.real, self.sandbox) for line in server.unexpected]
        self.real.unexpected.clear()
        self.sandbox.unexpected.clear()
        for (step, expected), (_, actual) in zip(real, sandbox, strict=True):
            where = f"{name}: {step}"
            if lines := self._unexplained(where, expected, actual):
                report += [f"{where}", *lines]
        assert not report, "only in the real kube-apiserver (-) or the sandbox (+):\n" + "\n".join(report)

    def _unexplained(self, where: str, expected: list[str], actual: list[str]) -> list[str]:
        lines = []
        for line in difflib.ndiff(expected, actual):
            sign, text = line[0], line[2:]
            if sign not in "+-":
                continue
            rows = [row for row in self._differences if row.explains(where, sign, text)]
            self._used.update(rows)
            if not rows:
                lines.append(f"  {sign} {text}")
        return lines
