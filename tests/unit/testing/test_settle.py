"""A host that has settled: idle, and well."""

from __future__ import annotations

import itertools
import re
import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request, ServerError, TerminalError
from ctrlhost.testing import ManualClock, NotSettled
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually
from tests.unit.testing.settling import ANN, not_settled, reconciling

behaviour = pytest.mark.behaviour


@behaviour("authoring/AT1")
def test_a_plugin_that_waits_for_a_kind_has_not_settled(ctrlhost_host) -> None:
    host = ctrlhost_host(reconciling(print, For("example.com/v1", "Widget")))
    why = not_settled(host)
    assert re.search(r"plugin demo is waiting: .*Widget", why)
    assert re.search(r"controller demo/c waits: Widget \(example.com/v1\)", why)
    assert 'hint: apply what it waits for before the host starts, or grant the right; `allow=("waiting",)`' in why
    host.settle(allow=("waiting",))


@behaviour("authoring/AT1")
def test_a_key_that_is_not_retried_has_not_settled(ctrlhost_host) -> None:
    def fail(ctx: Any, request: Request) -> None:
        raise TerminalError("no such size")

    host = ctrlhost_host(reconciling(fail))
    host.apply(ANN)
    why = not_settled(host)
    assert re.search(
        r"controller demo/c: key default/ann failed for good: .*no such size \(tests/unit/testing/test_settle.py:\d+\)",
        why,
    )
    assert 'hint: `allow=("terminal",)`' in why
    host.settle(allow=("terminal",))


@behaviour("authoring/AT1")
def test_what_is_allowed_is_checked(ctrlhost_host) -> None:
    host = ctrlhost_host(reconciling(print))
    for allow in ("waiting", ("waitng",)):
        with pytest.raises(ValueError, match="must be a tuple of waiting, retrying, terminal"):
            host.settle(allow=allow)
    host.settle(allow=("waiting", "retrying", "terminal"))


