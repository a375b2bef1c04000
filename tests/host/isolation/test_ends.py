"""How the process of an isolated plugin ends with its host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import Client
from tests.host.conftest import StartHost
from tests.support.elections import lease
from tests.support.host_process import LIMIT, HostProcess
from tests.support.isolated_plugins import BAD, child_of, running, short_directory
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

ELECTED = ("--leader-elect", "--set=host.leader_elect_plugins=bad")
LEASES = {"shared": (("--leader-elect",), "ctrlhost"), "own": (ELECTED, "ctrlhost-bad")}


@pytest.fixture
def run_directory() -> Iterator[Path]:
    with short_directory() as folder:
        yield folder


@pytest.fixture
def start(sandbox: Any, start_host: StartHost, distributions: Any, run_directory: Path) -> Any:
    """Start a host with `bad` isolated, whose private directory is below `run_directory`."""
    distributions.add("bad", BAD)

    def start_isolated(*arguments: str, **environment: str) -> HostProcess:
        kubeconfig = f"--kubeconfig={sandbox.kubeconfig}"
        runtime = {"XDG_RUNTIME_DIR": str(run_directory), **environment}
        return start_host(kubeconfig, "--isolate=bad", *arguments, plugins="bad", **runtime)

    return start_isolated


def secrets(sandbox: Any) -> list[Any]:
    return [record for record in sandbox.audit if record.resource == "secrets"]


def begin(client: Client, host: HostProcess, name: str) -> int:
    """Create a ConfigMap, and wait until its reconcile has begun; return the process of the plugin."""
    client.create(config_map(name, labels={"mine": "1"}))
    return child_of(host.line(f"begun: {name}"))


@pytest.mark.behaviour("supervision/PI7")
@pytest.mark.parametrize("kind", LEASES)
def test_sigterm_drains_the_process(sandbox: Any, client: Client, start: Any, run_directory: Path, kind: str) -> None:
    options, name = LEASES[kind]
    host = start(*options)
    child = begin(client, host, "slow")
    assert child != host.pid
    assert lease(client, name)["holderIdentity"]
    assert list(run_directory.glob("ctrlhost/*/bad/*.sock"))
    assert host.stop() == 0
    host.line("the hook was called")
    host.line("finished: slow")
    assert [secret.name for secret in secrets(sandbox)] == ["slow"]
    assert not lease(client, name).get("holderIdentity")
    assert not running(child)
    assert not list(run_directory.iterdir())
    assert not [line for line in host.lines if line["level"] == "error"], host.text
    assert host.lines[-1]["msg"] == "stopped"


@pytest.mark.behaviour("supervision/PI8")
def test_nothing_is_written_after_the_host_was_killed(sandbox: Any, client: Client, start: Any) -> None:
    host = start()
    child = begin(client, host, "writer")
    eventually(lambda: len(secrets(sandbox)) > 5, LIMIT)
    host.process.kill()
    host.process.wait(LIMIT)
    ended = time.monotonic()
    eventually(lambda: not running(child), LIMIT)
    # One request may have been under way.
    late = [secret for secret in secrets(sandbox) if secret.monotonic > ended]
    assert len(late) <= 1, late


@pytest.mark.behaviour("supervision/PI8")
def test_a_process_that_holds_the_interpreter_ends_with_its_host(sandbox: Any, client: Client, start: Any) -> None:
    host = start("--set=supervision.bad.heartbeat_timeout=1h")
    child = begin(client, host, "silent")
    host.line("silent from now on")
    host.process.kill()
    host.process.wait(LIMIT)
    eventually(lambda: not running(child), LIMIT)
    assert not secrets(sandbox)


@pytest.mark.behaviour("supervision/PI9")
def test_ctrl_c_drains_once(sandbox: Any, client: Client, distributions: Any, run_directory: Path) -> None:
    distributions.add("bad", BAD)
    environment = distributions.environment(XDG_RUNTIME_DIR=str(run_directory))
    arguments = (f"--kubeconfig={sandbox.kubeconfig}", "--plugins=bad", "--isolate=bad")
    with HostProcess(*arguments, environment=environment, process_group=0) as host:
        child = begin(client, host, "slow")
        assert os.getpgid(child) == child
        # A terminal sends it to the group of the host, a service's manager may send it to each process.
        os.kill(child, signal.SIGINT)
        os.killpg(host.pid, signal.SIGINT)
        assert host.wait() == 0
        host.line("finished: slow")
        messages = [line["msg"] for line in host.lines]
        assert messages.count("the hook was called") == 1
        assert messages.count("SIGINT: shutting down; repeat to force exit") == 1
        assert "KeyboardInterrupt" not in host.text
        assert [secret.name for secret in secrets(sandbox)] == ["slow"]
        assert not running(child)


@pytest.mark.behaviour("supervision/PI10")
@pytest.mark.parametrize("kind", LEASES)
def test_a_process_that_hangs_in_the_drain_is_killed(client: Client, start: Any, kind: str) -> None:
    options, name = LEASES[kind]
    host = start(*options, "--set=host.drain_timeout=1s")
    child = begin(client, host, "hung")
    os.kill(child, signal.SIGSTOP)
    assert host.stop() == 0
    killed = host.line(f"plugin bad: its process {child} did not stop in time; killed")
    assert killed["level"] == "error"
    assert killed["plugin"] == "bad"
    assert not running(child)
    assert lease(client, name)["holderIdentity"]


@pytest.mark.behaviour("supervision/PI10")
@pytest.mark.parametrize("kind", LEASES)
def test_a_reconcile_that_hangs_in_the_drain_keeps_the_lease(client: Client, start: Any, kind: str) -> None:
    options, name = LEASES[kind]
    host = start(*options, "--set=host.drain_timeout=2s")
    child = begin(client, host, "hung")
    assert host.stop() == 0
    abandoned = host.line("controller bad/c did not stop in time; abandoned")
    assert (abandoned["level"], abandoned["plugin"], abandoned["pid"]) == ("error", "bad", child)
    assert not running(child)
    assert lease(client, name)["holderIdentity"]
