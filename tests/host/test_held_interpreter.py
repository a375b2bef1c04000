"""What a host answers while code of a plugin holds the interpreter."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import urllib.error
import urllib.request
from email.message import Message

import pytest

from tests.host.conftest import StartHost, distributions, start_host
from tests.support.host_process import LIMIT, HostProcess

__all__ = ["distributions", "start_host"]

behaviour = pytest.mark.behaviour

#: A loop in C, which gives the interpreter to nobody until it ends.
HOLDING = """
import asyncio

import ctrlhost


async def page(scope, receive, send):
    # Only a thread that the host has seen has a name.
    await asyncio.sleep(2)
    sum(range(10**15))


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_page("/hold", page)
"""
COMPLAINT = re.compile(r"(?:error: )?the interpreter was held for (\d+) s by thread bad/loop\n")


def ask(host: HostProcess, path: str) -> tuple[int, Message, str]:
    try:
        with urllib.request.urlopen(f"http://{host.address}{path}", timeout=LIMIT) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def complaint_at(host: HostProcess, path: str) -> re.Match[str] | None:
    status, _, body = ask(host, path)
    return COMPLAINT.fullmatch(body) if status == 503 else None


@behaviour("faster/FA11")
def test_a_held_interpreter_is_reported_and_the_last_metrics_are_shown(start_host: StartHost, distributions) -> None:
    distributions.add("bad", HOLDING)
    host = start_host("--sandbox", "--set=host.gil_limit=7s", plugins="bad")
    host.line("plugin bad running")
    assert [ask(host, path)[0] for path in ("/livez", "/readyz", "/healthz")] == [200] * 3
    fresh: list[str] = []

    def is_old() -> bool:
        _, headers, body = ask(host, "/metrics")
        if "Age" not in headers:
            fresh.append(body)
        return "Age" in headers

    assert not is_old()

    def hold() -> None:
        with contextlib.suppress(OSError):
            ask(host, "/bad/hold")

    holding = threading.Thread(target=hold)
    holding.start()
    try:
        host.eventually(is_old, "an exposition that is old")
        status, headers, body = ask(host, "/metrics")
        assert (status, body) == (200, fresh[-1])
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert headers["X-Content-Type-Options"] == "nosniff"
        # Not yet for so long.
        assert ask(host, "/livez")[::2] == (200, "ok")
        # What needs Python is not waited for.
        for path, least in (("/readyz?verbose", 5), ("/healthz", 5), ("/debug/queues", 5), ("/livez", 7)):
            complaint = host.eventually(lambda path=path: complaint_at(host, path), f"a complaint at {path}")
            assert int(complaint[1]) >= least
        assert ask(host, "/metrics")[2] == fresh[-1]
        assert int(ask(host, "/metrics")[1]["Age"]) >= 5
    finally:
        host.signal(signal.SIGKILL)
        host.wait()
        holding.join(LIMIT)
