"""Series and limits of many events."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.events.correlator import BURST, Correlator
from ctrlhost.testing import ManualClock


def event(reason: str = "Synced", name: str = "web", note: str = "", **more: Any) -> dict[str, Any]:
    return {
        "type": "Normal",
        "action": "Sync",
        "reason": reason,
        "note": note,
        "reportingController": "demo",
        "reportingInstance": "demo-host",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": "1"},
        **more,
    }


class Observer:
    """A correlator with its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.correlator = Correlator(self.clock)

    def observe(self, body: dict[str, Any]) -> tuple[str, int] | None:
        write = self.correlator.observe(body, self.clock.time())
        if write is None:
            return None
        return ("patch" if "series" in write else "create"), write.get("series", {}).get("count", 1)

    def upkeep(self) -> list[int]:
        return [event["series"]["count"] for event, _ in self.correlator.upkeep(self.clock.time())]


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.mark.behaviour("informers/EV8")
def test_a_repeated_event_starts_a_series_and_a_different_one_does_not(observer: Observer) -> None:
    assert observer.observe(event()) == ("create", 1)
    assert observer.observe(event()) == ("patch", 2)
    assert observer.observe(event()) is None
    assert observer.observe(event(reason="Other")) == ("create", 1)


@pytest.mark.behaviour("informers/EV1")
def test_events_are_distinguished_by_reason_and_not_by_message(observer: Observer) -> None:
    assert observer.observe(event(note="one")) == ("create", 1)
    assert observer.observe(event(note="two")) == ("patch", 2)
    assert observer.observe(event(reason="Failed", note="two")) == ("create", 1)
    assert observer.observe(event(name="other", note="two")) == ("create", 1)
    assert observer.observe(event(related={"kind": "Node", "name": "a"})) == ("create", 1)


def test_events_are_not_distinguished_by_the_version_of_the_object(observer: Observer) -> None:
    first, second = event(), event()
    first["regarding"]["resourceVersion"], second["regarding"]["resourceVersion"] = "5", "6"
    assert observer.observe(first) == ("create", 1)
    assert observer.observe(second) == ("patch", 2)


@pytest.mark.behaviour("informers/EV9")
def test_an_idle_series_is_written_with_its_final_count_and_forgotten(observer: Observer) -> None:
    for _ in range(5):
        observer.observe(event())
    observer.clock.advance(361)
    assert observer.upkeep() == [5]
    assert observer.upkeep() == []
    assert observer.observe(event()) == ("create", 1)


@pytest.mark.behaviour("informers/EV9")
def test_a_live_series_is_written_again_every_half_hour(observer: Observer) -> None:
    observer.observe(event())
    counts = []
    for _ in range(7):
        observer.observe(event())
        observer.clock.advance(300)
        counts += observer.upkeep()
    # The series was written at its second event; half an hour later it had seven.
    assert counts == [7]
    assert observer.upkeep() == []


def test_a_single_event_is_forgotten_without_another_write(observer: Observer) -> None:
    observer.observe(event())
    observer.clock.advance(361)
    assert observer.upkeep() == []
    assert observer.observe(event()) == ("create", 1)


@pytest.mark.behaviour("informers/EV3")
def test_events_of_an_object_over_its_limit_are_dropped_until_time_has_passed(observer: Observer) -> None:
    written = [observer.observe(event(reason=f"Reason{number}")) for number in range(BURST + 3)]
    assert written[:BURST] == [("create", 1)] * BURST
    assert written[BURST:] == [None] * 3
    # The limit is one of source and object: there is no key with the reason that could let the next one pass.
    # An event with another message and the same reason is not a different event, and would need a write too.
    assert observer.observe(event(reason="Reason0", note="something else")) is None
    assert observer.correlator.dropped == 4
    # Another object of the same source has its own limit.
    assert observer.observe(event(name="other")) == ("create", 1)
    observer.clock.advance(300)
    assert observer.observe(event(reason="Later")) == ("create", 1)
    assert observer.observe(event(reason="LaterStill")) is None


def test_unwritten_counts_are_returned_at_the_end(observer: Observer) -> None:
    for _ in range(4):
        observer.observe(event())
    observer.observe(event(reason="Other"))
    assert [event["series"]["count"] for event, _ in observer.correlator.unwritten()] == [4]
    assert observer.correlator.unwritten() == []
