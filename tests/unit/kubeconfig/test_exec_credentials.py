"""Programs that print credentials: how often they run, and what requests meanwhile do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError, TransportError
from ctrlhost.kubeconfig import exec_credentials
from ctrlhost.kubeconfig.exec_credentials import ExecConfig, ExecPlugin
from tests.support.exec_program import EXEC, ExecProgram
from tests.support.kubeconfigs import kubeconfig
from tests.support.stub_api_server import Computed, Failure, Json, ReceivedRequest, pod
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
POD = "/api/v1/namespaces/default/pods/a"


class Time:
    """The clocks of the credentials, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ExecProgram]:
    with closing(ExecProgram(tmp_path)) as program:
        yield program


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(exec_credentials, "time", time)
    return time


def plugin_of(program: ExecProgram) -> ExecPlugin:
    return ExecPlugin(ExecConfig(str(program.path), [], dict(os.environ), EXEC, "kubeconfig x: users[0].exec"))


def settled(plugin: ExecPlugin) -> None:
    eventually(lambda: not plugin._running)


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@behaviour("supervision/CR1")
def test_many_rejected_requests_run_the_program_once(program: ExecProgram, write: Any, server: Any) -> None:
    valid = {"Bearer token-1"}

    def answer(request: ReceivedRequest) -> Any:
        return Json(pod("a", 1)) if request.headers.get("authorization") in valid else Failure(401, "Unauthorized")

    server.on("GET", POD, Computed(answer))
    client = Client.load(write(kubeconfig({"server": server.url}, program.user)))
    client.get("v1", "Pod", "a")
    valid.clear()
    valid.add("Bearer token-2")
    program.hold()
    requests = [Background(client.get, "v1", "Pod", "a") for _ in range(20)]
    # All are rejected with the old token before the program answers.
    eventually(lambda: len(server.requests) == 21 and program.runs == 2)
    program.release()
    for request in requests:
        assert request.result()["metadata"]["name"] == "a"
    assert program.runs == 2
    assert len(server.requests) == 41


@behaviour("supervision/CR1")
def test_a_rejected_credential_that_was_replaced_meanwhile_does_not_run_the_program(
    program: ExecProgram, time: Time
) -> None:
    plugin = plugin_of(program)
    assert plugin.authorization(10) == "Bearer token-1"
    assert plugin.refresh("Bearer token-1", 10)
    assert plugin.refresh("Bearer token-1", 10)
    assert program.runs == 2
    # The new one is rejected as well: not again within ten seconds.
    assert not plugin.refresh("Bearer token-2", 10)
    assert program.runs == 2
    time.now += 10
    assert plugin.refresh("Bearer token-2", 10)
    assert program.runs == 3


@behaviour("scale/SC41")
@behaviour("supervision/CR2")
def test_requests_give_up_at_their_own_timeouts_while_the_program_hangs(
    program: ExecProgram, write: Any, server: Any
) -> None:
    server.on("GET", POD, Json(pod("a", 1)))
    client = Client.load(write(kubeconfig({"server": server.url}, program.user)))
    program.hold()
    patient = Background(partial(client.get, "v1", "Pod", "a", timeout=60))
    hurried = [Background(partial(client.get, "v1", "Pod", "a", timeout=0.1)) for _ in range(10)]
    for request in hurried:
        with pytest.raises(TransportError, match=r"login` did not answer within 0\.\d+ s") as caught:
            request.result()
        assert not caught.value.sent
    assert patient.waits
    assert server.requests == []
    program.release()
    assert patient.result()["metadata"]["name"] == "a"
    assert program.runs == 1


@behaviour("supervision/CR3")
@pytest.mark.parametrize(
    ("life", "skew", "most", "least"),
    [
        pytest.param(30, 0, 3, 3, id="30 s"),
        pytest.param(-5, 0, 61, 55, id="expired on arrival"),
        pytest.param(30, -3600, 61, 55, id="a clock an hour behind"),
        pytest.param(30, 3600, 1, 1, id="a clock an hour ahead"),
    ],
)
def test_a_credential_is_renewed_early_and_never_more_than_once_a_second(
    program: ExecProgram, time: Time, life: float, skew: float, most: int, least: int
) -> None:
    plugin = plugin_of(program)
    for _ in range(6000):
        # A run that begins now prints a credential of this life.
        program.set("expires", stamp(time.now + life + skew))
        assert (plugin.authorization(10) or "").startswith("Bearer token-")
        settled(plugin)
        time.now += 0.01
    assert least <= program.runs <= most


