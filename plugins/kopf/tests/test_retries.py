"""What the errors of handlers mean, and when a handler is called again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ctrlhost_kopf as kopf
import pytest

import ctrlhost
from plugins.kopf.tests.conftest import Running

pytestmark = pytest.mark.behaviour("kopf/KO3")


@pytest.fixture(params=["def", "async def"])
def raising(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that makes handlers which raise the given errors in turn, and record their calls."""

    def make(calls: list[Any], *errors: BaseException | None) -> Any:
        def act(retry: int, started: Any, runtime: Any) -> None:
            calls.append((retry, round(runtime.total_seconds())))
            error = errors[min(retry, len(errors) - 1)]
            if error is not None:
                raise error

        def handler(retry: int, started: Any, runtime: Any, **_: Any) -> None:
            act(retry, started, runtime)

        async def async_handler(retry: int, started: Any, runtime: Any, **_: Any) -> None:
            act(retry, started, runtime)

        return handler if request.param == "def" else async_handler

    return make


def outcome(running: Running) -> dict[str, Any]:
    """Return the stored progress of the only handler."""
    (record,) = running.progress().values()
    stored: dict[str, Any] = json.loads(record)
    return stored


def test_a_temporary_error_is_retried_after_its_delay(on: Any, start: Any, raising: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn")(raising(calls, kopf.TemporaryError("wait", delay=5), None))
    running = start()
    running.create()
    assert calls == [(0, 0)]
    stored = outcome(running)
    assert (stored["retries"], stored["success"], stored["failure"], stored["message"]) == (1, False, False, "wait")
    assert stored["purpose"] == "create"
    running.advance(4.9)
    assert len(calls) == 1
    running.advance(0.1)
    assert calls == [(0, 0), (1, 5)]
    assert running.progress() == {}


def test_an_unknown_error_is_retried_after_the_back_off(on: Any, start: Any, raising: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn", backoff=2)(raising(calls, ValueError("odd"), ValueError("odd"), None))
    running = start()
    running.create()
    for _ in range(2):
        running.advance(1.9)
        running.advance(0.1)
    assert calls == [(0, 0), (1, 2), (2, 4)]
    assert running.progress() == {}


def test_the_default_back_off_is_a_setting(on: Any, start: Any, raising: Any) -> None:
    @on.startup()
    def configure(settings: Any, **_: Any) -> None:
        settings.execution.default_backoff = 7

    calls: list[Any] = []
    on.create(id="fn")(raising(calls, ValueError("odd"), None))
    running = start()
    running.create()
    running.advance(6.9)
    assert len(calls) == 1
    running.advance(0.1)
    assert calls == [(0, 0), (1, 7)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, kopf.PermanentError("no")),
        ({"errors": kopf.ErrorsMode.PERMANENT}, ValueError("no")),
        ({"errors": kopf.ErrorsMode.IGNORED}, ValueError("no")),
        ({"retries": 1}, kopf.TemporaryError("no")),
        ({"timeout": 10}, kopf.TemporaryError("no", delay=10)),
        ({"timeout": 10, "backoff": 10}, ValueError("no")),
    ],
    ids=["permanent", "errors=PERMANENT", "errors=IGNORED", "retries", "timeout", "timeout with back-off"],
)
def test_an_end_is_not_called_again(on: Any, start: Any, raising: Any, options: Any, error: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn", **options)(raising(calls, error))
    running = start()
    running.create()
    running.advance(1000)
    assert calls == [(0, 0)]
    assert running.progress() == {}
    assert "kopf.zalando.org/last-handled-configuration" in running.get()["metadata"]["annotations"]


def test_retries_are_the_attempts_in_all(on: Any, start: Any, raising: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn", retries=3, backoff=2)(raising(calls, ValueError("odd")))
    running = start()
    running.create()
    for _ in range(5):
        running.advance(2)
    assert calls == [(0, 0), (1, 2), (2, 4)]
    assert running.progress() == {}


def test_a_timeout_counts_from_the_first_attempt(on: Any, start: Any, raising: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn", timeout=10)(raising(calls, kopf.TemporaryError("wait", delay=4)))
    running = start()
    running.create()
    for _ in range(5):
        running.advance(4)
    # At 8 s the next attempt would be at 12 s, which is too late.
    assert calls == [(0, 0), (1, 4), (2, 8)]
    assert running.progress() == {}


def test_one_handler_that_waits_does_not_hold_up_others(on: Any, start: Any, raising: Any) -> None:
    first: list[Any] = []
    second: list[Any] = []
    on.create(id="first")(raising(first, kopf.TemporaryError("wait", delay=5), None))
    on.create(id="second")(raising(second, None))
    running = start()
    running.create()
    assert (len(first), len(second)) == (1, 1)
    assert set(running.progress()) == {"first", "second"}
    running.advance(5)
    assert (len(first), len(second)) == (2, 1)
    assert running.progress() == {}


def test_a_retry_survives_a_restart_of_the_host(on: Any, start: Any, raising: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn")(raising(calls, kopf.TemporaryError("wait", delay=5), None))
    running = start()
    running.create()
    running.host.stop()
    again = start(sandbox=running.host.sandbox)
    assert len(calls) == 1
    again.advance(5)
    assert calls == [(0, 0), (1, 5)]
    assert again.progress() == {}


@pytest.mark.parametrize("error", [None, kopf.TemporaryError("wait", delay=1)], ids=["success", "error"])
def test_what_the_server_refuses_is_not_written_again_until_a_change(on: Any, start: Any, error: Any) -> None:
    calls: list[int] = []

    @on.create(id="fn", retries=2)
    def refused(retry: int, patch: Any, **_: Any) -> None:
        calls.append(retry)
        # Names of labels have no blanks.
        patch.meta.labels["no label"] = "1"
        if error is not None:
            raise error

    running = start()
    running.create()
    running.advance(1000)
    assert calls == [0]
    assert running.progress() == {}
    # A change is handled at once; those that follow wait as `settings.queueing.error_delays` say: 1, 1, 2 s.
    running.patch(spec={"a": 1})
    running.patch(spec={"a": 2})
    assert calls == [0, 0]
    running.advance(0.9)
    assert calls == [0, 0]
    running.advance(0.1)
    assert calls == [0, 0, 0]
    running.patch(spec={"a": 3})
    running.advance(1.9)
    assert calls == [0, 0, 0]
    running.advance(0.1)
    assert calls == [0, 0, 0, 0]


def test_functions_of_a_patch_that_the_server_refuses_are_not_called_again_until_a_change(on: Any, start: Any) -> None:
    calls: list[int] = []

    @on.event()
    def refused(patch: Any, **_: Any) -> None:
        patch.fns.append(lambda body: calls.append(1) or body["metadata"]["labels"].update({"no label": "1"}))

    running = start()
    running.create(labels={"a": "1"})
    running.advance(1000)
    assert len(calls) == 1
    running.patch(spec={"a": 1})
    assert len(calls) == 2


def test_a_write_that_fails_for_now_is_repeated_without_a_call(on: Any, start: Any) -> None:
    calls: list[int] = []

    @on.create(id="fn")
    def created(retry: int, **_: Any) -> str:
        calls.append(retry)
        return "done"

    running = start()
    running.host.faults.next("patch", ctrlhost.ServerError("the leader has changed", status=503), times=3)
    running.create()
    for _ in range(10):
        running.advance(1)
    assert running.get()["status"] == {"fn": "done"}
    assert calls == [0]
    assert running.progress() == {}


def test_an_exit_is_an_error_of_the_handler(on: Any, start: Any, raising: Any) -> None:
    calls: list[Any] = []
    on.create(id="fn", retries=2, backoff=2)(raising(calls, SystemExit(3)))
    running = start()
    running.create()
    assert outcome(running)["message"] == "sys.exit(3) does not end the host"
    for _ in range(5):
        running.advance(2)
    assert calls == [(0, 0), (1, 2)]
    assert running.progress() == {}
