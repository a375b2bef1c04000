"""The feed: what the process of a plugin costs the host that serves it, and how late it gets an event."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from benches.ratios import Ratios

CHILDREN = 10


def run(children: int, pods: int, events: int) -> dict[str, float]:
    """Run benches.feeds with 100 events a second, and return its figures."""
    command = [sys.executable, "-m", "benches.feeds", str(children), str(pods), str(events), "100"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@pytest.mark.behaviour("supervision/PI23")
def test_readers_of_a_feed(ratios: Ratios) -> None:
    pods, events = 10_000, 6_000
    alone, read = run(0, pods, events), run(CHILDREN, pods, events)
    ratios.add("feed", "event to its reader, p99", "s", read["p99"])
    # The thread that serves, and what waking it costs the thread of the informer.
    used = (read["served"] + read["fed"] - alone["fed"]) / CHILDREN
    ratios.add("feed", "processor time of an event and reader", "s", used, bare_write=read["bare_write"])
    ratios.add("feed", "memory of the host per reader", "B", read["memory"])
