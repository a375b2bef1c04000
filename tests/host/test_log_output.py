"""Where a host's log goes: a pipe that nobody reads, a full disk; and the fields of errors."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ctrlhost import Client
from tests.support.host_process import LIMIT
from tests.support.plugin_modules import config_map
from tests.support.status_page import page_at
from tests.support.waiting import eventually

#: A plugin that reconciles without end, and logs much.
TALKS = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("c", reconcile).enqueue(ctrlhost.Request("a"))

def reconcile(ctx, request):
    ctx.log.info("x" * 100_000)
    return ctrlhost.Result(requeue_after=0.005)
"""
DISK = 1 << 20


class Unread:
    """A host whose log is not read by a thread of the test."""

    def __init__(self, distributions: Any, stderr: int, prepare: Callable[[], None] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        command = [sys.executable, "-m", "ctrlhost", "run", "--plugins=talks", "--sandbox", f"--listen={self.address}"]
        settings = ["--set=supervision.talks.log_lines=0", "--set=host.log_format=json"]
        environment = distributions.environment()
        self.process = subprocess.Popen(
            [*command, *settings], env=environment, stdout=subprocess.DEVNULL, stderr=stderr, preexec_fn=prepare
        )

    def metric(self, name: str, **labels: str) -> float:
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=LIMIT) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return sum(
            sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items()
        )

    def dropped(self) -> float:
        return self.metric("ctrlhost_log_dropped_total", reason="full")

    def goes_on(self) -> None:
        """Wait until 50 further reconciles have run and further lines were dropped."""
        runs, dropped = self.metric("controller_runtime_reconcile_total"), self.dropped()
        eventually(lambda: self.metric("controller_runtime_reconcile_total") >= runs + 50, LIMIT, "reconciles")
        eventually(lambda: self.dropped() > dropped, LIMIT, "dropped lines")


@contextmanager
def running(*arguments: Any, **options: Any) -> Iterator[Unread]:
    host = Unread(*arguments, **options)
    try:
        yield host
    finally:
        host.process.kill()
        host.process.wait(LIMIT)


def reports(text: str) -> list[int]:
    return [int(count) for count in re.findall(r'"msg":"dropped (\d+) log lines', text)]


@pytest.mark.behaviour("operations/OP101")
@pytest.mark.slow
def test_a_pipe_that_nobody_reads_delays_no_reconcile(distributions: Any) -> None:
    distributions.add("talks", TALKS)
    reader, writer = os.pipe()
    with running(distributions, writer) as host:
        os.close(writer)
        eventually(lambda: host.dropped() > 0, LIMIT, "dropped lines")
        for _ in range(3):
            host.goes_on()
        dropped, read = host.dropped(), bytearray()

        def drain() -> None:
            while data := os.read(reader, 1 << 20):
                read.extend(data)

        thread = threading.Thread(target=drain)
        thread.start()
        eventually(lambda: reports(read.decode(errors="replace")), LIMIT, "report of dropped lines")
        (count, *_) = reports(read.decode(errors="replace"))
        assert count >= dropped
    thread.join(LIMIT)
    os.close(reader)


@pytest.mark.behaviour("operations/OP101")
@pytest.mark.slow
def test_a_full_disk_delays_no_reconcile(distributions: Any, tmp_path: Path) -> None:
    distributions.add("talks", TALKS)
    log = tmp_path / "log"
    with log.open("ab") as target:

        def fill() -> None:
            # Like a disk without room: a write beyond this fails.
            resource.setrlimit(resource.RLIMIT_FSIZE, (DISK, resource.RLIM_INFINITY))

        with running(distributions, target.fileno(), prepare=fill) as host:
            eventually(lambda: host.dropped() > 0, LIMIT, "dropped lines")
            for _ in range(3):
                host.goes_on()
            dropped = host.dropped()
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, unlimited)
            eventually(lambda: reports(log.read_text(errors="replace")), LIMIT, "report of dropped lines")
            assert reports(log.read_text(errors="replace"))[0] >= dropped


FAILS = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))

def reconcile(ctx, request):
    ctx.log.error("about to fail")
    try:
        {}["group"]
    except KeyError:
        ctx.log.exception("caught")
    raise ValueError("no such thing")
"""


@pytest.mark.behaviour("operations/OP102")
def test_each_error_has_all_fields(start_host: Any, distributions: Any) -> None:
    distributions.add("fails", FAILS)
    host = start_host("--sandbox", plugins="fails")
    host.line("plugin fails running")
    Client.load(host.kubeconfig).create(config_map("ann", labels={"mine": "1"}))
    first = host.line("reconcile failed: ValueError: no such thing")
    host.wait_for(lambda: [line for line in host.lines if line.get("attempt") == 3], "third attempt")
    lines = [
        line for line in host.lines if line["level"] == "error" and line.get("reconcile_id") == first["reconcile_id"]
    ]
    assert [(line["msg"], line.get("error"), line["place"]) for line in lines] == [
        ("about to fail", None, "test_fails.py:9"),
        ("caught", "KeyError", "test_fails.py:11"),
        ("reconcile failed: ValueError: no such thing", "ValueError", "test_fails.py:14"),
    ]
    fields = {"plugin": "fails", "controller": "fails/c", "key": "default/ann", "attempt": 1}
    assert all(line.items() >= fields.items() for line in lines)
    attempts = [line["attempt"] for line in host.lines if "reconcile failed" in line["msg"]]
    assert attempts == sorted(set(attempts))
    # The id leads from the log to the same reconcile on the page.
    row = next(entry for entry in page_at(host).rows("errors") if entry["Reconcile"] == first["reconcile_id"])
    assert (row["Key"], row["Error"]) == ("default/ann", "ValueError: no such thing (test_fails.py:14)")
    runs = page_at(host, "/status/keys/fails/c?key=default/ann").rows("runs")
    (run,) = (entry for entry in runs if entry["Reconcile"] == first["reconcile_id"])
    assert run["Result"] == "✖ error ValueError: no such thing"
    assert host.stop() == 0
