"""The fabric8 client: tests/java runs the same steps on both servers. It watches over WebSockets."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sandbox.tests.clients.comparison import Comparison, Server

BUILT = Path(__file__).parents[3] / "tests" / "java" / "target"
LIMIT = 100.0


@pytest.fixture
def java() -> str:
    """Return the `java` command; skip without Maven and a JDK, or if the program is not built."""
    command = shutil.which("java")
    if command is None or not all(map(shutil.which, ("mvn", "javac"))):
        pytest.skip("this machine has no Maven and JDK, which build the Java client")
    if not (BUILT / "classes" / "Clients.class").exists():
        pytest.skip("the Java client is not built; `make real-tools` builds it")
    return command


@pytest.mark.behaviour("findings/FS4")
def test_fabric8_informers_and_waits(compare: Comparison, java: str) -> None:
    path = f"{BUILT / 'classes'}:{BUILT / 'lib'}/*"

    def steps(server: Server) -> None:
        command = [java, "-cp", path, "Clients", str(server.kubeconfig), server.namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, (server.kind, done.stdout[-3000:], done.stderr[-3000:])
        for step in json.loads(done.stdout):
            server.note(step["step"], step["answer"])

    compare("fabric8", steps)