def test_a_kind_that_has_come_meanwhile_is_awaited(ctrlhost_host) -> None:
    seen: list[str] = []
    host = ctrlhost_host(reconciling(lambda ctx, request: seen.append(request.name), For("example.com/v1", "Widget")))
    host.settle(allow=("waiting",))
    host.apply(
        crd("example.com", "Widget"), {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )
    host.settle()
    assert seen == ["w"]


@behaviour("authoring/AT2")
@pytest.mark.parametrize("manual", [False, True])
def test_a_key_that_always_fails_has_not_settled(ctrlhost_host, manual: bool) -> None:
    def fail(ctx: Any, request: Request) -> None:
        raise ValueError("no luck")

    host = ctrlhost_host(reconciling(fail), clock=ManualClock() if manual else None)
    host.apply(ANN)
    why = not_settled(host)
    match = re.search(r"controller demo/c: key default/ann failed, attempt (\d+), (next try in .*?): (.*)", why)
    assert match is not None, why
    assert match[3].startswith("ValueError: no luck (tests/unit/testing/test_settle.py:")
    # A clock that runs by itself reaches some retries.
    assert int(match[1]) == 1 if manual else int(match[1]) >= 8
    assert ('hint: `settle(through="1m")` goes on to the retries' in why) == manual
    assert 'hint: `allow=("retrying",)`' in why
    host.settle(allow=("retrying",))
    if manual:
        assert re.search(r"attempt 1\d, ", not_settled(host, through="1m"))


def test_no_retry_is_advised_for_a_mistake(ctrlhost_host, manual_clock: ManualClock) -> None:
    def fail(ctx: Any, request: Request) -> None:
        raise AttributeError("no such field")

    host = ctrlhost_host(reconciling(fail), clock=manual_clock)
    host.apply(ANN)
    why = not_settled(host)
    assert "attempt 1, next try in" in why
    assert "through=" not in why


@behaviour("authoring/AT3")
@pytest.mark.parametrize("manual", [False, True])
def test_a_failure_that_a_later_run_repaired_is_none(ctrlhost_host, manual: bool) -> None:
    def write(ctx: Any, request: Request) -> None:
        ctx.client.apply(config_map(f"copy-of-{request.name}"))

    host = ctrlhost_host(reconciling(write), clock=ManualClock() if manual else None)
    host.faults.next("apply", ServerError("etcd is slow"))
    host.apply(ANN)
    host.settle(through="1s" if manual else None)
    assert [run.result for run in host.runs("c")] == ["error", "success"]
    assert [run.error for run in host.runs("demo/c", "ann")][1] == ""
    assert host.runs("c", "bob") == []
    assert host.find("v1/ConfigMap", "copy-of-ann") is not None
    with pytest.raises(KeyError, match="no single controller d; the host has demo/c"):
        host.runs("d")


@behaviour("authoring/AT3")
def test_the_writes_of_a_retry_that_succeeds_meanwhile_are_awaited(ctrlhost_host, monkeypatch) -> None:
    def write(ctx: Any, request: Request) -> None:
        if ctx.number == 1:
            raise ServerError("not yet")
        ctx.client.apply(config_map("copy", labels={"mine": "1"}))

    host = ctrlhost_host(reconciling(write, rate_limiter=ItemExponentialFailureRateLimiter(0.2, 1)))
    host.apply(ANN)
    host.wait_for(lambda: host.runs("c"))
    look = host._work.lines

    def look_before_the_retry() -> list[str]:
        lines: list[str] = look()
        host.wait_for(lambda: len(host.runs("c")) > 1)
        return lines

    with host.faults.hold_watches():
        monkeypatch.setattr(host._work, "lines", look_before_the_retry)
        assert "ConfigMap" in not_settled(host, timeout=1)
    host.settle()
    assert [run.key.name for run in host.runs("c")] == ["ann", "ann", "copy"]


def test_an_election_is_awaited(ctrlhost_host) -> None:
    seen: list[str] = []
    plugin = reconciling(lambda ctx, request: seen.append(request.name))
    host = ctrlhost_host(plugin, start=False, leader_elect=True)
    for verb in ("get", "create"):
        host.faults.next(verb, ServerError("not now"), resource="leases")
    host.apply(ANN)
    host.start()
    host.settle()
    assert seen == ["ann"]


@behaviour("authoring/AT4")
def test_a_plugin_that_fails_in_its_set_up_fails_the_test(ctrlhost_host) -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        raise LookupError("no such template")

    with pytest.raises(NotSettled, match=r"plugin demo is failing: ctrlhost_setup: LookupError: no such") as caught:
        ctrlhost_host(plugin_of(setup))
    cause, frames = caught.value.__cause__, []
    assert isinstance(cause, LookupError)
    trace = cause.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code)
        trace = trace.tb_next
    assert setup.__code__ in frames
    assert ctrlhost_host(plugin_of(setup), start=False).start().host.plugins[0].state == "failing"


def test_a_plugin_has_time_to_restart_after_the_process_was_stopped(ctrlhost_host, monkeypatch) -> None:
    starts: list[int] = []

    def fail_once(plugin: ctrlhost.PluginContext) -> None:
        starts.append(1)
        if len(starts) == 1:
            raise OSError("not yet")

    host = ctrlhost_host(plugin_of(fail_once), supervision={"restart_delay": 0.2}, start=False).start()
    # An hour passes between two looks.
    hours = SimpleNamespace(monotonic=itertools.count(step=3600).__next__, sleep=time.sleep)
    monkeypatch.setattr("ctrlhost.testing.settle.time", hours)
    host.settle(timeout="10000h")
    assert len(starts) == 2


