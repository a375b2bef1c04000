"""The events of a controller's own writes, and what must not count as one, with versions set by the test."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.cache import Object
from ctrlhost.own_writes.overlay import PendingWrites
from ctrlhost.own_writes.self_events import DELETION, SelfEvents
from tests.unit.own_writes.test_overlay import ScriptedInformer

POD = ("v1", "Pod")
KEY = ("default", "a")


class Rig:
    """One controller whose cache and whose server are the test's."""

    def __init__(self) -> None:
        self.informer: Any = ScriptedInformer()
        self.pending = PendingWrites(self.informer)
        self.events = SelfEvents()
        self.events.listen(POD, self.pending)
        self.passes = self.events.predicate(self.pending, existence=True)

    def cached(self, *objects: dict[str, Any]) -> None:
        version = max((int(obj["metadata"]["resourceVersion"]) for obj in objects), default=1)
        self.informer.relist(version, *objects)

    def write(self, change: Any, answer: dict[str, Any]) -> Object:
        """Write what the server answers like this, and return the object."""
        self.events.wrote(self.events.before(POD, KEY), change, answer)
        self.pending.wrote(answer)
        return Object(answer)

    def delete(self, uid: str) -> None:
        self.events.before(POD, KEY)
        self.events.deleted(POD, KEY, uid)
        self.pending.deleted(KEY, uid)


def pod(version: int, uid: str = "u1", managers: tuple[str, ...] = ("me",), **content: Any) -> dict[str, Any]:
    """Return the object as the server has it; `managers` have written it."""
    metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    managed = [{"manager": manager, "operation": "Apply"} for manager in managers]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "managedFields": managed}, **content}


