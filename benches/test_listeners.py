"""Probes beside a thousand connections that send nothing, with 1,024 file descriptors, and without any that is free.

The rows are operations/OP1, OP2 and OP8.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benches.supervised import GOOD, answered, host, p99, processor_time, resident

if TYPE_CHECKING:
    from benches.ratios import Ratios

SILENT = 1_000
#: Requests to each probe, ten a second, and connections to a host that cannot accept them.
PACE = 10
#: Lines that a host may log of either.
SAID, SAID_WITHOUT_DESCRIPTORS = 20, 2


@pytest.mark.behaviour("operations/OP1")
@pytest.mark.behaviour("operations/OP2")
def test_probes_beside_silent_connections(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    requests = 600
    with stub_pods(10, 0, 1) as url, host(tmp_path, url, GOOD) as process, contextlib.ExitStack() as clients:
        process.line("plugin good running")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        for path in ("/livez", "/readyz"):
            answered(process.address, path)
        name, _, port = process.address.rpartition(":")
        before, lines = resident(process.pid), len(process.lines)
        for _ in range(SILENT):
            clients.enter_context(socket.create_connection((name, int(port)), 30))
        spent, began = processor_time(process.pid), time.monotonic()
        taken: dict[str, list[float]] = {"/livez": [], "/readyz": []}
        for _ in range(requests):
            for path, seconds in taken.items():
                seconds.append(answered(process.address, path))
            time.sleep(1 / PACE)
        spent, lasted = processor_time(process.pid) - spent, time.monotonic() - began
        for path, seconds in taken.items():
            ratios.add("listeners", f"{path}, p99, beside 1,000 silent connections", "s", p99(seconds))
        memory = max(resident(process.pid) - before, 0)
        ratios.add("listeners", "memory of 1,000 silent connections", "B", memory)
        ratios.add("listeners", "part of a core beside 1,000 silent connections", "", spent / lasted)
        assert len(process.lines) - lines <= SAID
        assert process.stop() == 0


@pytest.mark.behaviour("operations/OP8")
def test_no_free_descriptor(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    connections = 300
    with stub_pods(10, 0, 1) as url, host(tmp_path, url, GOOD) as process, contextlib.ExitStack() as clients:
        process.line("plugin good running")
        answered(process.address, "/livez")
        name, _, port = process.address.rpartition(":")
        held = {int(path.name) for path in Path(f"/proc/{process.pid}/fd").iterdir()}
        free = next(number for number in range(len(held) + 1) if number not in held)
        before, lines = resource.prlimit(process.pid, resource.RLIMIT_NOFILE), len(process.lines)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (free, before[1]))
        spent, began = processor_time(process.pid), time.monotonic()
        for _ in range(connections):
            clients.enter_context(socket.create_connection((name, int(port)), 30))
            time.sleep(1 / PACE)
        spent, lasted = processor_time(process.pid) - spent, time.monotonic() - began
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        taken = answered(process.address, "/livez")
        said = [line for line in process.lines[lines:] if "cannot accept connections" in line["msg"]]
        assert 1 <= len(said) <= SAID_WITHOUT_DESCRIPTORS
        assert process.stop() == 0
    ratios.add("listeners", "part of a core without a free descriptor", "", spent / lasted)
    ratios.add("listeners", "first answer once there are descriptors again", "s", taken)
