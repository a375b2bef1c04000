"""A controller with kube-rs: tests/rust runs the same steps on both servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sandbox.tests.clients.comparison import Comparison, Server

CLIENTS = Path(__file__).parents[3] / "tests" / "rust" / "target" / "debug" / "clients"
LIMIT = 100.0


@pytest.fixture(autouse=True)
def built() -> None:
    """Skip if the program is not built."""
    if not CLIENTS.exists():
        pytest.skip("the Rust client is not built; `make real-tools` builds it")


@pytest.mark.behaviour("findings/FS5")
@pytest.mark.behaviour("sandbox/EE-09")
def test_a_kube_rs_controller(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        command = [CLIENTS, server.kubeconfig, server.namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, (server.kind, done.stdout[-3000:], done.stderr[-3000:])
        for step in json.loads(done.stdout):
            server.note(step["step"], step["answer"])

    compare("kube-rs", steps)
