"""A plot for each suite of the benches: what each job cost ctrlhost and its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from benches.ratios import Figure

OURS = "#c2410c"
PEER = "#94a3b8"
BAR = 0.34


def draw(figures: list[Figure], folder: Path) -> list[Path]:
    """Write one SVG per suite into `folder`; the files, in the order of the suites."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures give the same file, so that a diff shows what was measured and not what was drawn.
    mpl.rcParams.update({"svg.hashsalt": "ctrlhost", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    suites = list(dict.fromkeys(figure.suite for figure in figures))
    return [_suite(suite, [one for one in figures if one.suite == suite], folder) for suite in suites]


def _suite(suite: str, figures: list[Figure], folder: Path) -> Path:
    from matplotlib import pyplot as plt

    labels, ratios = [], []
    for figure in figures:
        for peer, cost in figure.peers.items():
            if cost:
                labels.append(f"{figure.name}\nagainst {peer}")
                ratios.append(figure.ours / cost)
    drawn, axes = plt.subplots(figsize=(8, 1 + BAR * 1.5 * max(len(labels), 1)), layout="constrained")
    colours = [OURS if ratio <= 1 else PEER for ratio in ratios]
    bars = axes.barh(labels, ratios, color=colours)
    axes.bar_label(bars, [f"{ratio:.2g}" for ratio in ratios], padding=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("cost relative to the peer in the same run; left of 1, ctrlhost is cheaper")
    axes.set_title(suite)
    path = folder / f"{suite.replace(' ', '-')}.svg"
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)
    return path
