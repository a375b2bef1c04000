"""A first list whose reconciles all fail: what a new object waits for, and what the host remembers.

The sandbox is on the same cores. The host runs in a process of its own, so that its memory is that of the host.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from benches.sandboxes import CONFIG_MAPS, Access, Line, create, memory, sandbox
from tests.host.conftest import Distributions
from tests.support.host_process import HostProcess

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from benches.ratios import Ratios

pytestmark = pytest.mark.scale

BURST, NEW = 100_000, 20
#: Fails, or not, for the objects of the burst, and notes when a new object is reconciled.
PLUGIN = """
import os, time
import ctrlhost

SEEN = os.open({seen!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    def reconcile(ctx, request):
        if request.name.startswith("new"):
            os.write(SEEN, f"{{request.name}} {{time.perf_counter()}}\\n".encode())
        elif {fails}:
            raise ValueError("no daemon")

    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", namespaces=["default"]))
"""


def small(number: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number:06}"}, "data": {"k": "v"}}


def new(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest.mark.behaviour("findings3/NC16")
def test_a_new_object_beside_a_first_list_that_fails(ratios: Ratios, tmp_path: Path) -> None:
    bytes_of: dict[bool, int] = {}
    taken: list[float] = []
    with sandbox(tmp_path) as server:
        create(server, CONFIG_MAPS, BURST, small)
        for fails in (False, True):
            folder = tmp_path / str(fails)
            folder.mkdir()
            seen = folder / "seen"
            distributions = Distributions(folder)
            distributions.add("burst", PLUGIN.format(seen=str(seen), fails=fails))
            options = ("--plugins=burst", f"--kubeconfig={server.kubeconfig}")
            with HostProcess(*options, environment=distributions.environment(), forked=False) as host:
                if fails:
                    host.wait_for_metric(100, "controller_runtime_reconcile_errors_total", controller="burst/c")
                    taken = new_objects(server, host, seen)
                host.wait_for_metric(BURST, "controller_runtime_reconcile_time_seconds_count", controller="burst/c")
                bytes_of[fails] = memory(host.pid)
    name = f"new object beside {BURST:,} first runs that fail, creation to reconcile, slowest of {NEW}"
    ratios.add("supervision", name, "s", max(taken))
    name = f"memory of a host after {BURST:,} first runs that failed"
    ratios.add("supervision", name, "B", bytes_of[True], that_succeeded=bytes_of[False])


def new_objects(server: Any, host: HostProcess, seen: Path) -> list[float]:
    """Create objects one after the other during the burst; return the seconds until each is reconciled."""
    access, taken = Access(server), []
    line = Line(access)

    def reconciled() -> list[str]:
        return seen.read_text().splitlines() if seen.exists() else []

    def is_reconciled(number: int) -> bool:
        return len(reconciled()) >= number

    for number in range(1, NEW + 1):
        body = json.dumps(new(f"new-{number}")).encode()
        began = time.perf_counter()
        assert line.write(access.request("POST", CONFIG_MAPS, body)) == 201
        host.eventually(partial(is_reconciled, number), "reconcile of a new object")
        taken.append(float(reconciled()[-1].split()[1]) - began)
    line.close()
    # The burst has not ended.
    assert (host.metric("workqueue_depth", controller="burst/c", priority="-100") or 0) > BURST // 10
    return taken
