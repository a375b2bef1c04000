"""The options of a controller: from the plugin, from the operator, and their defaults."""

from __future__ import annotations

import inspect

import pytest

from ctrlhost.controller.backoff import Backoff
from ctrlhost.controller.controller import Controller
from ctrlhost.controller.options import ControllerOptions
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": "3"}, "workers must be an integer, got '3'"),
        ({"workers": True}, "workers must be an integer"),
        ({"timeout": [30]}, "a duration must be a string such as"),
        ({"timeout": float("nan")}, "timeout must be a number of seconds"),
        ({"rate_limiter": 5}, "int is not a rate limiter"),
        ({"retry": 5}, "retry must be a ctrlhost.Backoff, got 5"),
        ({"retry": Backoff(), "rate_limiter": ItemFastSlowRateLimiter(2, 60, 5)}, "are mutually exclusive"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused_when_given(bench: Bench, options, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bench.plugin().add_controller("pods", print, **options)


@pytest.mark.behaviour("workqueue/K49")
def test_a_limiter_of_the_plugin_replaces_the_default(bench: Bench, manual_clock: ManualClock) -> None:
    limiter = ItemFastSlowRateLimiter(2, 60, 5)
    controller = bench.controller(Script(ValueError(), None), rate_limiter=limiter)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert limiter.num_requeues(WEB) == 1
    manual_clock.advance(1.9)
    eventually(lambda: idle(controller))
    assert bench.results() == {"error": 1}
    manual_clock.advance(0.1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


class Overrides:
    """Settings of the operator for a controller."""

    def __init__(self, **settings) -> None:
        for name in ("workers", "timeout", "slow_after", "namespaces", "base_delay", "max_delay", "paused", "shard_by"):
            setattr(self, name, settings.get(name))


@pytest.mark.behaviour("workqueue/K50")
def test_the_operator_overrides_the_options_of_the_plugin(bench: Bench) -> None:
    bench.overrides["demo/pods"] = Overrides(workers=5, timeout=7.0, base_delay=1.0, namespaces=("a",))
    limiter = ItemExponentialFailureRateLimiter(1, 2)
    options = bench.controller(Script(), workers=2, timeout=3, rate_limiter=limiter, start=False).options
    assert (options.workers, options.timeout, options.namespaces) == (5, 7.0, ("a",))
    assert (options.backoff, options.rate_limiter) == (Backoff(first=1), None)


@pytest.mark.behaviour("workqueue/K50")
@pytest.mark.behaviour("findings/FT1")
@pytest.mark.parametrize(
    ("overrides", "own", "expected"),
    [
        # What the operator does not set stays as the plugin declares it, and its absence leaves the default.
        ({}, {"workers": 2, "timeout": 3, "needs_leader": False}, (2, 3, False)),
        ({"workers": 5}, {"timeout": 3}, (5, 3, True)),
        ({"timeout": 7.0}, {"workers": 2}, (2, 7.0, True)),
        ({"workers": 5, "timeout": 7.0}, {}, (5, 7.0, True)),
        ({}, {}, (1, None, True)),
    ],
)
def test_an_option_is_the_operators_then_the_plugins_then_the_default(
    bench: Bench, overrides: dict, own: dict, expected: tuple
) -> None:
    bench.overrides["demo/pods"] = Overrides(**overrides)
    options = bench.controller(Script(), start=False, **own).options
    assert (options.workers, options.timeout, options.needs_leader) == expected


@pytest.mark.behaviour("workqueue/K50")
@pytest.mark.behaviour("findings/FT1")
def test_recovery_and_warm_up_are_always_on_and_a_sync_takes_two_minutes_at_most(
    bench: Bench, manual_clock: ManualClock
) -> None:
    # There is no option for the first two: K3 and K39 do not apply.
    assert not {"recover_panic", "enable_warmup"} & set(ControllerOptions.__slots__)
    assert inspect.signature(Controller.wait_for_sync).parameters["timeout"].default == 120
    controller = bench.controller(Script(ZeroDivisionError(), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1} and idle(controller))


@pytest.mark.behaviour("workqueue/K50")
def test_the_defaults_are_those_of_upstream(bench: Bench) -> None:
    options = bench.controller(Script(), workers=0, start=False).options
    assert (options.workers, options.timeout, options.needs_leader) == (1, None, True)
    assert [options.backoff.delay(failures) for failures in (1, 2, 20)] == [0.005, 0.01, 1000.0]