def labelled(obj: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": dict.fromkeys(names, "1")}}


def sized(size: int) -> dict[str, Any]:
    return {"spec": {"size": size}}


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.behaviour("authoring/AU12")
def test_the_events_of_several_own_writes_are_dropped_one_by_one_and_merged(rig: Rig) -> None:
    before = pod(2, **sized(0))
    rig.cached(before)
    states = [Object(before), *(rig.write(sized(size), pod(2 + size, **sized(size))) for size in (1, 2, 3))]
    for at, old in enumerate(states):
        for new in states[at + 1 :]:
            assert not rig.passes(old, new)


@pytest.mark.behaviour("authoring/AU12")
def test_a_foreign_change_between_own_writes_passes_in_any_merged_event(rig: Rig) -> None:
    before = pod(2, **sized(0))
    rig.cached(before)
    first = rig.write(sized(1), pod(3, **sized(1)))
    foreign = Object(labelled(pod(4, managers=("me", "they"), **sized(1)), "theirs"))
    second = rig.write(sized(2), labelled(pod(5, managers=("me", "they"), **sized(2)), "theirs"))
    third = rig.write(sized(3), labelled(pod(6, managers=("me", "they"), **sized(3)), "theirs"))
    assert rig.passes(Object(before), second)
    assert rig.passes(first, foreign)
    assert rig.passes(first, second)
    assert rig.passes(first, third)
    assert rig.passes(Object(before), third)
    # The events that show no change of others.
    assert not rig.passes(Object(before), first)
    assert not rig.passes(second, third)


def test_a_resync_passes(rig: Rig) -> None:
    rig.cached(pod(2, **sized(0)))
    new = rig.write(sized(1), pod(3, **sized(1)))
    assert rig.passes(new, new)


def test_a_write_that_changed_nothing_hides_nothing(rig: Rig) -> None:
    before = pod(2, **sized(1))
    rig.cached(before)
    same = rig.write(sized(1), before)
    assert rig.passes(Object(before), same)


@pytest.mark.behaviour("authoring/AU12")
def test_a_created_object_is_dropped_once(rig: Rig) -> None:
    rig.cached()
    rig.write(sized(1), pod(2, **sized(1)))
    answer = rig.write(sized(2), pod(3, **sized(2)))
    assert not rig.passes(None, answer)
    # It is shown again, as after its namespace was left out for a while.
    assert rig.passes(None, answer)


def test_an_object_that_is_shown_again_after_it_was_out_of_sight_passes(rig: Rig) -> None:
    rig.cached()
    answer = rig.write(sized(1), pod(2, **sized(1)))
    # The addition was merged with the deletion.
    assert rig.passes(answer, None)
    assert rig.passes(None, answer)


@pytest.mark.behaviour("authoring/AU12")
@pytest.mark.parametrize(
    "current",
    [
        pod(3, managers=("me", "they"), **sized(1)),
        pod(3, uid="u2", **sized(1)),
        labelled(pod(3, **sized(1)), "theirs"),
    ],
    ids=["another-manager", "made-again", "changed"],
)
def test_a_created_object_that_others_have_changed_passes(rig: Rig, current: dict[str, Any]) -> None:
    rig.cached()
    rig.write(sized(1), pod(2, **sized(1)))
    assert rig.passes(None, Object(current))


def test_an_object_that_others_have_helped_to_make_passes(rig: Rig) -> None:
    rig.cached()
    assert rig.passes(None, rig.write(sized(1), pod(2, managers=("me", "they"), **sized(1))))


@pytest.mark.behaviour("authoring/AU12")
def test_an_own_deletion_is_dropped_and_that_of_another_object_of_the_name_passes(rig: Rig) -> None:
    rig.cached(pod(2))
    rig.delete("u1")
    assert not rig.passes(Object(pod(2)), None)
    assert not rig.passes(Object(labelled(pod(3), "theirs")), None)
    assert rig.passes(Object(pod(4, "u2")), None)
    # Somebody made it again.
    assert rig.passes(Object(pod(2)), Object(pod(4, "u2")))
    assert rig.passes(None, Object(pod(4, "u2")))


@pytest.mark.behaviour("authoring/AU12")
def test_a_deletion_by_others_of_what_was_made_again_passes(rig: Rig) -> None:
    rig.cached(pod(2))
    rig.delete("u1")
    rig.write(sized(1), pod(4, "u2", **sized(1)))
    # A list shows that there is nothing, neither the first object nor the second.
    assert rig.passes(Object(pod(2)), None)


def test_the_deletion_mark_of_an_own_deletion_is_dropped_and_the_end_passes(rig: Rig) -> None:
    rig.cached(pod(2))
    marked = pod(3)
    marked["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    new = rig.write(DELETION, marked)
    assert not rig.passes(Object(pod(2)), new)
    assert rig.passes(new, None)


def test_without_existence_additions_and_deletions_pass(rig: Rig) -> None:
    passes = rig.events.predicate(rig.pending)
    rig.cached()
    answer = rig.write(sized(1), pod(2, **sized(1)))
    assert passes(None, answer)
    rig.delete("u1")
    assert passes(answer, None)


def test_after_a_restart_everything_passes(rig: Rig) -> None:
    rig.cached()
    answer = rig.write(sized(1), pod(2, **sized(1)))
    rig.cached(pod(2, **sized(1)))
    new = rig.write(sized(2), pod(3, **sized(2)))
    again = Rig()
    assert again.passes(None, answer)
    assert again.passes(answer, new)
    assert again.passes(new, None)


ITEM = {"name": "x", "image": "1", "policy": "Always"}


@pytest.mark.parametrize(
    ("change", "after", "own"),
    [
        ([{"name": "x", "image": "2"}], [{**ITEM, "image": "2"}], True),
        ([{"name": "x", "image": "2"}], [{**ITEM, "image": "2", "policy": "Never"}], False),
        ([{"name": "x", "image": "2"}], [{**ITEM, "image": "2"}, {"name": "theirs"}], False),
        ([{"name": "x", "image": "1"}, {"name": "y"}], [ITEM, {"name": "y"}], True),
        ([{"name": "x", "image": "1"}, {"name": "y"}], [ITEM, {"name": "y", "image": "theirs"}], False),
        ([{"name": "x", "image": "1"}, {"name": "y"}], [ITEM, {"name": "z"}], False),
        ([], [], True),
        (None, None, True),
    ],
    ids=[
        "set",
        "field-of-others",
        "item-of-others",
        "new-item",
        "new-item-with-field-of-others",
        "other-item",
        "emptied",
        "removed",
    ],
)
def test_what_others_have_put_into_a_written_list_passes(rig: Rig, change: Any, after: Any, own: bool) -> None:
    before = pod(2, spec={"items": [ITEM]})
    rig.cached(before)
    spec = {} if after is None else {"items": after}
    new = rig.write({"spec": {"items": change}}, pod(3, spec=spec))
    assert rig.passes(Object(before), new) is not own


@pytest.mark.parametrize(
    ("change", "after", "own"),
    [
        ({"metadata": {"labels": {"mine": "1"}}}, ("mine",), True),
        ({"metadata": {"labels": {"mine": "1"}}}, ("mine", "theirs"), False),
        ({"metadata": {"labels": {"old": None}}}, (), True),
        ({"data": {"b": "1"}}, ("old",), True),
        ({"data": {"b": "1"}}, (), False),
    ],
)
def test_what_others_have_put_into_a_written_mapping_passes(
    rig: Rig, change: Any, after: tuple[str, ...], own: bool
) -> None:
    before = labelled(pod(2), "old")
    if "old" not in after and "data" not in change and after:
        before = pod(2)
    rig.cached(before)
    answer = labelled(pod(3), *after)
    answer = {**answer, **change} if "data" in change else answer
    assert rig.passes(Object(before), rig.write(change, answer)) is not own


@pytest.mark.behaviour("findings3/NC17")
def test_a_write_of_an_object_that_was_made_anew_passes(rig: Rig) -> None:
    rig.cached(pod(2))
    # The cache does not show yet that somebody has made it again; the write sets all that differs, the uid too.
    rig.write({"metadata": {"uid": "u2"}, **sized(1)}, pod(5, "u2", **sized(1)))
    assert rig.passes(Object(pod(2)), Object(pod(5, "u2", **sized(1))))


@pytest.mark.behaviour("findings3/NC17")
def test_the_event_of_a_json_patch_passes_if_it_changed_something(rig: Rig) -> None:
    rig.cached(pod(2))
    patch = [{"op": "add", "path": "/spec", "value": {"size": 1}}]
    # What it has written is not compared: others may have changed the same object.
    rig.write(patch, pod(3, **sized(1)))
    assert rig.passes(Object(pod(2)), Object(pod(3, **sized(1))))
    rig.cached(pod(3, **sized(1)))
    rig.write(patch, pod(4, **sized(1)))
    assert not rig.passes(Object(pod(3, **sized(1))), Object(pod(4, **sized(1))))