@behaviour("authoring/AT5")
@pytest.mark.parametrize("hot_loop", [True, False])
def test_a_reconciler_that_wakes_itself_is_named_with_its_writes(ctrlhost_host, hot_loop: bool) -> None:
    def write(ctx: Any, request: Request) -> None:
        labels = {"mine": "1", "turn": str(ctx.number)}
        ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"metadata": {"labels": labels}})

    host = ctrlhost_host(reconciling(write), supervision={"hot_loop": hot_loop})
    host.apply(ANN)
    host.wait_for(lambda: len(host.writes()) >= 20)
    why = not_settled(host, timeout=30 if hot_loop else 0.5)
    assert re.search(r"configmaps default/ann: \d+ of the last \d+ writes", why), why
    writer = r"patch by controller demo/c, key default/ann, field manager ctrlhost-demo; "
    assert re.search(writer + r'changed metadata.labels.turn: "\d+" -> "\d+"', why), why
    assert "hint: a reconciler should write only what differs from what it has read" in why
    writes = host.writes()
    assert {(entry.controller, entry.key, entry.verb, entry.manager) for entry in writes} == {
        ("demo/c", "default/ann", "patch", "ctrlhost-demo")
    }
    assert {entry.object for entry in writes} == {("configmaps", "default", "ann")}
    assert (writes[0].changed, writes[1].changed) == ("", 'metadata.labels.turn: "1" -> "2"')


def test_writes_of_secrets_are_masked_and_those_of_the_host_left_out(ctrlhost_host) -> None:
    def write(ctx: Any, request: Request) -> None:
        for text in ("Yg==", "Yw=="):
            ctx.client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": text}})
        ctx.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"a": "b"}}) if ctx.attempt > 9 else None
        ctx.events.normal(ctx.get(request), "Seen", "once")
        ctx.client.delete("v1", "Secret", "s")

    host = ctrlhost_host(reconciling(write))
    host.apply(ANN)
    host.settle()
    assert [(entry.verb, entry.resource, entry.name, entry.changed) for entry in host.writes()] == [
        ("apply", "secrets", "s", ""),
        ("apply", "secrets", "s", "data.a: *** -> ***"),
        ("delete", "secrets", "s", ""),
    ]


def test_writes_of_async_reconcilers_are_attributed(ctrlhost_host) -> None:
    async def write(ctx: Any, request: Request) -> None:
        await ctx.async_client.apply(config_map(f"copy-of-{request.name}"))

    host = ctrlhost_host(reconciling(write))
    host.apply(ANN, config_map("bob", labels={"mine": "1"}))
    host.settle()
    assert {(entry.controller, entry.key, entry.verb, entry.name) for entry in host.writes()} == {
        ("demo/c", "default/ann", "apply", "copy-of-ann"),
        ("demo/c", "default/bob", "apply", "copy-of-bob"),
    }


def test_a_retry_beyond_the_timeout_is_not_awaited(ctrlhost_host) -> None:
    def wait(ctx: Any, request: Request) -> None:
        raise ctrlhost.TooManyRequests("later", retry_after=300)

    host = ctrlhost_host(reconciling(wait))
    host.apply(ANN)
    assert "attempt 1, next try in" in not_settled(host, timeout=60)


def failing_thrice(times: list[float], clock: ManualClock) -> Any:
    """Return a plugin whose runs fail three times, then succeed, and once more after 30 s; `times` gets their times."""

    def reconcile(ctx: Any, request: Request) -> ctrlhost.Result | None:
        times.append(clock.now())
        if len(times) <= 3:
            raise ServerError("not yet")
        return ctrlhost.Result(requeue_after=30) if len(times) == 4 else None

    return reconciling(reconcile)


@behaviour("authoring/AT7")
def test_a_manual_clock_goes_on_to_the_retries(ctrlhost_host, manual_clock: ManualClock) -> None:
    times: list[float] = []
    host = ctrlhost_host(failing_thrice(times, manual_clock), clock=manual_clock)
    host.apply(ANN)
    host.settle(through="20s")
    assert len(times) == 4
    assert 0 < times[1] - times[0] < times[2] - times[1] < times[3] - times[2]
    assert manual_clock.now() == pytest.approx(times[3], abs=1e-5)
    host.advance("30s")
    assert len(times) == 5
    assert manual_clock.now() == pytest.approx(times[3] + 30, abs=1e-5)
    host.settle(through="1h")
    assert manual_clock.now() == pytest.approx(times[3] + 30, abs=1e-5)


