"""Paused controllers: nothing begins, events are queued and merged, the rest goes on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ctrlhost import Request
from ctrlhost.config.settings import ControllerOverrides
from tests.support.controllers import DB, WEB, Bench, Script, idle
from tests.support.waiting import eventually


def asynchronous(reconcile: Any) -> Any:
    async def run(ctx: Any, request: Any) -> Any:
        return reconcile(ctx, request)

    return run


@pytest.mark.parametrize("convert", [lambda run: run, asynchronous], ids=["thread", "task"])
def test_a_paused_controller_begins_nothing_and_merges_events(bench: Bench, convert: Any) -> None:
    reconcile = Script()
    controller, other = bench.controller(convert(reconcile)), Script()
    beside = bench.plugin("beside").add_controller("c", other)
    (running,) = bench._plugins[-1].controllers
    running.attach()
    running.start_workers()
    controller.queue.add(WEB)
    eventually(lambda: reconcile.calls == [WEB] and idle(controller))
    controller.pause()
    controller.pause()
    assert controller.paused
    assert controller.status().paused
    assert not controller.working
    assert controller.leading, "a pause is no loss of leadership"
    for _ in range(100):
        controller.queue.add(WEB)
        controller.queue.add(DB, priority=1)
    beside.enqueue(WEB)
    eventually(lambda: other.calls == [WEB])
    # A worker that waited for a key when the pause began has put it back.
    eventually(lambda: len(controller.queue) == 2)
    assert reconcile.calls == [WEB]
    assert controller.busy() is None
    controller.resume()
    controller.resume()
    eventually(lambda: sorted(reconcile.calls[1:]) == [DB, WEB] and idle(controller))
    assert not controller.status().paused
    assert controller.queue.num_requeues(WEB) == 0


def test_a_run_that_has_begun_ends_during_a_pause(bench: Bench) -> None:
    begun, gate, ended = threading.Event(), threading.Event(), []

    def reconcile(ctx: Any, request: Request) -> None:
        begun.set()
        assert gate.wait(30)
        ended.append(request)

    controller = bench.controller(reconcile)
    controller.queue.add_many([WEB, DB])
    assert begun.wait(30)
    controller.pause()
    gate.set()
    eventually(lambda: ended == [WEB] and controller.status().active == 0)
    eventually(lambda: len(controller.queue) == 1)
    assert ended == [WEB]
    controller.resume()
    eventually(lambda: ended == [WEB, DB])


def test_a_paused_controller_is_drained_without_its_keys(bench: Bench) -> None:
    reconcile = Script()
    bench.overrides["demo/pods"] = ControllerOverrides(paused=True)
    controller = bench.controller(reconcile)
    controller.queue.add_many([WEB, DB])
    assert controller.paused
    assert controller.drain(30)
    assert not controller.has_threads
    assert reconcile.calls == []
