"""The figures of a run beside those of the peers, the table of ratios, and the budget."""

from __future__ import annotations

import os
import platform
import statistics
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from benches.plots import draw

BUDGET, HEADLINE = (Path(__file__).with_name(f"{name}.toml") for name in ("budget", "headline"))
DOCS = Path(__file__).parent.parent / "docs"
PAGE, SCALE_PAGE = DOCS / "benchmarks.md", DOCS / "benchmarks-scale.md"
PYTHON_PEERS = ("kubernetes", "kopf")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured cost, where less is better, beside the same cost of the peers in the same run."""

    suite: str
    name: str
    unit: str
    ours: float
    peers: dict[str, float]

    @property
    def key(self) -> str:
        """Return the name of this figure in the budget."""
        return f"{self.suite}: {self.name}"

    def cost(self, peer: str) -> float:
        """Return the cost of a peer; 0 if it was not measured, 1 for `itself`, whose limit is an amount."""
        return 1.0 if peer == "itself" else self.peers.get(peer, 0.0)


@dataclass
class Ratios:
    """The figures of one run."""

    short: bool
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, suite: str, name: str, unit: str, ours: float, **peers: float) -> None:
        """Record a cost and the peers' costs; underscores in the peers' names become hyphens."""
        named = {peer.replace("_", "-"): cost for peer, cost in peers.items()}
        self.figures.append(Figure(suite, name, unit, ours, named))

    def note(self, text: str) -> None:
        """Record a note for readers of the figures, such as a peer that could not run."""
        if text not in self.notes:
            self.notes.append(text)

    def over_budget(self) -> list[str]:
        """Return a line for each figure above its limit: the median of a ratio, or of an amount of bytes or things.

        In the run of CI each of its figures needs a result.
        """
        problems = []
        for key, limits in tomllib.loads((HEADLINE if self.short else BUDGET).read_text(encoding="utf-8")).items():
            measured = [figure for figure in self.figures if figure.key == key]
            for peer, limit in limits.items():
                costs = [figure.ours / figure.cost(peer) for figure in measured if figure.cost(peer)]
                if not costs and self.short:
                    problems.append(f"{key}: not measured beside {peer}")
                elif costs and (median := statistics.median(costs)) > limit:
                    unit = measured[0].unit if peer == "itself" else f"times {peer}"
                    problems.append(f"{key}: {_amount(median, unit)}, the budget allows {limit:,.4g}")
        return problems

    def table(self) -> str:
        """Return the ratios as a Markdown table with a row for each peer of each figure."""
        lines = ["| suite | measured | ctrlhost | peer | | ratio |", "|--|--|--:|--|--:|--:|"]
        for figure in self.figures:
            ours = _amount(figure.ours, figure.unit)
            if not figure.peers:
                lines.append(f"| {figure.suite} | {figure.name} | {ours} | none | | |")
            for peer, cost in figure.peers.items():
                ratio = f"{figure.ours / cost:.2f}" if cost else ""
                lines.append(
                    f"| {figure.suite} | {figure.name} | {ours} | {peer} | {_amount(cost, figure.unit)} | {ratio} |"
                )
        return "\n".join(lines)

    def _worse(self) -> list[str]:
        """Return the rows whose ratio is above 1."""
        rows = ((figure, peer, cost) for figure in self.figures for peer, cost in figure.peers.items() if cost)
        return [
            f"{figure.key} ({figure.ours / cost:.2f} of {peer})" for figure, peer, cost in rows if figure.ours > cost
        ]

    def page(self, title: str, command: str) -> str:
        """Return the page for the docs: machine, versions, the table."""
        peers = ", ".join(f"{name} {version(name)}" for name in PYTHON_PEERS)
        about = [
            f"# {title}",
            "",
            "Read this page to decide whether ctrlhost is fast and small enough for you. Each row is one job: what it",
            "costs in ctrlhost, and what it costs in another library or server. Less is better. A ratio below 1 means",
            "that ctrlhost was cheaper.",
            "",
            f"`{command}` measures and writes it. All rows of a job are from the same run on the same machine, and are",
            "medians of three to nine.",
            "",
            f"Machine: {_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}.",
            f"Python {platform.python_version()}, ctrlhost {version('ctrlhost')}, {peers}; client-go v0.36.3,",
            "controller-runtime v0.24.1. Pods are about 5 KB of JSON each and all different.",
            "",
            (table := self.table()),
            "",
            f"Costs more than what is beside it: {', '.join(self._worse()) or 'nothing'}.",
            "",
            *(f"![{path.stem}](plots/{path.name})" for path in draw(table, DOCS / "plots")),
            "",
            "[Where the time goes](performance.md) explains the figures.",
            "",
        ]
        return "\n".join(about + [f"- {note}" for note in self.notes] + ([""] if self.notes else []))


def _amount(cost: float, unit: str) -> str:
    if not unit:
        return f"{cost:.3g}"
    if unit.startswith("times"):
        return f"{cost:.2f} {unit}"
    if unit != "s":
        return f"{cost:,.0f} {unit}"
    for factor, name in ((1e-6, "ns"), (1e-3, "µs"), (1.0, "ms")):
        if cost < factor:
            return f"{cost / factor * 1e3:.3g} {name}"
    return f"{cost:.2f} s"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
