"""Events that are recorded only once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.declarative.events import OnceMemory, record
from ctrlhost.events.recorder import reference


class Recorded:
    """Events instead of a recorder's."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.about: list[Any] = []

    def normal(self, obj: Any, reason: str, message: str, *, action: str | None) -> None:
        self.about.append(obj)
        self.events.append(("Normal", obj["metadata"]["name"], reason, message, action))

    def warning(self, obj: Any, reason: str, message: str, *, action: str | None) -> None:
        self.events.append(("Warning", obj["metadata"]["name"], reason, message, action))


def obj(uid: str = "u1", generation: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": "a", "uid": uid, "generation": generation}}


def test_once_counts_for_uid_generation_reason_and_message() -> None:
    memory = OnceMemory()
    assert [memory.first(*event) for event in [("u1", 1, "R", "m")] * 2] == [True, False]
    assert memory.first("u2", 1, "R", "m")
    assert memory.first("u1", 1, "Other", "m")
    assert memory.first("u1", 1, "R", "other")
    assert memory.first("u1", 2, "R", "m")
    assert not memory.first("u1", 2, "R", "m")


@pytest.mark.parametrize(
    ("reason", "message", "what"),
    [("R", None, "message"), ("R", ValueError("x"), "message"), (None, "m", "reason"), (3, "m", "reason")],
)
def test_a_reason_or_message_that_is_no_text_is_an_error_at_the_call(reason: Any, message: Any, what: str) -> None:
    events: Any = Recorded()
    with pytest.raises(TypeError, match=f"the {what} of an event is a text, got"):
        record(events, obj(), reason, message, once=OnceMemory())
    assert events.events == []


def test_the_memory_is_bounded_to_the_latest_events() -> None:
    memory = OnceMemory(events=2)
    for message in ("m1", "m2", "m1", "m3"):
        memory.first("u1", 1, "R", message)
    assert not memory.first("u1", 1, "R", "m1")
    assert memory.first("u1", 1, "R", "m2")


@pytest.mark.behaviour("authoring/AS10")
def test_once_holds_in_each_round_over_many_objects() -> None:
    memory = OnceMemory()
    assert [sum(memory.first(f"u{index}", 1, "R", "m") for index in range(5000)) for _ in range(3)] == [5000, 0, 0]


@pytest.mark.behaviour("authoring/AS10")
@pytest.mark.parametrize("differs", ["apiVersion", "kind", "namespace", "name"])
def test_objects_without_a_uid_differ_by_kind_and_full_name(differs: str) -> None:
    events, memory = Recorded(), OnceMemory()
    for value in ("a", "b", "b"):
        parts = {"apiVersion": "v1", "kind": "Node", "namespace": "x", "name": "n", differs: value}
        metadata = {"namespace": parts.pop("namespace"), "name": parts.pop("name")}
        record(events, {**parts, "metadata": metadata}, "R", "m", once=memory)  # type: ignore[arg-type]
    assert len(events.events) == 2


def test_an_event_without_once_is_always_recorded() -> None:
    events, memory = Recorded(), OnceMemory()
    for _ in range(2):
        record(events, obj(), "R", "m", warning=True, action="A")  # type: ignore[arg-type]
        record(events, obj(), "R", "m", once=memory)  # type: ignore[arg-type]
    loud, quiet = ("Warning", "a", "R", "m", "A"), ("Normal", "a", "R", "m", None)
    assert events.events == [loud, quiet, loud]


class Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""


@ctrlhost.resource("v1/Pod")
class Pod(msgspec.Struct):
    """Only what is read of a pod: neither apiVersion nor kind."""

    metadata: Metadata


def test_an_event_may_be_about_a_model() -> None:
    events, memory = Recorded(), OnceMemory()
    for uid in ("u1", "u1", "u2"):
        record(events, Pod(Metadata("web", uid)), "R", "m", once=memory)  # type: ignore[arg-type]
    assert events.events == [("Normal", "web", "R", "m", None)] * 2
    assert reference(events.about[0]) == {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}


@ctrlhost.resource("v1/Node")
class Bare(msgspec.Struct):
    """A struct without metadata."""


@pytest.mark.parametrize("about", ["web", Bare()])
def test_an_event_about_something_else_is_a_type_error(about: Any) -> None:
    with pytest.raises(TypeError, match=f"object with metadata, not a {type(about).__name__}"):
        record(Recorded(), about, "R", "m")  # type: ignore[arg-type]
