"""Timers and daemons: they end with the object, the filter, the plugin and the process, and none runs twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import NotFound
from ctrlhost.testing import HostUnderTest
from plugins.kopf.tests.operators import API_VERSION, KIND, Calls, example, foreign, install, operator
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

#: One of each kind; all want the label `on`.
OPERATOR = """
    import ctrlhost_kopf as kopf

    ON = {"on": "yes"}

    @kopf.on.startup()
    def configure(settings, **_):
        settings.execution.max_workers = 10

    @kopf.daemon("kopfexamples", labels=ON)
    def blocking(stopped, name, **_):
        record("begin", "blocking", name)
        while not stopped.wait(0.02):
            record("tick", "blocking", name)
        record("end", "blocking", name, str(stopped.reason))

    @kopf.daemon("kopfexamples", labels=ON)
    async def waiting(stopped, name, **_):
        record("begin", "waiting", name)
        while not stopped:
            await stopped.wait(0.02)
        record("end", "waiting", name, str(stopped.reason))

    @kopf.daemon("kopfexamples", labels=ON, cancellation_timeout=30)
    async def cancelled(stopped, name, **_):
        record("begin", "cancelled", name)
        try:
            await asyncio.Event().wait()
        finally:
            record("end", "cancelled", name, str(stopped.reason))

    @kopf.timer("kopfexamples", labels=ON, interval=0.02)
    def timed(name, **_):
        record("tick", "timed", name)

    @kopf.timer("kopfexamples", labels=ON, interval=0.02, initial_delay=0.02, sharp=True)
    async def sharp(name, spec, patch, **_):
        record("tick", "sharp", name, spec.get("field"))
        return {"ticked": True}
"""
DAEMONS = ("blocking", "waiting", "cancelled")
HANDLERS = (*DAEMONS, "timed", "sharp")


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def start(
    ctrlhost_host: Callable[..., HostUnderTest], tmp_path: Path, calls: Calls, sandbox: Any
) -> Callable[..., HostUnderTest]:
    def begin(source: str = OPERATOR) -> HostUnderTest:
        path = operator(tmp_path / "operator", "spawner", source, calls)
        host = ctrlhost_host(foreign(path), server=sandbox, start=False, least_privilege=False)
        install(host.client)
        return host.start(check=True)

    return begin


def reasons(calls: Calls, reason: str) -> None:
    """Wait until each daemon has ended for this reason."""
    for daemon in DAEMONS:
        eventually(
            lambda daemon=daemon: any(reason in call[3] for call in calls.of("end", daemon)),
            what=f"the end of {daemon}: {calls.of('end')}",
        )


def running(calls: Calls, handler: str, name: str) -> int:
    """Return how many calls of a daemon have begun and not ended."""
    return len(calls.of("begin", handler, name)) - len(calls.of("end", handler, name))


def test_they_end_with_the_object_and_with_the_filter(start: Callable[..., HostUnderTest], calls: Calls) -> None:
    host = start()
    host.client.create(example("a", labels={"on": "yes"}, spec={"field": 1}))
    for daemon in DAEMONS:
        calls.wait("begin", daemon, "a")
    calls.wait("tick", "timed", "a", count=3)
    calls.wait("tick", "sharp", "a", 1, count=3)
    eventually(lambda: host.client.get(API_VERSION, KIND, "a", "default").get("status", {}).get("sharp"))
    assert host.client.get(API_VERSION, KIND, "a", "default")["metadata"]["finalizers"]

    # They see the newest state.
    host.client.patch(API_VERSION, KIND, "a", "default", {"spec": {"field": 2}})
    calls.wait("tick", "sharp", "a", 2)

    host.client.patch(API_VERSION, KIND, "a", "default", {"metadata": {"labels": {"on": None}}})
    reasons(calls, "FILTERS_MISMATCH")
    eventually(lambda: not host.client.get(API_VERSION, KIND, "a", "default")["metadata"].get("finalizers"))

    host.client.patch(API_VERSION, KIND, "a", "default", {"metadata": {"labels": {"on": "yes"}}})
    for daemon in DAEMONS:
        calls.wait("begin", daemon, "a", count=2)
        assert running(calls, daemon, "a") == 1
    eventually(lambda: host.client.get(API_VERSION, KIND, "a", "default")["metadata"].get("finalizers"))

    host.client.delete(API_VERSION, KIND, "a", "default")
    reasons(calls, "RESOURCE_DELETED")
    eventually(lambda: gone(host, "a"))
    for daemon in DAEMONS:
        assert running(calls, daemon, "a") == 0


def gone(host: HostUnderTest, name: str) -> bool:
    try:
        host.client.get(API_VERSION, KIND, name, "default")
    except NotFound:
        return True
    return False


@behaviour("kopf/KO6")
def test_they_end_with_the_plugin_and_begin_once_after_it(start: Callable[..., HostUnderTest], calls: Calls) -> None:
    first = start()
    for name in ("a", "b"):
        first.client.create(example(name, labels={"on": "yes"}))
    for daemon in DAEMONS:
        calls.wait("begin", daemon, "b")
        calls.wait("begin", daemon, "a")
    assert first.stop()
    reasons(calls, "OPERATOR_EXITING")
    assert not any(running(calls, daemon, name) for daemon in DAEMONS for name in "ab")

    start()
    for daemon in DAEMONS:
        for name in "ab":
            calls.wait("begin", daemon, name, count=2)
            assert running(calls, daemon, name) == 1


ENDING = """
    import ctrlhost_kopf as kopf

    @kopf.on.create("kopfexamples")
    def created(name, **_):
        record("created", name)

    @kopf.timer("kopfexamples", interval=600)
    def timed(name, **_):
        record("tick", name)

    @kopf.daemon("kopfexamples", cancellation_backoff=60)
    async def slow(stopped, name, **_):
        record("begin", name)
        await stopped.wait()
        record("ending", name)
        while not pathlib.Path(__file__).with_name("release").exists():
            await asyncio.sleep(0.01)
