"""Structs of whole objects."""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.cache import Object
from ctrlhost.models.model import decode, to_dict


class Spec(msgspec.Struct, frozen=True):
    size: int = 1
    image: str | None = None
    ports: list[int] = []
    limits: dict[str, int] = {}
    grace: int | msgspec.UnsetType = msgspec.UNSET


class Status(ctrlhost.ModelStatus):
    ready: int = 0


@ctrlhost.resource("example.com/v1")
class Thing(ctrlhost.Model[Spec, Status]):
    """A thing."""


@ctrlhost.resource("v1/Pod")
class Pod(msgspec.Struct):
    metadata: ctrlhost.ObjectMeta
    spec: dict[str, Any]


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Mode(enum.Enum):
    FAST = "fast"


class Checked(msgspec.Struct):
    cpu: int

    def __post_init__(self) -> None:
        raise ValueError("CPU is too low")


@ctrlhost.resource("v1/Node")
class Node(msgspec.Struct):
    spec: Checked


def stored(**fields: Any) -> Object:
    return Object({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}, **fields})


def test_a_model_is_decoded_with_its_metadata_and_conditions() -> None:
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "n",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    thing = decode(
        stored(
            metadata={
                "name": "a",
                "namespace": "default",
                "uid": "u-1",
                "resourceVersion": "5",
                "generation": 2,
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "labels": {"app": "x"},
                "managedFields": [{"manager": "other"}],
                "ownerReferences": [owner],
            },
            status={
                "ready": 1,
                "observedGeneration": 2,
                "unknown": {},
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-02T03:04:05Z"},
                    {"type": "Degraded", "status": "False"},
                ],
            },
        ),
        Thing,
    )
    assert (thing.metadata.name, thing.metadata.labels, thing.metadata.generation) == ("a", {"app": "x"}, 2)
    assert thing.metadata.creationTimestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert thing.metadata.deletionTimestamp is None
    assert thing.metadata.ownerReferences[0].uid == "u"
    assert thing.status is not None
    assert (thing.status.ready, thing.status.observedGeneration) == (1, 2)
    assert [thing.status.is_true(kind) for kind in ("Ready", "Degraded", "Other")] == [True, False, False]
    condition = thing.status.condition("Ready")
    assert condition is not None
    assert condition.lastTransitionTime == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert thing.status.condition("Other") is None


def test_models_and_their_subclasses_are_frozen() -> None:
    thing = decode(stored(status={}), Thing)
    assert thing.status is not None
    for struct, field in ((thing, "kind"), (thing.metadata, "name"), (thing.status, "ready")):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(struct, field, "x")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"spec": {"size": "3"}}, "spec.size: expected int, got str"),
        ({"spec": {"ports": [1, None]}}, "spec.ports[1]: expected int, got null"),
        ({"spec": {"limits": {"cpu": "x"}}}, "spec.limits[...]: expected int, got str"),
        ({"spec": None}, "spec: expected object, got null"),
        ({"status": {"conditions": [{"type": "Ready"}]}}, "status.conditions[0].status: required, but missing"),
    ],
)
def test_an_object_that_does_not_fit_is_refused_with_the_path(fields, message) -> None:
    with pytest.raises(ctrlhost.InvalidObject) as raised:
        decode(stored(**fields), Thing)
    assert raised.value.problem == message
    assert str(raised.value) == f"Thing a: {message}"
    # A run that only reads the object is to be retried.
    assert not isinstance(raised.value, ctrlhost.TerminalError)


def test_the_words_of_a_struct_of_its_own_stay() -> None:
    with pytest.raises(ctrlhost.InvalidObject, match=r"^Node a: spec: CPU is too low$"):
        decode(Object({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"cpu": 1}}), Node)


def test_a_missing_field_at_the_top_is_named() -> None:
    with pytest.raises(ctrlhost.InvalidObject, match=r"^Pod a: spec: required, but missing$"):
        decode(Object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}), Pod)


def test_a_new_object_gets_its_kind_and_is_written_without_what_is_not_set() -> None:
    thing = Thing(metadata=ctrlhost.ObjectMeta(name="a", labels={"x": "y"}), spec=Spec(size=3))
    assert (thing.apiVersion, thing.kind) == ("example.com/v1", "Thing")
    assert to_dict(thing) == {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {"size": 3, "ports": [], "limits": {}},
    }


def test_a_struct_without_a_kind_field_is_written_with_it() -> None:
    pod = Pod(metadata=ctrlhost.ObjectMeta(name="a"), spec={"at": datetime(2026, 1, 2, tzinfo=UTC), "null": None})
    assert to_dict(pod) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"at": "2026-01-02T00:00:00Z", "null": None},
    }
    with pytest.raises(TypeError, match="Spec is not a kind"):
        to_dict(Spec())


def test_tags_and_enums_are_written_as_msgspec_does() -> None:
    spec = {"cat": Cat(3), "modes": {Mode.FAST: [Cat(1)]}}
    written = to_dict(Pod(metadata=ctrlhost.ObjectMeta(name="a"), spec=spec))["spec"]
    assert written == msgspec.to_builtins(spec)


def test_parts_of_a_cached_object_are_written_as_plain_ones() -> None:
    cached = Object({"kind": "A", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}], "tag": "x"}})
    written = to_dict(Pod(metadata=ctrlhost.ObjectMeta(name="b"), spec={"of": cached["spec"]}))["spec"]
    assert written == {"of": {"ports": [{"port": 1}], "tag": "x"}}
    assert type(written["of"]) is dict
    assert type(written["of"]["ports"]) is list


def test_what_is_written_is_read_as_the_same() -> None:
    thing = Thing(
        metadata=ctrlhost.ObjectMeta(name="a"),
        spec=Spec(ports=[1], limits={"cpu": 2}),
        status=Status(ready=1, conditions=[ctrlhost.Condition(type="Ready", status="True")]),
    )
    assert decode(Object(to_dict(thing)), Thing) == thing