@behaviour("supervision/CR4")
def test_a_failure_is_remembered_for_longer_and_longer(program: ExecProgram, time: Time) -> None:
    plugin = plugin_of(program)
    program.set("fail")
    for pause in (1, 2, 4, 8, 16, 30, 30):
        runs = program.runs
        for _ in range(1000):
            with pytest.raises(TransportError, match=r"failed with code 1: the login has expired$") as caught:
                plugin.authorization(10)
            assert not caught.value.sent
            time.now += pause * 0.999 / 1000
        assert program.runs == runs + 1
        time.now += pause * 0.0011
    program.clear("fail")
    assert plugin.authorization(10) == "Bearer token-8"


@behaviour("supervision/CR4")
def test_a_failed_renewal_keeps_the_good_credential(program: ExecProgram, time: Time) -> None:
    plugin = plugin_of(program)
    program.set("expires", stamp(time.now + 100))
    plugin.authorization(10)
    program.set("fail")
    time.now += 81
    for _ in range(100):
        assert plugin.authorization(10) == "Bearer token-1"
        settled(plugin)
    assert program.runs == 2
    # Expired now.
    time.now += 20
    with pytest.raises(TransportError, match="the login has expired"):
        plugin.authorization(10)


@behaviour("supervision/CR5")
def test_no_request_waits_for_a_renewal_while_the_old_credential_is_good(program: ExecProgram, time: Time) -> None:
    plugin = plugin_of(program)
    program.set("expires", stamp(time.now + 100))
    plugin.authorization(10)
    program.hold()
    program.set("expires", stamp(time.now + 300))
    time.now += 79
    assert plugin.authorization(0) == "Bearer token-1"
    assert program.runs == 1
    time.now += 1
    # A fifth of its life before the end.
    for _ in range(10):
        assert plugin.authorization(0) == "Bearer token-1"
    eventually(lambda: program.runs == 2)
    program.release()
    settled(plugin)
    assert plugin.authorization(0) == "Bearer token-2"


def test_an_unusable_program_is_an_error_of_the_configuration(program: ExecProgram) -> None:
    program.path.unlink()
    plugin = plugin_of(program)
    with pytest.raises(ConfigError, match="is not installed"):
        plugin.authorization(10)
    with pytest.raises(ConfigError, match="is not installed"):
        plugin.authorization(10)


@pytest.mark.parametrize("expires", ["2030-01-01T00:00:00", "2030-01-01", "tomorrow", ""])
def test_an_expiry_without_an_offset_is_refused(program: ExecProgram, expires: str) -> None:
    program.set("expires", expires)
    with pytest.raises(ConfigError, match=f"an expirationTimestamp that is not RFC 3339: '{expires}'"):
        plugin_of(program).authorization(10)


def test_the_thread_of_a_run_ends_with_it(program: ExecProgram) -> None:
    plugin_of(program).authorization(10)
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "exec credentials"])


@behaviour("supervision/CR4")
def test_a_process_without_room_for_a_thread_tries_again(
    program: ExecProgram, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    plugin = plugin_of(program)
    program.set("expires", stamp(time.now + 100))
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(TransportError, match="can't start new thread"):
            plugin.authorization(10)
    time.now += 1
    assert plugin.authorization(10) == "Bearer token-1"
    # The credential that is still good is used meanwhile.
    time.now += 90
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        assert plugin.authorization(10) == "Bearer token-1"
    program.set("expires", stamp(time.now + 300))
    time.now += 1
    assert plugin.authorization(10) == "Bearer token-1"
    settled(plugin)
    assert plugin.authorization(10) == "Bearer token-2"
