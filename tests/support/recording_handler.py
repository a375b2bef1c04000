"""Handlers that record their events, for tests of informers."""

from __future__ import annotations

from ctrlhost.testing import ManualClock
from tests.support.stub_api_server import Json, pod, pod_list
from tests.support.waiting import eventually


class RecordingHandler:
    """A handler that records its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.initial: list[str] = []

    def on_add(self, obj, initial):
        self.events.append(("add", obj.name))
        if initial:
            self.initial.append(obj.name)

    def on_update(self, old, new):
        self.events.append(("update", new.name))

    def on_delete(self, obj):
        self.events.append(("delete", obj.name))

    def to(self, pods, **options):
        return pods.add_handler(self.on_add, self.on_update, self.on_delete, **options)


def names(handler: RecordingHandler) -> list[str]:
    return sorted(name for _, name in handler.events)


TWO = [Json(pod_list(2, pod("pod1", 1), pod("pod2", 2)))]


def step(clock: ManualClock, seconds: float) -> None:
    """Advance the clock once its one sleeper, the resync thread, sleeps."""
    eventually(lambda: clock.waiters() >= 1)
    clock.advance(seconds)
