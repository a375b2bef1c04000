"""client-go and controller-runtime: tests/go/clients runs the same steps on both servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.testing.fault_proxy import FaultProxy
from sandbox.tests.clients.comparison import Comparison, Server
from tests.support.control_plane import BINARY

CLIENTS = BINARY.with_name("clients")
LIMIT = 110.0


@pytest.fixture(autouse=True)
def built() -> None:
    """Skip if the program is not built; fail in CI."""
    if not CLIENTS.exists():
        pytest.skip("the Go clients are not built; `make real-tools` builds them")


def run(server: Server, *words: str, kubeconfig: Path | None = None, **environment: str) -> list[dict[str, Any]]:
    """Run one program of tests/go/clients and return its steps."""
    command = [str(CLIENTS), words[0], str(kubeconfig or server.kubeconfig), server.namespace, *words[1:]]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=env)
    assert done.returncode == 0, (server.kind, done.stdout[-3000:], done.stderr[-3000:])
    steps: list[dict[str, Any]] = json.loads(done.stdout)
    return steps


def steps_of(*words: str, **environment: str) -> Any:
    """Return a function that runs a program and records its steps."""

    def steps(server: Server) -> None:
        for step in run(server, *words, **environment):
            server.note(step["step"], step["answer"])

    return steps


@pytest.mark.behaviour("sandbox/EE-05")
@pytest.mark.parametrize("streaming", ["true", "false"])
def test_an_informer_follows_a_thousand_objects(compare: Comparison, streaming: str) -> None:
    lists = {"lists": 0, "streaming lists": 1} if streaming == "true" else {"lists": 1, "streaming lists": 0}

    def steps(server: Server) -> None:
        report = run(server, "informer", "1000", KUBE_FEATURE_WatchListClient=streaming)
        for step in report:
            server.note(step["step"], step["answer"])
        assert {step["step"]: step["answer"] for step in report if "lists" in step["step"]} == lists

    compare("client-go informer", steps, at_once=False)


@pytest.mark.parametrize("program", ["typed", "dynamic", "apply", "election"])
def test_client_go(compare: Comparison, program: str) -> None:
    compare(f"client-go {program}", steps_of(program))


@pytest.mark.behaviour("sandbox/EE-06")
def test_a_controller_runtime_manager_hands_its_lease_over(compare: Comparison) -> None:
    compare("controller-runtime", steps_of("manager"))


@pytest.mark.behaviour("sandbox/EE-10")
def test_a_client_go_informer_with_cut_connections_loses_nothing(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        stop = threading.Event()
        with FaultProxy(server.kubeconfig) as proxy:

            def disturb() -> None:
                while not stop.wait(0.3):
                    proxy.drop()

            thread = threading.Thread(target=disturb)
            thread.start()
            try:
                report = run(server, "informer", "100", str(proxy.kubeconfig))
            finally:
                stop.set()
                thread.join()
        server.note("steps", [step for step in report if "cache" in step["step"]])

    compare("client-go through a proxy", steps, at_once=False)


@pytest.mark.behaviour("findings3/NS14")
@pytest.mark.real
def test_envtest_starts_the_programs_of_the_sandbox(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    subprocess.run([sys.executable, "-m", "ctrlhost_sandbox", "assets", assets], check=True, timeout=LIMIT)
    # It starts a server of its own.
    with Sandbox() as unused:
        command = [str(CLIENTS), "envtest", str(unused.kubeconfig), "default"]
        environment = {**os.environ, "KUBEBUILDER_ASSETS": str(assets)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    steps = {step["step"]: step["answer"] for step in json.loads(done.stdout)}
    assert steps["administrator"] == "default"
    assert steps["system:masters"] is True
    assert "403" in json.dumps(steps["readers"])
