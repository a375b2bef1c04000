"""What a host shows of its threads and tasks: `/debug/stacks`, and SIGUSR1."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from ctrlhost import Client
from tests.support.gates import Gate
from tests.support.plugin_modules import config_map

PLUGIN = """
import asyncio
import threading

import ctrlhost

waits = threading.Event()


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    selected = {"label_selector": "mine"}
    plugin.add_controller("threads", reconcile, ctrlhost.For("v1", "ConfigMap", **selected), workers=2)
    plugin.add_controller("tasks", reconcile_async, ctrlhost.For("v1", "ConfigMap", **selected))
    plugin.add_task("background", background)


def reconcile(ctx, request):
    password = "s3cr3t-local"
    ctx.log.info("reconciling")
    hold(password)


def hold(argument):
    waits.wait()


async def reconcile_async(ctx, request):
    token = "s3cr3t-of-a-task"
    ctx.log.info("awaiting")
    await nap(token)


async def nap(argument):
    await asyncio.sleep(3600)


async def background(stop):
    await nap("s3cr3t-of-the-background")
"""


def part(text: str, beginning: str) -> str:
    """Return the paragraph that begins so, up to the next thread."""
    sections = [section for section in text.split("\n\n") if section.startswith(beginning)]
    assert sections, (beginning, text)
    return sections[0]


@pytest.mark.behaviour("operations/OP93")
@pytest.mark.behaviour("operations/OP94")
def test_each_thread_and_task_is_shown_with_its_work_and_without_values(start_host: Any, distributions: Any) -> None:
    distributions.add("busy", PLUGIN)
    host = start_host("--sandbox", "--set=host.drain_timeout=1s", plugins="busy")
    client = Client.load(host.kubeconfig)
    client.create(config_map("ann", labels={"mine": "1"}))
    host.line("reconciling")
    host.line("awaiting")
    # The task may begin later than the first runs.
    host.eventually(lambda: re.search(r"awaits \S+ background\n", host.get("/debug/stacks")[1]), "the task")
    status, text = host.get("/debug/stacks")
    assert status == 200
    workers = [section for section in text.split("\n\n") if section.startswith("thread busy/threads worker ")]
    (running,) = (worker for worker in workers if "reconcile" in worker.splitlines()[1])
    (idle,) = (worker for worker in workers if worker is not running)
    head, work, *frames = running.splitlines()
    assert re.fullmatch(r"thread busy/threads worker \d, native id \d+, \d+\.\d{3} s of CPU", head)
    assert re.fullmatch(r"  plugin busy, controller busy/threads, key default/ann, reconcile \d-1, reconcile", work)
    (at,) = (place for place, line in enumerate(frames) if re.fullmatch(r"  \S+/test_busy.py:\d+ reconcile", line))
    assert re.fullmatch(r"  \S+/test_busy.py:\d+ hold", frames[at + 1])
    assert re.fullmatch(r"  \S+/threading.py:\d+ wait", frames[at + 2])
    assert idle.splitlines()[1] == "  plugin busy, controller busy/threads, idle"
    loop = part(text, "thread busy/loop").splitlines()
    (key,) = (place for place, line in enumerate(loop) if "controller busy/tasks, key default/ann" in line)
    assert re.fullmatch(r"    awaits \S+/test_busy.py:\d+ reconcile_async", loop[key + 1])
    assert re.fullmatch(r"    awaits \S+/test_busy.py:\d+ nap", loop[key + 2])
    assert re.fullmatch(r"    awaits \S+ sleep", loop[key + 3])
    assert any(re.fullmatch(r"    awaits \S+/test_busy.py:\d+ background", line) for line in loop)
    assert part(text, "thread MainThread")
    assert part(text, "thread ctrlhost reflectors")
    assert "s3cr3t" not in text
    host.stop()
    assert "s3cr3t" not in host.text


SLOW_START_AND_END = """
import threading

import ctrlhost


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    import_gate()
    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))


def import_gate():
    print("starting", flush=True)
    open(GATE + "-start").close()


def reconcile(ctx, request):
    print("working", flush=True)
    open(GATE + "-work").close()
"""


@pytest.mark.behaviour("operations/OP95")
def test_a_signal_shows_the_stacks_during_start_work_and_drain(
    start_host: Any, distributions: Any, tmp_path: Any
) -> None:
    gates = {name: Gate(tmp_path / f"gate-{name}") for name in ("start", "work")}
    distributions.add("slow", f"GATE = {str(tmp_path / 'gate')!r}\n" + SLOW_START_AND_END)
    host = start_host("--sandbox", plugins="slow")

    def dump(function: str) -> None:
        """Send the signal twice, so that one may come during a dump, and wait for the stack of the plugin."""
        seen = len(host.lines)
        host.signal(signal.SIGUSR1)
        host.signal(signal.SIGUSR1)
        host.line("Current thread 0x", after=seen)
        host.line("test_slow.py", f"in {function}", after=seen)

    host.wait_for(lambda: "starting" in host.output, "the set-up")
    dump("import_gate")
    gates["start"].open()
    host.line("plugin slow running")
    Client.load(host.kubeconfig).create(config_map("ann", labels={"mine": "1"}))
    host.wait_for(lambda: "working" in host.output, "the reconcile")
    dump("reconcile")
    host.signal(signal.SIGTERM)
    host.line("shutting down")
    dump("reconcile")
    gates["work"].open()
    assert host.wait() == 0
    assert "s of CPU" not in host.text
    assert host.lines[-1]["msg"] == "stopped"
