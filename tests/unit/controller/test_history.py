"""The last runs of a controller and its failing keys are bounded."""

from __future__ import annotations

from ctrlhost import Request
from ctrlhost.controller.error_log import ERRORS, ErrorLog
from ctrlhost.controller.history import RUNS, History
from ctrlhost.testing import ManualClock


def fail(history: History, key: object, *, terminal: bool = False) -> None:
    history.failed(key, "KeyError", "KeyError: 'spec'", "app.py:31", terminal=terminal)


def test_failures_are_counted_until_a_success() -> None:
    clock, errors = ManualClock(), ErrorLog()
    history = History("demo/c", clock, errors)
    key = Request("a", "default")
    fail(history, key)
    clock.advance(5)
    fail(history, key)
    failure = history.failure(key)
    assert failure is not None
    assert (failure.failures, failure.at, failure.place, failure.terminal) == (2, 5.0, "app.py:31", False)
    assert (history.retrying, list(history.failing)) == (1, [key])
    assert [(entry.key, entry.controller) for entry in errors.entries()] == [("default/a", "demo/c")] * 2
    assert history.attempts == {key: 2}
    history.postponed(key)
    assert (history.failure(key), list(history.failing), history.attempts) == (None, [], {key: 3})
    history.succeeded(key)
    assert (history.failure(key), history.retrying, list(history.failing)) == (None, 0, [])
    assert history.attempts == {}


def test_a_key_that_was_given_up_is_failing_but_not_retried() -> None:
    history = History("demo/c", ManualClock(), ErrorLog())
    fail(history, "a", terminal=True)
    fail(history, "b")
    assert (history.retrying, len(history.failing)) == (1, 2)
    fail(history, "a")
    assert history.retrying == 2


def test_the_errors_of_a_plugin_outlast_those_of_another_one() -> None:
    errors = ErrorLog()
    calm, noisy = (History(f"{plugin}/c", ManualClock(), errors) for plugin in ("calm", "noisy"))
    fail(calm, "seldom")
    for number in range(2 * ERRORS):
        fail(noisy, number)
    assert [failure.key for failure in errors.of_plugin("calm")] == ["seldom"]
    assert [failure.key for failure in errors.of_plugin("noisy")] == [str(2 * ERRORS - 1 - at) for at in range(ERRORS)]
    assert {entry.controller for entry in errors.entries()} == {"noisy/c"}
    fail(calm, "now")
    assert (errors.entries()[0].key, len(errors.entries())) == ("now", ERRORS)
    assert errors.of_plugin("unknown") == []


def test_everything_is_bounded() -> None:
    errors = ErrorLog()
    history = History("demo/c", ManualClock(), errors)
    for number in range(3000):
        fail(history, Request(f"retried-{number}"))
        history.runs.append((number, 0.0, 0.0, 0, number))
    assert len(history.failing) == history.retrying == 3000
    assert len(history.failures()) == 1000
    assert history.failing_keys(2999, 5) == [Request("retried-2999")]
    for number in range(3000):
        fail(history, Request(f"given-up-{number}"), terminal=True)
    assert history.retrying == 3000
    assert len(history.failing) == len(history.attempts) == 6000
    assert len(errors.entries()) == ERRORS
    runs = history.last_runs()
    assert (len(runs), runs[0].key, runs[0].result, runs[0].reconcile_id) == (RUNS, 2999, "success", "0-2999")
