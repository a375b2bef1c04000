"""The process of a host: signals, code that holds the interpreter lock, and a shutdown that hangs."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.host.conftest import StartHost, distributions, start_host
from tests.support.gates import Gate
from tests.support.misbehaviour import Good
from tests.support.plugin_modules import plugin_of

__all__ = ["distributions", "start_host"]

behaviour = pytest.mark.behaviour

HOLDING = """
import ctypes

import ctrlhost


def hold(seconds):
    # A call of C code that keeps the interpreter lock.
    ctypes.PyDLL(None).sleep(seconds)


async def page(scope, receive, send):
    hold(int(scope["query_string"]))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"held"})


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_page("/hold", page)
"""


@behaviour("supervision/PR14")
def test_a_held_interpreter_lock_is_reported(start_host: StartHost, distributions) -> None:
    distributions.add("bad", HOLDING)
    host = start_host("--sandbox", "--set=host.gil_stacks=true", plugins="bad")
    host.line("plugin bad running")
    assert host.get("/bad/hold?4") == (200, "held")
    assert host.metric("ctrlhost_gil_stalls_total") == 0
    assert not [line for line in host.lines if "Timeout" in line["msg"] or "GIL" in line["msg"]]
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        answers.append(host.get("/bad/hold?6"))

    asking = threading.Thread(target=ask)
    asking.start()
    host.line("test_bad.py", "in hold")
    asking.join(60)
    # The listener gives up after five seconds, unless the machine is so busy that it looks after the sixth.
    assert answers[0] == (200, "held") or "the interpreter was held" in answers[0][1]
    seconds = float(host.line("the GIL was held for ")["seconds"])
    assert seconds >= 5
    host.eventually(lambda: host.metric("ctrlhost_gil_stalls_total") == 1, "the stall is counted")
    assert len([line for line in host.lines if "the GIL was held for" in line["msg"]]) == 1
    assert host.stop() == 0


@behaviour("supervision/PR15")
def test_a_drain_that_holds_the_interpreter_lock_ends(start_host: StartHost, distributions) -> None:
    source = HOLDING + "\n\n@ctrlhost.hookimpl\ndef ctrlhost_stopping(plugin):\n    hold(300)\n"
    distributions.add("bad", source)
    host = start_host("--sandbox", "--set=host.drain_timeout=1s", plugins="bad", forked=False)
    host.line("plugin bad running")
    assert host.stop() == 1
    assert "in hold" in host.text


def test_a_signal_shows_the_stacks_of_a_host_that_runs_on(start_host: StartHost, distributions) -> None:
    distributions.add("bad", HOLDING)
    host = start_host("--sandbox", plugins="bad")
    host.line("plugin bad running")
    host.signal(signal.SIGUSR1)
    host.line("Current thread 0x")
    assert host.get("/livez")[0] == 200
    assert "GIL" not in host.text
    assert host.stop() == 0


def test_a_signal_while_the_interpreter_lock_is_held_does_not_end_the_host(start_host, distributions) -> None:
    distributions.add("bad", HOLDING)
    host = start_host("--sandbox", plugins="bad")
    host.line("plugin bad running")
    answers: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: answers.append(host.get("/bad/hold?2")))
    asking.start()
    while asking.is_alive():
        host.signal(signal.SIGUSR1)
        asking.join(0.2)
    assert answers == [(200, "held")]
    host.line("Current thread 0x")
    assert host.stop() == 0


@behaviour("supervision/PR16")
def test_hosts_of_a_library_leave_the_process_alone(ctrlhost_host, good: Good, caplog) -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    hosts = [ctrlhost_host(good.module), ctrlhost_host(plugin_of(lambda plugin: None, "other"))]
    assert [signal.getsignal(number) for number in numbers] == before
    assert not [thread for thread in threading.enumerate() if thread.name == "gil watch"]
    for host in hosts:
        host.stop()
    assert [signal.getsignal(number) for number in numbers] == before
    assert "GIL" not in caplog.text


WAITING = """
import ctrlhost
from pathlib import Path

gate = Path(__file__).with_name("gate")


def reconcile(ctx, request):
    if request.name == "kube-root-ca.crt" and request.namespace == "default":
        ctx.log.info("begun")
        gate.open().close()
        ctx.log.info("ended")


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap"))
"""


@pytest.mark.slow
@behaviour("supervision/PR17")
def test_a_stopped_process_is_no_overrun(start_host: StartHost, distributions) -> None:
    distributions.add("bad", WAITING)
    gate = Gate(distributions.folder / "gate")
    host = start_host("--sandbox", "--set=controllers.bad/c.slow_after=15s", plugins="bad")
    host.line("begun")
    host.signal(signal.SIGSTOP)
    # A stopped process reports nothing: only time makes the run older than its `slow_after`.
    threading.Event().wait(20)
    host.signal(signal.SIGCONT)
    gate.open()
    host.line("ended")
    gate.close()
    # The last look at the host is as old as the stop until the next one, a quarter of a second later.
    host.eventually(lambda: host.get("/readyz")[0] == 200, "readiness")
    assert not [line for line in host.lines if "runs for" in line["msg"] or "failing" in line["msg"]]
    assert sum("Timeout (" in line["msg"] for line in host.lines) <= 1
    assert not host.metric("ctrlhost_entry_overruns_total", plugin="bad")
    assert host.stop() == 0


STUCK = """
import threading
from concurrent.futures import ThreadPoolExecutor

import ctrlhost

# The interpreter waits for the threads of an executor when it ends.
pool = ThreadPoolExecutor(1)


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    pool.submit(threading.Event().wait)


@ctrlhost.hookimpl
def ctrlhost_stopping(plugin):
    threading.Event().wait()
"""


@behaviour("supervision/EN10")
def test_a_hook_that_hangs_does_not_keep_the_process(start_host: StartHost, distributions) -> None:
    distributions.add("bad", STUCK)
    host = start_host("--sandbox", "--set=host.drain_timeout=2s", plugins="bad", forked=False)
    host.line("plugin bad running")
    assert host.stop() == 0
    errors = [line["msg"] for line in host.lines if line["level"] == "error"]
    assert any("bad" in line and "ctrlhost_stopping" in line for line in errors)


def test_a_thread_of_an_executor_does_not_keep_the_process(start_host: StartHost, distributions) -> None:
    distributions.add("bad", STUCK.partition("\n\n\n@ctrlhost.hookimpl\ndef ctrlhost_stopping")[0])
    host = start_host("--sandbox", "--set=host.drain_timeout=2s", plugins="bad", forked=False)
    host.line("plugin bad running")
    assert host.stop() == 0


INTERRUPTING = """
import os
import signal

import ctrlhost


def reconcile(ctx, request):
    os.kill(os.getpid(), signal.SIGINT)


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "Namespace"), workers=1)
"""


@behaviour("supervision/EN26")
def test_a_signal_of_a_plugin_is_like_any_other(start_host: StartHost, distributions) -> None:
    distributions.add("bad", INTERRUPTING.replace("os.kill", "if request.name == 'default':\n        os.kill"))
    host = start_host("--sandbox", plugins="bad")
    assert host.wait() == 0
    assert "SIGINT: shutting down" in host.text