@behaviour("authoring/AT7")
def test_one_call_goes_through_retries_and_a_requeue(ctrlhost_host, manual_clock: ManualClock) -> None:
    times: list[float] = []
    host = ctrlhost_host(failing_thrice(times, manual_clock), clock=manual_clock)
    host.apply(ANN)
    host.settle(through="1m")
    assert len(times) == 5
    assert manual_clock.now() == pytest.approx(times[4], abs=1e-5)


@behaviour("authoring/AT7")
def test_advance_lets_a_back_off_pass_and_moves_at_once(ctrlhost_host, manual_clock: ManualClock) -> None:
    def fail(ctx: Any, request: Request) -> None:
        raise ServerError("never")

    host = ctrlhost_host(reconciling(fail), clock=manual_clock)
    host.apply(ANN)
    host.settle(allow=("retrying",))
    host.advance(3)
    assert manual_clock.now() == 3
    assert len(host.runs("c")) == 2
    host.advance(timedelta(seconds=10))
    assert len(host.runs("c")) == 3


@behaviour("authoring/AT7")
def test_a_manual_clock_goes_on_to_the_restarts_of_a_plugin(ctrlhost_host, manual_clock: ManualClock) -> None:
    starts: list[float] = []

    def fail_twice(plugin: ctrlhost.PluginContext) -> None:
        starts.append(manual_clock.now())
        if len(starts) < 3:
            raise OSError("not yet")

    host = ctrlhost_host(plugin_of(fail_twice), clock=manual_clock, supervision={"restart_delay": 10}, start=False)
    host.start()
    for through in (None, "5s"):
        why = not_settled(host, through=through)
        assert "plugin demo is failing: ctrlhost_setup: OSError: not yet" in why
        assert 'hint: `settle(through="1m")` goes on to the retries' in why
    host.settle(through="1m")
    assert len(starts) == 3
    assert manual_clock.now() == pytest.approx(starts[2], abs=1e-5)


def test_a_clock_that_runs_by_itself_cannot_be_moved(ctrlhost_host) -> None:
    host = ctrlhost_host(reconciling(print))
    for move in (lambda: host.settle(through="1m"), lambda: host.advance("1s")):
        with pytest.raises(RuntimeError, match=r"start it with `ctrlhost_host\(…, clock=manual_clock\)`"):
            move()


def test_timers_and_tasks_are_due_times(ctrlhost_host, manual_clock: ManualClock) -> None:
    rounds: list[float] = []
    calls: list[float] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        every = ctrlhost.Every(600, requests=lambda: [Request("all")])
        plugin.add_controller("c", lambda ctx, request: rounds.append(manual_clock.now()), every)
        plugin.add_task("t", lambda stop: calls.append(manual_clock.now()), every=1000)

    host = ctrlhost_host(plugin_of(setup), clock=manual_clock)
    eventually(lambda: calls == [0])
    host.settle(through="35m")
    assert len(rounds) == 3
    assert calls == [0, 1000, 2000]


def test_a_task_that_fails_has_not_settled(ctrlhost_host, manual_clock: ManualClock) -> None:
    calls: list[float] = []

    def work(stop: threading.Event) -> None:
        calls.append(manual_clock.now())
        if len(calls) == 1:
            raise OSError("disk full")

    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_task("t", work, every=60)), clock=manual_clock)
    eventually(lambda: manual_clock.deadlines())
    assert "task demo/t failed, failure 1: OSError: disk full" in not_settled(host)
    host.settle(through="2s")
    assert len(calls) == 2


def test_a_list_that_fails_is_repeated_on_the_way(ctrlhost_host, manual_clock: ManualClock, sandbox) -> None:
    seen: list[str] = []
    plugin = reconciling(lambda ctx, request: seen.append(request.name))
    host = ctrlhost_host(plugin, clock=manual_clock, sandbox=sandbox, start=False)
    for verb in ("watch", "list"):
        host.faults.next(verb, ServerError("not now"), resource="configmaps", times=2)
    host.apply(ANN)
    host.host.start()
    assert re.search(r"informer ConfigMap.*: listing, at version none of \d+: .*not now", not_settled(host, timeout=1))
    host.settle(through="1m")
    assert seen == ["ann"]
