"""`ctrlhost top` in a terminal, live, and without one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlhost import Client
from tests.host.conftest import Distributions
from tests.host.terminal import Terminal
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map

behaviour = pytest.mark.behaviour

BROKEN = """
import ctrlhost
from ctrlhost import For

def reconcile(ctx, request):
    raise ValueError("<script> \\x1b[31m{{\\nsecond line")

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("maps", reconcile, For("v1", "ConfigMap"))
    plugin.add_controller("namespaces", lambda ctx, request: None, For("v1", "Namespace"))
"""
TOP = (sys.executable, "-m", "ctrlhost", "top", "--interval=250ms")
#: What the live view shows at all times.
KEYS = "q quit"


def status_of(host: HostProcess) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(host.get("/api/v1/status")[1])
    return status


class Running:
    """Four plugins on a sandbox, of which one fails, and the environment of commands beside them."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.host = self.start()

    def start(self) -> HostProcess:
        plugins = "--plugins=broken,hostname,ingress-status,naming"
        settings = ("--set=hostname.rest-port=0", "--install-crds")
        host = HostProcess("--sandbox", plugins, *settings, environment=self.environment)
        host.line("plugin broken running")
        host.line("local socket at ")
        # The first runs may not be over, or not yet enough of them.
        host.eventually(lambda: any(plugin["degraded"] for plugin in status_of(host)["plugins"]), "degraded plugin")
        return host


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    distributions = Distributions(tmp_path_factory.mktemp("site"))
    distributions.add("broken", BROKEN)
    with ExitStack() as stack:
        runtime = stack.enter_context(TemporaryDirectory(prefix="run-"))
        operator = Running(distributions.environment(XDG_RUNTIME_DIR=runtime))
        stack.callback(lambda: operator.host.end())
        yield operator


def controllers(lines: list[str]) -> list[str]:
    """Return the names in the table of controllers, in its order."""
    begin = next(at for at, line in enumerate(lines) if line.startswith("CONTROLLER "))
    end = next(at for at, line in enumerate(lines) if line.startswith("INFORMER "))
    return [line.split()[0] for line in lines[begin + 1 : end] if line[:1].strip()]


@pytest.mark.real
@behaviour("operations/OP79")
@behaviour("operations/OP49")
@pytest.mark.behaviour("oncall/OC12")
@pytest.mark.behaviour("oncall/OC13")
def test_the_live_view_in_a_terminal(running: Running) -> None:
    with Terminal(TOP, running.environment, height=40) as terminal:
        lines = terminal.wait_for(KEYS, "broken/maps", "hostname/", "ingress-status/", "naming/", "watching")
        assert lines[0].startswith("ctrlhost ")
        assert "  ready  cpu " in lines[0]
        assert len(lines) <= 40
        assert all(len(line) <= 80 for line in lines)
        # The controller that fails is first, after the causes.
        assert next(at for at, line in enumerate(lines) if " keys fail, 1 cause" in line) < 4
        assert controllers(lines)[0] == "broken/maps"
        # The error has not made a line of its own.
        assert not any(line.startswith("second line") for line in lines)
        assert "before" not in terminal.text

        maps = terminal.line("configmaps ").split()[1]
        client = Client.load(running.host.kubeconfig)
        client.create(config_map("another"))
        client.close()
        # Live: the objects of the informer change, without a key.
        terminal.wait_for("configmaps", f" {int(maps) + 1} ")

        terminal.press("s")
        lines = terminal.wait_for("s sort: name")
        names = controllers(lines)
        assert names == sorted(names)

        terminal.press("/")
        terminal.press("NAMESPACES")
        terminal.wait_for("/ filter: NAMESPACES", without=["hostname/"])
        terminal.press("Enter")
        lines = terminal.wait_for("/ filter: NAMESPACES", without=["hostname/", "broken/maps", "configmaps"])
        assert controllers(lines) == ["broken/namespaces"]
        assert terminal.line("namespaces ")
        terminal.press("Escape")
        terminal.wait_for("hostname/")

        # From the cause to one of its keys, and back.
        terminal.press("Home", "Enter")
        terminal.wait_for("TRACEBACK of ", r"\x1b[31m{{", "default/another", "Esc back")
        terminal.press("End", "Enter")
        terminal.wait_for("verdict ", "last runs", "try again")
        terminal.press("Escape")
        terminal.wait_for("TRACEBACK of ")
        terminal.resize(200, 50)
        lines = terminal.wait_for("TRACEBACK of ", "RECONCILE")
        assert all(len(line) <= 200 for line in lines)
        terminal.press("Escape")
        terminal.wait_for("s sort: name")
        terminal.resize(80, 24)
        lines = terminal.wait_for("CONTROLLER ", KEYS, without=["TRACEBACK"])
        assert len(lines) <= 24
        assert all(len(line) <= 80 for line in lines)

        terminal.press("q")
        assert terminal.ended() == 0
        assert "CONTROLLER" not in terminal.text


