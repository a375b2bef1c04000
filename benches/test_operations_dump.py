"""How long a host writes the stacks of 100 threads at SIGUSR1. The row is operations/OP95."""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from benches.supervised import host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.ratios import Ratios

#: faulthandler shows no more.
THREADS = 100
DUMPS = 10

PLUGIN = f"""
import threading

import ctrlhost

ending = threading.Event()


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("c", lambda ctx, request: None, ctrlhost.For("v1", "Pod"))
    for number in range({THREADS}):
        threading.Thread(target=ending.wait, name=f"many/{{number}}", daemon=True).start()
"""


@pytest.mark.behaviour("operations/OP95")
def test_a_dump_of_a_hundred_threads(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    taken = []
    with stub_pods(10, 0, 1) as url, host(tmp_path, url, {"many": PLUGIN}) as process:
        process.line("plugin many running")
        for _ in range(DUMPS):
            seen = len(process.lines)
            began = time.perf_counter()
            process.signal(signal.SIGUSR1)
            # What is read last are the frames of the last thread.
            process.wait_for(partial(whole, process.lines, seen), "a dump")
            taken.append(time.perf_counter() - began)
        assert process.stop() == 0
    ratios.add("operations", f"SIGUSR1 to the stacks of {THREADS} threads, longest of {DUMPS}", "s", max(taken))


def whole(lines: list[dict[str, Any]], seen: int) -> bool:
    """Return whether the lines after the first `seen` have all threads."""
    return sum("hread 0x" in line["msg"] for line in lines[seen:]) >= THREADS
