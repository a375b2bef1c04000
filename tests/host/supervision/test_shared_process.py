"""A plugin that changes what all plugins of a process share: standard streams, logging, imports, event loops."""

from __future__ import annotations

import asyncio

import pytest

from ctrlhost import For
from ctrlhost.reflector import driver
from tests.host.conftest import StartHost, distributions, start_host
from tests.support.misbehaviour import Good, state_of
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

__all__ = ["distributions", "start_host"]

GOOD = """
import ctrlhost


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    global log
    log = plugin.log
    plugin.add_controller("all", reconcile, ctrlhost.For("v1", "Namespace"))
    plugin.add_page("/", page)


async def reconcile(ctx, request):
    ctx.log.info("good saw %s", request.name)


async def page(scope, receive, send):
    log.info("good answered")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"good"})
"""
PAGE = """


async def page(scope, receive, send):
    STATEMENT
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"bad"})
"""
BAD = """
import io
import logging
import logging.config
import os
import sys
import threading

import ctrlhost


class Hanging(io.StringIO):
    def flush(self):
        threading.Event().wait()


class Finder:
    def find_spec(self, name, path, target=None):
        raise ImportError(f"{name} on purpose")


def fill_a_pipe():
    os.dup2(os.pipe()[1], 1)
    threading.Thread(target=lambda: [print("x" * 10_000) for _ in range(100)], daemon=True).start()


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    STATEMENT
"""


@pytest.mark.parametrize(
    "statement",
    [
        "sys.stdout.close()",
        "sys.stdout = sys.stderr = None",
        "sys.stdout = sys.stderr = Hanging()",
        "fill_a_pipe()",
        "os.close(2)",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)",
        "sys.meta_path.insert(0, Finder())",
    ],
)
def test_what_all_share_stays_usable(start_host: StartHost, distributions, statement: str) -> None:
    distributions.add("bad", BAD.replace("STATEMENT", statement))
    distributions.add("good", GOOD)
    host = start_host("--sandbox", "--set=host.drain_timeout=1s", plugins="bad,good")
    host.line("good saw default")
    host.line("plugin good running")
    assert host.get("/good/") == (200, "good")
    assert "[+]plugin/bad ok: running" in host.get("/readyz?verbose")[1].splitlines()
    assert host.stop() == 0
    assert host.line("stopped")


@pytest.mark.parametrize("statement", ["logging.disable()", "logging.config.dictConfig({'version': 1})"])
def test_lines_of_the_host_are_turned_on_again(start_host: StartHost, distributions, statement: str) -> None:
    page = PAGE.replace("STATEMENT", statement)
    distributions.add("bad", BAD.replace("STATEMENT", "plugin.add_page('/', page)") + page)
    distributions.add("good", GOOD)
    host = start_host("--sandbox", plugins="bad,good")
    host.line("good saw default")
    assert host.get("/bad/") == (200, "bad")
    host.line("log lines of the host were off because of `logging.")
    assert host.get("/good/") == (200, "good")
    host.line("good answered")
    assert host.stop() == 0
    assert host.line("stopped")


def test_a_controller_whose_loop_cannot_start_is_started_again(start, good: Good, monkeypatch) -> None:
    ran: list[str] = []

    async def reconcile(_ctx: object, request: object) -> None:
        ran.append(str(request))

    def fail() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    plugin = plugin_of(lambda plugin: plugin.add_controller("a", reconcile, For("v1", "Namespace")), "bad")
    # The loop that all reflectors of the process share is another matter.
    driver._loop.get()
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "SelectorEventLoop", fail)
        host = start(plugin, supervision={"restart_delay": 0.2})
        eventually(lambda: state_of(host, "bad") == "failing")
        good.goes_on(host)
    eventually(lambda: ran and state_of(host, "bad") == "running")


def test_a_huge_error_is_shown_in_part(start, good: Good) -> None:
    huge = "x" * 5_000_000

    def reconcile(_ctx: object, _request: object) -> None:
        raise RuntimeError(huge)

    def check() -> None:
        raise RuntimeError(huge)

    def set_up(plugin) -> None:
        plugin.add_controller("a", reconcile, For("v1", "Namespace"))
        plugin.add_health_check("check", check)

    host = start(plugin_of(set_up, "bad"))
    for text in ("controller/bad/a", "bad/check"):
        eventually(
            lambda text=text: [
                entry
                for entry in host.host.inspection.checks("healthz")
                if entry.name == text and "xxx" in entry.detail
            ]
        )
    assert sum(len(entry.detail) for entry in host.host.inspection.checks("healthz")) < 10_000

    def fail(_plugin) -> None:
        raise RuntimeError(huge)

    host = start(plugin_of(fail, "bad"))
    eventually(lambda: state_of(host, "bad") == "failing")
    assert 1000 < len(host.host.plugins[0].reason) < 10_000


def test_a_plugin_cannot_stop_a_shared_informer(start, good: Good) -> None:
    host = start(plugin_of(lambda plugin: plugin.informer("v1", "ConfigMap").stop(), "bad"))
    eventually(lambda: state_of(host, "bad") == "failing")
    assert "other plugins use it" in host.host.plugins[0].reason
    good.goes_on(host)
