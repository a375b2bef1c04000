"""The delays of retries: the bucket that the retries of a controller share, and their jitter."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from ctrlhost.clock import SystemClock
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import Supervision
from ctrlhost.controller.backoff import Backoff
from ctrlhost.controller.retries import RetryLimiter
from ctrlhost.errors import ConfigError, TooManyRequests
from ctrlhost.request import Request
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    default_controller_rate_limiter,
)
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


def limiter(clock: ManualClock, qps: float = 20, jitter: float = 0.0) -> RetryLimiter:
    own = ItemExponentialFailureRateLimiter(0.005, 1000)
    return RetryLimiter(own, qps, Backoff(), clock, lambda: jitter)


@behaviour("supervision/BU1")
def test_the_retries_beyond_the_burst_come_at_the_rate_of_the_bucket(manual_clock: ManualClock) -> None:
    delays = [limiter_.when(key) for limiter_ in [limiter(manual_clock)] for key in range(20_200)]
    assert delays[:100] == [0.005] * 100
    assert delays[100:20_000] == pytest.approx([number / 20 for number in range(1, 19_901)])
    assert sum(delay <= 20 for delay in delays) == 500
    # A delay of the bucket is at most the longest back-off.
    assert delays[-100:] == [1000] * 100


@behaviour("supervision/BU1")
def test_failing_keys_are_all_retried_and_none_is_lost(bench: Bench, manual_clock: ManualClock) -> None:
    broken = [True]

    def reconcile(ctx: object, request: Request) -> None:
        if broken[0]:
            raise ValueError("no")

    controller = bench.controller(reconcile, workers=2)
    keys = [Request(str(number)) for number in range(2000)]
    controller.queue.add_many(keys)
    eventually(lambda: bench.results() == {"error": 2000} and idle(controller))
    for _ in range(20):
        manual_clock.advance(1)
        eventually(lambda: idle(controller))
    assert 400 <= bench.results()["error"] - 2000 <= 500
    broken[0] = False
    for _ in range(20):
        manual_clock.advance(10)
        eventually(lambda: idle(controller))
    assert bench.results()["success"] == 2000
    assert controller.queue.snapshot().delayed == []


@behaviour("supervision/BU2")
@pytest.mark.parametrize(("jitter", "delay"), [(0.0, 0.005), (0.5, 0.0055), (1.0, 0.006)])
def test_a_single_failure_does_not_feel_the_bucket(manual_clock: ManualClock, jitter: float, delay: float) -> None:
    assert limiter(manual_clock, jitter=jitter).when("one") == pytest.approx(delay)


@behaviour("supervision/BU3")
def test_keys_that_fail_together_are_retried_apart_and_never_early() -> None:
    random.seed(3)
    own = ItemExponentialFailureRateLimiter(1, 1000)
    delays = [RetryLimiter(own, 0, Backoff(), SystemClock()).when(key) for key in range(100)]
    assert all(1 <= delay <= 1.2 for delay in delays)
    assert len(set(delays)) == 100
    # Spread over the whole fifth.
    assert min(delays) < 1.02
    assert max(delays) > 1.18
    # The own limiter stays exact.
    assert own.when("another") == 1


def test_without_a_bound_the_own_limiter_decides(manual_clock: ManualClock) -> None:
    unbound = limiter(manual_clock, qps=0)
    assert [unbound.when(key) for key in range(1000)] == [0.005] * 1000
    assert unbound.num_requeues(1) == 1
    unbound.forget(1)
    assert unbound.num_requeues(1) == 0


@behaviour("supervision/BU19")
@pytest.mark.parametrize("qps", [1e9, 1e20, 1.7e308])
def test_a_budget_beyond_all_bursts_is_a_budget(manual_clock: ManualClock, qps: float) -> None:
    unbound = limiter(manual_clock, qps=qps)
    assert [unbound.when(key) for key in range(1000)] == [0.005] * 1000


def test_a_limiter_without_a_clock_uses_that_of_the_host(manual_clock: ManualClock) -> None:
    for own in (default_controller_rate_limiter(), MaxOfRateLimiter(BucketRateLimiter(1, 1))):
        wrapped = RetryLimiter(own, 0, Backoff(), manual_clock)
        for key in range(300):
            wrapped.when(key)
        late = wrapped.when("late")
        manual_clock.advance(1000)
        assert wrapped.when("later") < late


@behaviour("supervision/BU15")
def test_retries_that_the_server_asks_for_are_those_of_the_bucket(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(Script(*[TooManyRequests("busy")] * 100_000))
    controller.queue.add_many([Request(str(number)) for number in range(100)])
    eventually(lambda: bench.results() == {"error": 100} and idle(controller))
    before = []
    for _ in range(60):
        manual_clock.advance(1)
        eventually(lambda: idle(controller))
        before.append(bench.results()["error"])
    # After the burst, at most the bucket's rate: many keys at their longest back-off stay below it.
    assert all(later - earlier <= 20 for earlier, later in itertools.pairwise(before[10:]))


@pytest.mark.parametrize("wait", ["5", float("inf"), float("nan"), -1, 0])
def test_an_unusable_delay_in_an_error_is_ignored(bench: Bench, manual_clock: ManualClock, wait: Any) -> None:
    # Made by a plugin: those from a server have a number of seconds.
    controller = bench.controller(Script(TooManyRequests("busy", retry_after=wait), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


def test_the_operator_sets_the_rate_for_all_plugins_and_for_one(bench: Bench, manual_clock: ManualClock) -> None:
    tree = {"supervision": {"retry_qps": 2, "demo": {"retry-qps": 1}, "other": {}}}
    configuration = Configuration({"host": {}, "plugins": {}, "controllers": {}, **tree}, "")
    assert configuration.supervision("demo") == Supervision(retry_qps=1)
    assert configuration.supervision("other") == configuration.supervision("third") == Supervision(retry_qps=2)
    bench.supervision = configuration.supervision
    controller = bench.controller(Script(*[ValueError()] * 20))
    controller.queue.add_many([WEB, *(Request(str(number)) for number in range(9))])
    eventually(lambda: bench.results() == {"error": 10} and idle(controller))
    assert sorted(item.due_in for item in controller.queue.snapshot().delayed) == [*[0.005] * 5, 1, 2, 3, 4, 5]


@behaviour("supervision/BU19")
@pytest.mark.parametrize("value", ["-1", "nan", "inf", '"many"', "true"])
@pytest.mark.parametrize("place", ["supervision", "supervision.demo"])
def test_an_invalid_budget_is_refused_with_its_path(tmp_path: Path, place: str, value: str) -> None:
    file = tmp_path / "ctrlhost.toml"
    file.write_text(f"[{place}]\nretry_qps = {value}\n", encoding="utf-8")
    configuration = Configuration.gather(file)
    with pytest.raises(ConfigError, match=rf"^{place}(\.retry_qps)?: .*ctrlhost\.toml\)"):
        configuration.supervision("demo")


@behaviour("supervision/BU19")
def test_an_invalid_budget_is_refused_with_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "ctrlhost.toml"
    file.write_text("[supervision.other]\nretry_qps = 1\n", encoding="utf-8")
    configuration = Configuration.gather(file, {"CTRLHOST_SUPERVISION__DEMO__RETRY_QPS": "nan"})
    with pytest.raises(ConfigError, match=r"got nan \(in CTRLHOST_SUPERVISION__DEMO__RETRY_QPS\)"):
        configuration.supervision("demo")
    configuration = Configuration.gather(file, assignments=["supervision.retry-qps=-1"])
    with pytest.raises(ConfigError, match=r"got -1\.0 \(in --set supervision\.retry-qps\)"):
        configuration.supervision("demo")


def test_settings_of_an_unknown_plugin_or_of_an_unknown_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ctrlhost.toml"
    file.write_text("[supervision.dmo]\nretry_qps = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"supervision\.dmo: no plugin `dmo` is installed"):
        Configuration.gather(file).check_names(["demo"])
    # Only [controllers] has settings of one controller.
    file.write_text('[supervision."demo/names"]\nretry_qps = 1\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"supervision\.demo/names: no plugin `demo/names` is installed"):
        Configuration.gather(file).check_names(["demo"])
    file.write_text("[supervision]\nretry_pqs = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"supervision\.retry_pqs: unknown setting"):
        Configuration.gather(file).supervision("demo")
    environ = {"CTRLHOST_SUPERVISION__DEMO__RETRY_QPS": "3", "CTRLHOST_SUPERVISION__RETRY_QPS": "4"}
    configuration = Configuration.gather(None, environ)
    assert configuration.supervision("demo") == Supervision(retry_qps=3)
    assert configuration.supervision("other") == Supervision(retry_qps=4)


def test_a_look_at_the_queue_calls_no_limiter_of_a_plugin(bench: Bench, manual_clock: ManualClock) -> None:
    class Unknowing:
        def when(self, _key: object) -> float:
            return 1.0

        def forget(self, _key: object) -> None:
            """Forget nothing."""

        def num_requeues(self, _key: object) -> int:
            raise RuntimeError("on purpose")

    controller = bench.controller(Script(RuntimeError("one"), RuntimeError("two"), None), rate_limiter=Unknowing())
    controller.queue.add(WEB)
    for failures in (1, 2):
        eventually(lambda failures=failures: bench.results() == {"error": failures} and idle(controller))
        (delayed,) = controller.queue.snapshot().delayed
        assert delayed.failures == failures
        manual_clock.advance(10)
    eventually(lambda: bench.results() == {"error": 2, "success": 1})
    assert controller.queue.num_requeues(WEB) == 0