@pytest.mark.real
@behaviour("operations/OP79")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_live_view_and_restores_the_terminal(running: Running, number: signal.Signals) -> None:
    with Terminal(TOP, running.environment, height=10) as terminal:
        assert len(terminal.wait_for(KEYS, "CAUSE")) <= 10
        if number is signal.SIGINT:
            terminal.press("C-c")
        else:
            terminal.signal(number)
        assert terminal.ended() == 0


@behaviour("operations/OP80")
def test_without_a_terminal_the_table_is_printed_once(running: Running) -> None:
    for arguments in ((), ("--once",), ("--once", "--sort=errors")):
        done = subprocess.run(
            [*TOP, *arguments], env=running.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert all(line.isprintable() for line in lines)
        assert {"broken/maps", "broken/namespaces"} <= set(controllers(lines))
        headings = [" ".join(line.split()) for line in lines if line.split()[0] in ("KEYS", "CONTROLLER")]
        assert headings == [
            "KEYS CONTROLLER SINCE LAST FAILURES/s CAUSE",
            "CONTROLLER RATE/s ERR/s P50 P99 ACTIVE PENDING OLDEST DELAYED RETRYING STATE",
        ]
        # Nothing is cut.
        assert re.search(r"ValueError at \S+:6: <script> \\x1b\[#\{\{ second line", done.stdout)
        assert "…" not in done.stdout


@pytest.mark.real
@behaviour("operations/OP80")
@pytest.mark.behaviour("findings3/NO16")
@pytest.mark.parametrize("without", ["textual", "once", "dumb"])
def test_in_a_terminal_the_table_may_be_plain(running: Running, tmp_path: Path, without: str) -> None:
    environment, arguments = dict(running.environment), list(TOP)
    if without == "textual":
        (tmp_path / "sitecustomize.py").write_text('import sys\n\nsys.modules["textual"] = None\n')
        environment["PYTHONPATH"] += f":{tmp_path}"
    elif without == "once":
        arguments.append("--once")
    else:
        arguments = ["env", "TERM=dumb", *arguments]
    with Terminal(arguments, environment, width=200, height=40) as terminal:
        assert terminal.ended() == 0
        assert {"broken/maps", "broken/namespaces"} <= set(controllers(terminal.lines))
        assert ("pip install ctrlhost[top]" in terminal.text) is (without == "textual")


@pytest.mark.real
@behaviour("operations/OP80")
@pytest.mark.behaviour("oncall/OC12")
def test_a_host_that_goes_away_and_comes_back(running: Running) -> None:
    with Terminal(TOP, running.environment) as terminal:
        terminal.wait_for(KEYS, "broken/maps")
        # Stopped, it accepts connections but is silent.
        running.host.signal(signal.SIGSTOP)
        terminal.wait_for("connection lost, data of ", "trying again: the host at", "broken/maps")
        running.host.signal(signal.SIGCONT)
        terminal.wait_for(KEYS, "broken/maps", without=["connection lost"])
        running.host.end()
        # What was seen last stays.
        lines = terminal.wait_for("connection lost, data of ", "trying again: no host", "broken/maps")
        assert "  LOST  " in lines[0]
        running.host = running.start()
        terminal.wait_for(KEYS, "broken/maps", without=["connection lost"])
        terminal.press("C-c")
        assert terminal.ended() == 0