"""


@behaviour("kopf/KO6")
def test_none_begins_while_the_plugin_ends(start: Callable[..., HostUnderTest], calls: Calls, tmp_path: Path) -> None:
    host = start(ENDING)
    host.client.create(example("a"))
    calls.wait("begin", "a")
    with ThreadPoolExecutor() as pool:
        stopped = pool.submit(host.stop)
        calls.wait("ending", "a")
        # Other handlers are called until the end.
        host.client.create(example("b"))
        calls.wait("created", "b")
        (tmp_path / "operator" / "release").touch()
        assert stopped.result()
    assert not calls.of("begin", "b")
    assert not calls.of("tick", "b")


STUCK = """
    import ctrlhost_kopf as kopf

    @kopf.daemon("kopfexamples", cancellation_backoff=0.02, cancellation_timeout=0.02)
    def stuck(stopped, name, **_):
        record("begin", "stuck", name)
        release = pathlib.Path(__file__).with_name("release")
        while not release.exists():
            time.sleep(0.01)
        record("end", "stuck", name, str(stopped.reason))
"""


def test_one_that_does_not_end_is_named_and_left_behind(
    start: Callable[..., HostUnderTest], calls: Calls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    host = start(STUCK)
    host.client.create(example("a"))
    calls.wait("begin", "stuck", "a")
    host.client.delete(API_VERSION, KIND, "a", "default")
    eventually(lambda: gone(host, "a"))
    assert "Daemon 'stuck' did not end in time; left behind" in caplog.text
    assert running(calls, "stuck", "a") == 1
    (tmp_path / "operator" / "release").touch()
    (_, _, _, reason), *_ = calls.wait("end", "stuck", "a")
    for part in ("RESOURCE_DELETED", "DAEMON_SIGNALLED", "DAEMON_CANCELLED", "DAEMON_ABANDONED"):
        assert part in reason


ERRORS = """
    import ctrlhost_kopf as kopf

    @kopf.daemon("kopfexamples", backoff=0.01)
    def retried(name, retry, **_):
        record("retried", name, retry)
        if retry == 0:
            raise kopf.TemporaryError("again", delay=0.01)
        if retry == 1:
            raise ValueError("again")
        return {"done": retry}

    @kopf.timer("kopfexamples", interval=0.01, retries=2, backoff=0.01)
    def failing(name, retry, **_):
        record("failing", name, retry)
        raise ValueError("always")

    @kopf.timer("kopfexamples", idle=0.05)
    async def idle(name, spec, **_):
        record("idle", name, spec.get("field"))
"""


def test_errors_are_retried_and_idle_timers_wait_for_changes(start: Callable[..., HostUnderTest], calls: Calls) -> None:
    host = start(ERRORS)
    host.client.create(example("a", spec={"field": 1}))
    calls.wait("retried", "a", 2)
    # One that has ended is not called again.
    eventually(
        lambda: host.client.get(API_VERSION, KIND, "a", "default").get("status", {}).get("retried") == {"done": 2}
    )
    # The count of a timer begins anew after the last attempt.
    calls.wait("failing", "a", 0, count=3)
    calls.wait("idle", "a", 1)
    host.client.patch(API_VERSION, KIND, "a", "default", {"spec": {"field": 2}})
    calls.wait("idle", "a", 2)
    assert len(calls.of("idle", "a", 1)) == 1
    assert [call[2] for call in calls.of("retried", "a")] == [0, 1, 2]
