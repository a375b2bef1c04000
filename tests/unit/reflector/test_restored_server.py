"""Servers that were restored to an earlier state: their versions go back."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ctrlhost.testing import ManualClock
from tests.support.stub_api_server import Failure, Frames, Json, bookmark, error_event, event, pod, pod_list
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
FIRST = Json(pod_list(900, pod("a", 300), pod("made", 900)))
#: The list of one object by which a reflector sees the version of a server, and the whole list.
RESTORED = [Json(pod_list(500, pod("a", 200), continue_="more")), Json(pod_list(500, pod("a", 200), pod("gone", 100)))]
TOO_LARGE = Failure(504, "Timeout", "Too large resource version: 900, current: 500")


@pytest.fixture
def rig_with(rig_with: Any) -> Any:
    return functools.partial(rig_with, restorable=True)


def broken() -> Frames:
    return Frames(event("MODIFIED", pod("a", 901))).cut()


def ended_early() -> Frames:
    return Frames(event("MODIFIED", pod("a", 901))).end()


def with_bookmark() -> Frames:
    return Frames(event("MODIFIED", pod("a", 901)), bookmark(499))


def with_error() -> Frames:
    return Frames(error_event(410, "Expired"))


@behaviour("findings3/NC9")
@pytest.mark.parametrize(
    ("first", "lists"),
    [(broken, RESTORED), (ended_early, RESTORED), (with_bookmark, RESTORED), (with_error, [TOO_LARGE, RESTORED[1]])],
)
def test_a_restored_server_is_noticed_without_a_wait(
    rig_with: Any, caplog: pytest.LogCaptureFixture, first: Any, lists: Any
) -> None:
    rig = rig_with()
    rig.serve([FIRST, *lists], [first(), Frames(), Frames()]).start()
    rig.holds(a=200, gone=100)
    eventually(lambda: rig.status.restores == 1)
    assert rig.pods.restores == 1
    assert rig.pods.last_resource_version == "500"
    (line,) = eventually(lambda: [text for text in caplog.messages if "as after a restore" in text])
    assert line.startswith("pods: the server went back from version 90")
    eventually(lambda: len(rig.watches) == 2)
    assert rig.watches[-1].query["resourceVersion"] == "500"
    registry = CollectorRegistry()
    registry.register(rig.factory.metrics)
    assert "ctrlhost_informer_restores_total{" in generate_latest(registry).decode()


@behaviour("findings3/NC9")
def test_a_server_that_was_not_restored_is_asked_once_per_broken_watch(rig_with: Any) -> None:
    rig = rig_with()
    same = Json(pod_list(950, pod("a", 300), continue_="more"))
    frames = Frames()
    rig.serve(
        [FIRST, same, Failure(403, "Forbidden"), same],
        [broken(), Frames(event("MODIFIED", pod("a", 902))).cut(), frames],
    ).start()
    eventually(lambda: len(rig.watches) == 3)
    rig.holds(a=902, made=900)
    # A bookmark of an older version, as of a server behind a balancer that lags.
    frames.send_event(bookmark(800))
    eventually(lambda: len(rig.lists) == 4)
    frames.send_event(event("ADDED", pod("b", 960)))
    rig.holds(a=902, made=900, b=960)
    assert [request.query.get("limit") for request in rig.lists] == ["500", "1", "1", "1"]
    assert (len(rig.watches), rig.status.restores) == (3, 0)


@behaviour("findings3/NC9")
def test_a_watch_that_ended_in_time_is_opened_again_without_a_question(rig_with: Any) -> None:
    clock = ManualClock()
    rig = rig_with(clock=clock)
    frames = Frames(event("MODIFIED", pod("a", 901)))
    rig.serve([FIRST], [frames, Frames()]).start()
    rig.holds(a=901, made=900)
    clock.advance(300)
    frames.end()
    eventually(lambda: len(rig.watches) == 2)
    assert len(rig.lists) == 1
