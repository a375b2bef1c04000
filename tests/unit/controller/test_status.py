"""The status of a run as one merge patch, without a host."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.cache import Object
from ctrlhost.controller.status import StatusWriter
from ctrlhost.controller.status_shape import StatusShape
from ctrlhost.errors import PluginError
from ctrlhost.testing import ManualClock

NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Written:
    """An object with a status, and a writer for it."""

    def __init__(self, clock: ManualClock, **shape: Any) -> None:
        self.clock = clock
        self.shape = StatusShape("demo", "Memcached", **shape)

    def over(self, status: Any = None, generation: int | None = 3) -> StatusWriter:
        metadata = {"name": "a", "resourceVersion": "17", "uid": "u1", "generation": generation}
        obj = {"apiVersion": "example.com/v1", "kind": "Memcached", "metadata": metadata, "status": status}
        return StatusWriter(self.shape, Object(obj), self.clock)


@pytest.fixture
def untyped(clock: ManualClock) -> Written:
    return Written(clock)


def patch_of(writer: StatusWriter) -> dict[str, Any] | None:
    """Return the patch of an object that nobody has changed since it was read."""
    return writer.patch(writer._read)


def condition(type_: str = "Ready", status: str = "True", **more: Any) -> dict[str, Any]:
    wanted = {"type": type_, "status": status, "reason": "Because", "message": "", "observedGeneration": 3}
    return {**wanted, "lastTransitionTime": NOW, **more}


def test_an_unused_writer_writes_nothing(clock: ManualClock) -> None:
    writer = Written(clock, observed_generation=True).over({"a": 1})
    assert writer.written == {}
    assert patch_of(writer) is None


def test_only_fields_that_differ_are_written(untyped: Written) -> None:
    writer = untyped.over({"same": 1, "other": 2, "deep": {"a": 1, "b": 2}, "gone": 1})
    writer.set(same=1, new="x", deep={"a": 1}, gone=None)
    assert writer.written == {"new": "x", "deep": {"b": None}, "gone": None}
    assert patch_of(writer) == {"status": writer.written}


def test_a_patch_with_a_list_carries_the_version(untyped: Written) -> None:
    writer = untyped.over({})
    writer.set(nodes=["a"])
    assert patch_of(writer) == {"metadata": {"resourceVersion": "17"}, "status": {"nodes": ["a"]}}


def test_the_last_value_of_a_field_counts(untyped: Written) -> None:
    writer = untyped.over({"a": 1})
    writer.set(a=2)
    writer.set(a=1)
    assert patch_of(writer) is None


@pytest.mark.parametrize("status", [None, "text", []])
def test_a_missing_or_invalid_status_counts_as_empty(untyped: Written, status: Any) -> None:
    writer = untyped.over(status)
    writer.set(a=1)
    assert patch_of(writer) == {"status": {"a": 1}}


@pytest.mark.parametrize("conditions", [None, "text", {"Ready": True}, ["text", None]])
def test_invalid_conditions_count_as_missing(untyped: Written, conditions: Any) -> None:
    writer = untyped.over({"conditions": conditions})
    writer.condition("Ready", True, "Because")
    writer.remove_condition("Other")
    assert writer.written == {"conditions": [condition()]}


def test_an_unknown_field_of_a_model_is_an_error_with_the_nearest_name(clock: ManualClock) -> None:
    writer = Written(clock, fields={"readyReplicas": "readyReplicas", "from_": "from"}).over()
    with pytest.raises(TypeError, match=r"status of Memcached has no field `readyReplica`; did you mean `readyRepl"):
        writer.set(readyReplica=1)
    with pytest.raises(TypeError, match="known: from_, readyReplicas"):
        writer.set(x=1)
    writer.set(from_="there")
    assert writer.written == {"from": "there"}


def test_conditions_are_not_set_as_a_field(untyped: Written) -> None:
    with pytest.raises(TypeError, match=r"ctx\.status\.condition"):
        untyped.over().set(conditions=[])


@pytest.mark.parametrize(
    ("generation", "written"), [(3, {"a": 1, "observedGeneration": 3}), (None, {"a": 1})], ids=["some", "none"]
)
def test_observed_generation_is_that_of_the_read_object(
    clock: ManualClock, generation: int | None, written: dict[str, Any]
) -> None:
    writer = Written(clock, observed_generation=True).over({}, generation)
    writer.set(a=1)
    assert writer.written == written


@pytest.mark.parametrize(
    ("generation", "written"), [(2, {"observedGeneration": 2}), (None, {"observedGeneration": None})]
)
def test_an_observed_generation_that_is_given_counts(
    clock: ManualClock, generation: Any, written: dict[str, Any]
) -> None:
    writer = Written(clock, observed_generation=True).over({"observedGeneration": 1})
    writer.set(observedGeneration=generation)
    assert writer.written == written


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False"), (None, "Unknown"), ("True", "True")])
def test_a_new_condition_goes_to_the_end(untyped: Written, status: Any, word: str) -> None:
    theirs = condition("Theirs", extra="kept")
    writer = untyped.over({"conditions": [theirs]})
    writer.condition("Ready", status, "Because", "so")
    assert writer.written == {"conditions": [theirs, condition(status=word, message="so")]}


def test_the_transition_time_changes_only_with_the_status(untyped: Written, clock: ManualClock) -> None:
    clock.advance(61.9)
    for status, moment in ((True, NOW), (False, "2026-01-01T00:01:01Z")):
        writer = untyped.over({"conditions": [condition(), condition("Theirs")]})
        writer.condition("Ready", status, "Because", "other")
        wanted = condition(status=str(status), message="other", lastTransitionTime=moment)
        assert writer.written == {"conditions": [wanted, condition("Theirs")]}


def test_going_there_and_back_in_one_run_is_no_transition(untyped: Written, clock: ManualClock) -> None:
    clock.advance(60)
    writer = untyped.over({"conditions": [condition()]})
    writer.condition("Ready", False, "Because")
    writer.condition("Ready", True, "Because")
    assert patch_of(writer) is None


def test_a_new_generation_is_written_to_an_equal_condition(untyped: Written) -> None:
    writer = untyped.over({"conditions": [condition()]}, generation=4)
    writer.condition("Ready", True, "Because")
    assert writer.written == {"conditions": [condition(observedGeneration=4)]}


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (60, "1970-01-01T00:01:00Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:00:00Z"),
    ],
)
def test_the_moment_of_a_transition_may_be_given(untyped: Written, moment: datetime | float, text: str) -> None:
    writer = untyped.over({"conditions": [condition("Old")]})
    writer.condition("Old", True, "Because", transition=moment)
    writer.condition("New", True, "Because", transition=moment)
    assert writer.written["conditions"] == [condition("Old"), condition("New", lastTransitionTime=text)]


def test_a_given_moment_counts_within_the_second_of_the_last_transition_too(untyped: Written) -> None:
    writer = untyped.over({"conditions": [condition(), condition("Same")]})
    writer.condition("Ready", False, "Because", transition=60)
    writer.condition("Same", True, "Other", transition=60)
    ready, same = writer.written["conditions"]
    assert (ready["lastTransitionTime"], same["lastTransitionTime"]) == ("1970-01-01T00:01:00Z", NOW)


@pytest.mark.parametrize(("moment", "error"), [(datetime(2026, 1, 1), ValueError), ("now", TypeError)])  # noqa: DTZ001
def test_an_invalid_moment_is_an_error_at_the_call(untyped: Written, moment: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="transition"):
        untyped.over().condition("Ready", True, "Because", transition=moment)


def test_a_condition_is_removed(untyped: Written) -> None:
    writer = untyped.over({"conditions": [condition(), condition("Theirs")]})
    writer.remove_condition("Ready")
    writer.remove_condition("Missing")
    assert writer.written == {"conditions": [condition("Theirs")]}
    writer.condition("Ready", True, "Because")
    assert patch_of(writer) is None


def test_removing_what_is_missing_writes_nothing(untyped: Written) -> None:
    writer = untyped.over({})
    writer.remove_condition("Ready")
    assert patch_of(writer) is None


@pytest.mark.behaviour("authoring/AS9")
@pytest.mark.parametrize("reason", ["not ok", "", "1st", "Ends:", "a" * 1025, "Newline\n", "ü"])
def test_an_invalid_reason_is_an_error_at_the_call(untyped: Written, reason: str) -> None:
    writer = untyped.over()
    with pytest.raises(ValueError, match=r"invalid reason .* of the condition Ready: it must be one word"):
        writer.condition("Ready", True, reason)
    assert patch_of(writer) is None


@pytest.mark.behaviour("authoring/AS9")
def test_reasons_and_messages_of_full_length_are_kept_and_longer_messages_cut(untyped: Written) -> None:
    writer = untyped.over()
    writer.condition("Ready", True, "a" * 1024, "ü" * 32768)
    writer.condition("Long", True, "A_b,c:d", "ü" * 40000)
    kept, cut = writer.written["conditions"]
    assert kept["message"] == "ü" * 32768
    assert cut["message"] == "ü" * 32767 + "…"


def test_a_message_that_is_no_utf_8_is_written_with_question_marks(untyped: Written) -> None:
    writer = untyped.over()
    writer.condition("Ready", False, "Because", "no file a\udcff")
    assert writer.written["conditions"][0]["message"] == "no file a?"


@pytest.mark.parametrize(
    ("type_", "status"), [("", True), ("A b", True), ("-A", True), ("a" * 317, True), ("A", "yes")]
)
def test_an_invalid_type_or_status_is_an_error_at_the_call(untyped: Written, type_: str, status: str) -> None:
    with pytest.raises(ValueError, match="condition"):
        untyped.over().condition(type_, status, "Because")


def test_a_condition_of_a_status_without_conditions_is_an_error_at_the_call(clock: ManualClock) -> None:
    writer = Written(clock, conditions=False).over()
    with pytest.raises(PluginError, match="the status of Memcached has no field `conditions`") as raised:
        writer.condition("Ready", True, "Because")
    assert "make it a `ctrlhost.ModelStatus`" in (raised.value.hint or "")
    assert patch_of(writer) is None


@pytest.mark.parametrize("type_", ["A", "a" * 316, "example.com/A_b.c-1"])
def test_what_the_api_takes_as_a_type_is_taken(untyped: Written, type_: str) -> None:
    writer = untyped.over()
    writer.condition(type_, True, "Because")
    assert writer.written["conditions"][0]["type"] == type_


@pytest.mark.parametrize("place", [0, 1, 2], ids=["type", "reason", "message"])
@pytest.mark.parametrize("value", [None, 3, ValueError("x")])
def test_other_types_in_a_condition_are_an_error_at_the_call(untyped: Written, place: int, value: Any) -> None:
    arguments: list[Any] = ["Ready", "Because", "so"]
    arguments[place] = value
    type_, reason, message = arguments
    writer = untyped.over()
    with pytest.raises(TypeError, match=f"the {('type', 'reason', 'message')[place]} of a condition is a text, got"):
        writer.condition(type_, True, reason, message)
    assert patch_of(writer) is None


@pytest.mark.parametrize("use", ["set", "condition", "remove_condition"])
@pytest.mark.parametrize(
    ("shape", "problem", "hint"),
    [
        ({"subresource": False}, "Memcached has no status subresource", "subresources: {status: {}}"),
        ({"cached": False}, "the cached objects of Memcached have no status", 'add "status" to `reads`'),
    ],
)
def test_a_status_that_cannot_be_written_is_an_error_at_first_use(
    clock: ManualClock, shape: dict[str, Any], problem: str, hint: str, use: str
) -> None:
    writer = Written(clock, **shape).over()
    arguments = {"set": (), "condition": ("Ready", True, "Because"), "remove_condition": ("Ready",)}[use]
    with pytest.raises(PluginError, match=problem) as raised:
        getattr(writer, use)(*arguments)
    assert raised.value.plugin == "demo"
    assert hint in (raised.value.hint or "")


class OfStruct(ctrlhost.ModelStatus):
    """A status with a field of another name in objects."""

    ready: int = 0
    from_: str | None = msgspec.field(default=None, name="from")
    kept: str | msgspec.UnsetType = msgspec.UNSET


@pytest.mark.behaviour("findings3/NA11")
@pytest.mark.parametrize("fields", [None, {"ready": "ready", "from_": "from", "kept": "kept"}], ids=["bare", "model"])
def test_a_struct_sets_all_of_its_fields_but_conditions(clock: ManualClock, fields: dict[str, str] | None) -> None:
    before = {"ready": 3, "from": "there", "kept": "x", "observedGeneration": 3, "conditions": [condition()]}
    writer = Written(clock, fields=fields, observed_generation=True).over(before)
    writer.set(OfStruct(ready=3, from_="there"))
    assert patch_of(writer) is None
    writer.set(OfStruct())
    assert writer.written == {"ready": 0, "from": None}
    writer.set(OfStruct(), ready=2)
    assert writer.written == {"ready": 2, "from": None}


@pytest.mark.behaviour("findings3/NA11")
def test_only_a_struct_of_the_status_is_set(clock: ManualClock) -> None:
    writer = Written(clock, fields={"ready": "ready"}).over({})
    with pytest.raises(TypeError, match="has no field `from_`"):
        writer.set(OfStruct())
    with pytest.raises(TypeError, match=r"takes a struct of the status, or fields by their names, got \{'ready': 1\}"):
        writer.set({"ready": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sets conditions one by one"):
        writer.set(ctrlhost.ModelStatus(conditions=[ctrlhost.Condition(type="Ready", status="True")]))
