"""The Rust core without Python, as criterion measures it, against the same jobs in Go."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

PROJECT = Path(__file__).parent.parent
FIFO_KEYS = 100_000


@pytest.fixture(scope="module")
def build() -> None:
    """Compile the benches before the first measurement, so that no compiler runs beside a peer."""
    benches = ["--bench", "queue", "--bench", "delta_fifo"]
    command = ["cargo", "bench", "--quiet", "--locked", "--package", "ctrlhost-core", *benches, "--no-run"]
    subprocess.run(command, cwd=PROJECT, check=True)


@pytest.fixture
def criterion(build: None, tmp_path: Path) -> Callable[[str, str, str], float]:
    """Run one benchmark of a bench file and return the median of its samples, in seconds per iteration."""

    def run(bench: str, group: str, name: str) -> float:
        command = ["cargo", "bench", "--quiet", "--locked", "--package", "ctrlhost-core", "--bench", bench, "--"]
        command += ["--warm-up-time", "1", "--measurement-time", "3", "--exact", f"{group}/{name}"]
        subprocess.run(
            command,
            cwd=PROJECT,
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"CRITERION_HOME": str(tmp_path)},
        )
        (estimates,) = tmp_path.glob("**/new/estimates.json")
        median: float = json.loads(estimates.read_bytes())["median"]["point_estimate"]
        return median / 1e9

    return run


@pytest.mark.parametrize(("name", "peer"), [("nameless", "cycle"), ("with metrics", "cycle_metrics")])
def test_cycle(
    ratios: Ratios,
    criterion: Callable[[str, str, str], float],
    go_queue: Callable[[str], float],
    name: str,
    peer: str,
) -> None:
    ratios.add("core in Rust", f"queue cycle, {name}", "s", criterion("queue", "cycle", name), client_go=go_queue(peer))


def test_four_producers_and_four_consumers(
    ratios: Ratios, criterion: Callable[[str, str, str], float], go_queue: Callable[[str], float]
) -> None:
    ours = criterion("queue", "threads", "4 producers, 4 consumers")
    ratios.add(
        "core in Rust", "4 producers and 4 consumers, per key handed out", "s", ours, client_go=go_queue("contended")
    )


def test_delta_fifo(
    ratios: Ratios, criterion: Callable[[str, str, str], float], go_peers: Callable[..., dict[str, float]]
) -> None:
    ours = criterion("delta_fifo", "delta_fifo", "add, update and pop, one key at a time") / FIFO_KEYS
    ratios.add(
        "core in Rust",
        "delta FIFO: add + update + pop, per key",
        "s",
        ours,
        client_go=go_peers("fifo").get("add_update_pop", 0.0),
    )
