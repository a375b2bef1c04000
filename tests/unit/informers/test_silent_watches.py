"""Watches that send nothing after the API server has returned are opened again where they ended."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import Informer, InformerFactory, ReflectorOptions
from ctrlhost.informers.silent_watches import PATIENCE, SPREAD, SilentWatches
from ctrlhost.testing import ManualClock
from tests.support.informer_rig import QUICK, synced
from tests.support.stub_api_server import Frames, Json, StubApiServer, bookmark, pod, pod_list, serve
from tests.support.waiting import eventually

NAMESPACES = ("a", "b", "c")


def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


class Moments(random.Random):
    """Moments at the given parts of the time over which watches are spread."""

    def __init__(self, *parts: float) -> None:
        super().__init__()
        self._parts = itertools.cycle(parts)

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * next(self._parts)


class Three:
    """Three watches, each of one namespace."""

    def __init__(self, server: StubApiServer, clock: ManualClock) -> None:
        self.clock, self.server = clock, server
        self.factory = InformerFactory(
            Client(server.url), clock=clock, options=ReflectorOptions(watch_list=False, backoff=QUICK)
        )
        self.streams = {name: Frames() for name in NAMESPACES}
        for name, stream in self.streams.items():
            serve(server, path(name), [Json(pod_list(5, pod(name, 5)))], [stream, Frames()])
        self.informer: Informer = self.factory.informer("v1", "Pod", namespaces=NAMESPACES)
        synced(self.factory)
        eventually(lambda: self.informer.state == "watching")
        self.up = True
        self.watches = SilentWatches(self.factory.informers, clock, lambda: self.up, Moments(0.2, 0.9))

    def opened(self) -> dict[str, int]:
        """Return how many watches each namespace has had."""
        watches = self.server.received(watch=True)
        return {name: sum(watch.path == path(name) for watch in watches) for name in NAMESPACES}

    def asleep(self) -> None:
        """Wait until the thread waits."""
        eventually(lambda: self.clock.waiters() == 1)


@pytest.fixture
def three(server: StubApiServer, manual_clock: ManualClock) -> Iterator[Three]:
    watchers = Three(server, manual_clock)
    yield watchers
    watchers.watches.stop()
    watchers.factory.stop()


@pytest.mark.behaviour("operations/OP126")
def test_those_that_stay_silent_are_reopened_one_after_another_without_a_list(three: Three) -> None:
    three.clock.advance(1.0)
    three.watches.returned()
    three.asleep()
    three.clock.advance(1.0)
    three.streams["b"].send_event(bookmark(6))
    eventually(lambda: three.informer.status().last_bookmark_age == 0.0)
    three.clock.advance(PATIENCE - 1.0)
    three.asleep()
    assert three.opened() == {"a": 1, "b": 1, "c": 1}
    three.clock.advance(SPREAD * 0.2)
    eventually(lambda: sum(three.opened().values()) == 4)
    three.asleep()
    three.clock.advance(SPREAD * 0.7)
    eventually(lambda: three.opened() == {"a": 2, "b": 1, "c": 2})
    eventually(lambda: three.clock.waiters() == 0)
    again = three.server.received(watch=True)[3:]
    assert {line.query["resourceVersion"] for line in again} == {"5"}
    # Each that was closed asked first whether the server was restored.
    limits = [line.query.get("limit") for line in three.server.received(watch=False)]
    assert limits == ["500"] * len(NAMESPACES) + ["1"] * 2


def test_none_is_closed_while_the_server_is_unreachable_again(three: Three) -> None:
    three.clock.advance(1.0)
    three.watches.returned()
    three.asleep()
    three.up = False
    three.clock.advance(PATIENCE)
    three.asleep()
    three.clock.advance(SPREAD)
    eventually(lambda: three.clock.waiters() == 0)
    assert three.opened() == {"a": 1, "b": 1, "c": 1}


def test_a_return_after_the_stop_starts_nothing(three: Three) -> None:
    before = set(threading.enumerate())
    three.watches.stop()
    three.watches.returned()
    assert [thread.name for thread in set(threading.enumerate()) - before] == []


def test_another_return_begins_anew(three: Three) -> None:
    three.clock.advance(1.0)
    three.watches.returned()
    three.asleep()
    three.clock.advance(PATIENCE - 1.0)
    three.watches.returned()
    three.asleep()
    three.clock.advance(1.0)
    three.asleep()
    assert three.opened() == {"a": 1, "b": 1, "c": 1}


def test_a_watch_that_was_opened_since_is_left_alone(three: Three) -> None:
    three.clock.advance(1.0)
    three.watches.returned()
    three.asleep()
    three.clock.advance(1.0)
    three.streams["a"].end()
    eventually(lambda: three.opened()["a"] == 2)
    eventually(lambda: three.informer.state == "watching")
    three.clock.advance(PATIENCE - 1.0)
    three.asleep()
    for _ in range(2):
        three.clock.advance(SPREAD / 2)
    eventually(lambda: three.opened() == {"a": 2, "b": 2, "c": 2})
