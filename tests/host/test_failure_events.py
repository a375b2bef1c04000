"""The event of an object that keeps failing."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

LIMIT = 60.0

pytestmark = pytest.mark.behaviour("findings3/NO11")


class Failing:
    """A reconciler that fails with the error of the moment."""

    def __init__(self) -> None:
        self.error: Exception | None = ValueError("no size\nof the shop")
        self.runs = 0

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("maps", self.reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))

    def reconcile(self, _ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
        self.runs += 1
        if self.error is not None:
            raise self.error


def notes(host: Any) -> list[str]:
    assert host.host.events.flush(LIMIT)
    events = host.client.list("events.k8s.io/v1", "Event", "default")
    return sorted(
        event["note"]
        for event in events
        if (event["reason"], event["type"], event["regarding"]["name"]) == ("ReconcileFailed", "Warning", "m")
    )


def run_again(host: Any, clock: ManualClock, plugin: Failing, runs: int = 1) -> None:
    """Move the clock until the key has run so many times more."""
    wanted = plugin.runs + runs

    def ran() -> bool:
        if plugin.runs < wanted:
            clock.advance(0.1 * 2 ** min(plugin.runs, 9))
        return plugin.runs >= wanted

    eventually(ran, LIMIT, pause=0.01)


def test_an_object_that_keeps_failing_has_an_event_for_each_cause(sandbox: Any, ctrlhost_host: Any) -> None:
    clock, plugin = ManualClock(), Failing()
    host = ctrlhost_host(plugin_of(plugin.setup, "demo"), sandbox=sandbox, clock=clock)
    host.client.create(config_map("m", labels={"mine": "yes"}))
    eventually(lambda: plugin.runs == 1, LIMIT)
    for _ in range(3):
        run_again(host, clock, plugin)
    assert notes(host) == []
    run_again(host, clock, plugin)
    first = eventually(lambda: notes(host), LIMIT)
    assert len(first) == 1
    assert first[0].startswith("ValueError: no size")
    run_again(host, clock, plugin)
    assert notes(host) == first

    plugin.error = KeyError("spec")
    run_again(host, clock, plugin)
    both = eventually(lambda: (texts := notes(host)) != first and texts, LIMIT)
    assert both == sorted([*first, "KeyError: 'spec'"])

    plugin.error = None
    run_again(host, clock, plugin)
    plugin.error = RuntimeError("once")
    host.client.patch("v1", "ConfigMap", "m", "default", {"data": {"a": "b"}})
    eventually(lambda: host.host.plugins[0].controllers[0].history.retrying == 1, LIMIT)
    assert notes(host) == both


def test_the_same_cause_is_recorded_again_after_ten_minutes() -> None:
    from ctrlhost.controller import context
    from ctrlhost.controller.causes import Causes
    from ctrlhost.controller.failure_events import AGAIN, FAILURES, SECONDS, FailureEvents

    class Run:
        """What an event needs of a run."""

        def __init__(self) -> None:
            self.clock, self.events, self.noted = ManualClock(), self, []

        def get(self, _key: str) -> dict[str, str]:
            return {"kind": "ConfigMap"}

        def warning(self, _obj: Any, reason: str, note: str, *, action: str) -> None:
            self.noted.append((reason, note, action))

    assert (FAILURES, SECONDS, AGAIN) == (5, 300.0, 600.0)
    run, events = Run(), FailureEvents()
    cause = Causes("demo/c").failed("key", "ValueError", "a.py:1", "ValueError: x", "0-1", None, 0.0)
    token = context.current.set(run)
    try:
        for _ in range(2):
            events.failed("key", cause, "ValueError: x")
        assert run.noted == []
        # Five minutes are enough without five failures.
        run.clock.advance(SECONDS)
        events.failed("key", cause, "ValueError: y")
        assert run.noted == [("ReconcileFailed", "ValueError: y", "ValueError at a.py:1")]
        run.clock.advance(AGAIN - 1)
        events.failed("key", cause, "ValueError: z")
        assert len(run.noted) == 1
        run.clock.advance(1)
        events.failed("key", cause, "ValueError: z")
        assert len(run.noted) == 2
    finally:
        context.current.reset(token)
