"""Starts and ends of the process of an isolated plugin that are not in order."""

from __future__ import annotations

import os
import re
import signal
import struct
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.isolated import IsolatedHost
from tests.support.misbehaviour import Good, metric, reason_of, state_of
from tests.support.processes import processes
from tests.support.waiting import eventually

SETUP = """
    import os, pathlib, signal, socket, subprocess, sys
    import ctrlhost

    here = pathlib.Path(__file__)

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
"""

#: Ends at its first start, and leaves a process behind that has the control socket and is in no group of it.
LEAVES_A_PROCESS = (
    SETUP
    + """
        if not here.with_suffix(".pid").exists():
            child = os.fork()
            if child == 0:
                os.setsid()
                signal.pause()
            here.with_suffix(".pid").write_text(str(child))
            os._exit(7)
    """
)

#: Ends its connection to the host at its first start, and goes on.
HANGS_UP = (
    SETUP
    + """
        if not here.with_suffix(".once").exists():
            here.with_suffix(".once").touch()
            socket.socket(fileno=int(sys.argv[1])).shutdown(socket.SHUT_RDWR)
    """
)

#: Sends its host, at its first start, what is no message of a process.
SENDS = (
    SETUP
    + """
        if not here.with_suffix(".once").exists():
            here.with_suffix(".once").touch()
            os.write(int(sys.argv[1]), {sent!r})
            signal.pause()
    """
)

#: Shows what the programs that it starts do at SIGTERM.
STARTS_A_PROGRAM = (
    SETUP
    + """
        program = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
        printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        here.with_suffix(".shown").write_text(printed.stdout)
    """
)

#: Ends in the middle of the shutdown.
ENDS_IN_THE_DRAIN = """
    import os
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_stopping(plugin):
        os._exit(9)
"""

OWN = {"bad": {"process": "own", "restart_delay": 0.05}}


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_a_process_that_outlives_its_parent_holds_nothing_up(ctrlhost_host, distributions) -> None:
    distributions.add("bad", LEAVES_A_PROCESS)
    good = Good()
    host = ctrlhost_host("bad", good.module, supervision=OWN)
    left = int((distributions.folder / "test_bad.pid").read_text())
    try:
        eventually(lambda: state_of(host, "bad") == "running")
        assert metric(host, "ctrlhost_plugin_restarts_total", plugin="bad", reason="exit") == 1
        os.kill(left, 0)
        eventually(lambda: len(threads("bad/messages")) == 1)
        good.goes_on(host)
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_process_that_hangs_up_is_replaced(ctrlhost_host, distributions) -> None:
    distributions.add("bad", HANGS_UP)
    host = ctrlhost_host("bad", Good().module, supervision=OWN)
    eventually(lambda: state_of(host, "bad") == "running")
    assert metric(host, "ctrlhost_plugin_restarts_total", plugin="bad", reason="exit") == 1


@pytest.mark.behaviour("findings3/NC21")
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (struct.pack("!i", 1 << 30), "a message of more than 64 MiB"),
        # A pickle that would end whoever loads it.
        (struct.pack("!i", 18) + b"cos\n_exit\n(I3\ntR.", "an invalid message: "),
    ],
    ids=["large", "pickle"],
)
def test_a_process_that_sends_what_is_no_message_is_restarted(
    ctrlhost_host, distributions, caplog, sent: bytes, told: str
) -> None:
    distributions.add("bad", SENDS.replace("{sent!r}", repr(sent)))
    good = Good()
    host = ctrlhost_host("bad", good.module, supervision=OWN)
    eventually(lambda: state_of(host, "bad") == "running")
    assert metric(host, "ctrlhost_plugin_restarts_total", plugin="bad", reason="error") == 1
    (line,) = [text for text in caplog.messages if text.startswith("plugin bad failing: ")]
    assert line.startswith(f"plugin bad failing: its process sent {told}")
    good.goes_on(host)


def test_an_interpreter_that_cannot_start_is_a_failure_of_the_plugin(
    ctrlhost_host, distributions, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributions.add("bad", STARTS_A_PROGRAM)
    good, works = Good(), sys.executable
    monkeypatch.setattr(sys, "executable", "/none/such")
    host = ctrlhost_host("bad", good.module, supervision={"bad": {"process": "own", "restart_delay": 0.5}})
    eventually(lambda: state_of(host, "bad") == "failing")
    assert "starting its process: FileNotFoundError" in reason_of(host, "bad")
    # It ends before it has read anything.
    monkeypatch.setattr(sys, "executable", "/bin/false")
    eventually(lambda: reason_of(host, "bad").endswith("exit code 1"))
    good.goes_on(host)
    monkeypatch.setattr(sys, "executable", works)
    eventually(lambda: state_of(host, "bad") == "running")


def test_a_process_that_cannot_be_awaited_does_not_run(
    ctrlhost_host, distributions, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributions.add("bad", STARTS_A_PROGRAM)
    start, refused = threading.Thread.start, []

    def refuse_once(thread: threading.Thread) -> None:
        if thread.name.startswith("process ") and not refused:
            refused.append(int(thread.name.removeprefix("process ")))
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    host = ctrlhost_host("bad", supervision={"bad": {"process": "own", "restart_delay": 0.5}})
    eventually(lambda: state_of(host, "bad") == "failing")
    assert "starting its process: RuntimeError: can't start new thread" in reason_of(host, "bad")
    assert [process for process in processes() if process.pid == refused[0]] == []
    eventually(lambda: state_of(host, "bad") == "running")


def test_programs_of_a_plugin_end_at_sigterm(ctrlhost_host, distributions) -> None:
    distributions.add("bad", STARTS_A_PROGRAM)
    ctrlhost_host("bad", supervision=OWN)
    assert (distributions.folder / "test_bad.shown").read_text() == "True\n"


def test_modules_in_the_present_folder_hide_nothing(
    ctrlhost_host, distributions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "signal.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    distributions.add("bad", ENDS_IN_THE_DRAIN)
    host = ctrlhost_host("bad", supervision=OWN)
    assert state_of(host, "bad") == "running"


def test_a_crash_in_the_drain_is_logged(ctrlhost_host, distributions, caplog) -> None:
    distributions.add("bad", ENDS_IN_THE_DRAIN)
    host = ctrlhost_host("bad", supervision=OWN)
    assert host.stop() is False
    assert state_of(host, "bad") == "stopped"
    (line,) = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert re.fullmatch(r"plugin bad: its process \d+ ended after \d+\.\d s with \d+ MiB: exit code 9", line)


@pytest.mark.slow
def test_a_host_that_was_stopped_itself_misses_no_heartbeat(isolated: Any) -> None:
    host: IsolatedHost = isolated(heartbeat_timeout="1s")
    child = host.running()
    host.process.signal(signal.SIGSTOP)
    # Only time makes a heartbeat late.
    threading.Event().wait(5)
    host.process.signal(signal.SIGCONT)
    host.good_goes_on()
    assert host.process.metric("ctrlhost_child_rss_bytes", plugin="bad") > 0
    assert [entry.pid for entry in host.children()] == [child]
    assert host.lines("plugin bad failing") == []
    assert host.process.stop() == 0
