"""The output of `make demo`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_prints_the_work_of_each_plugin_and_its_daemons() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"], cwd=ROOT, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_ = done.stdout.splitlines()
    assert first.startswith("$ ctrlhost run --plugins hostname,naming,ingress-status,bitcoin --sandbox")
    parts = {part.split(":")[0]: part for part in done.stdout.split("\n── ")[1:]}
    assert [name.partition(",")[0] for name in parts] == [
        "hostname",
        "naming",
        "ingress-status",
        "bitcoin",
        "reconciles",
    ]
    assert parts["hostname"].rpartition("released:")[2].split() == ["shop.example.com", parts["hostname"].split()[-1]]
    assert 'shortName "g" held by gadgets.shop.example.com' in parts["naming"]
    assert "Established    True" in parts["naming"]
    assert "203.0.113.8" in parts["ingress-status"].rpartition("a cloud assigns")[2]
    assert ("with real daemons" in parts["bitcoin"]) != ("with fake daemons" in parts["bitcoin"])
    assert "harbour-sts-4" in parts["bitcoin"]
    assert "error" not in parts["reconciles, from http"]
    assert "stopped with exit code 0" in done.stdout
