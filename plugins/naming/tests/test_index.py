"""The index: informer events and own writes in any order, and its cost."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from ctrlhost_naming.conditions import NO_CONFLICTS
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.decision import Mode, decide
from ctrlhost_naming.index import NameIndex, compare_versions
from ctrlhost_naming.names import Names, Space

behaviour = pytest.mark.behaviour


def seen(version: str, *short: str, uid: str = "u1", name: str = "as", group: str = "g.io", **more: Any) -> Crd:
    """Return a CRD for which its plural and `short` are accepted."""
    accepted = Names(name, short_names=short)
    return Crd(f"{name}.{group}", group, uid, version, "", more.get("requested", accepted), accepted, None, None)


@pytest.fixture
def index() -> NameIndex:
    """An index that has seen version 1 of a CRD, and its own write of version 2 that added the short name `x`."""
    index = NameIndex()
    index.observe(seen("1"))
    index.record_write(seen("2", "x"))
    assert held(index, "x")
    return index


def held(index: NameIndex, name: str) -> bool:
    return bool(index.owners("g.io", Space.RESOURCES, name))


@behaviour("naming/M1")
@behaviour("naming/M2")
@pytest.mark.parametrize("version", ["2", "3"])
def test_an_event_that_is_not_older_than_the_own_write_wins(index: NameIndex, version: str) -> None:
    index.observe(seen(version, "y"))
    assert held(index, "y")
    assert not held(index, "x")


@behaviour("naming/M3")
@behaviour("naming/Y10")
def test_an_older_event_does_not_undo_an_own_write(index: NameIndex) -> None:
    index.observe(seen("1"))
    assert held(index, "x")


@behaviour("naming/M4")
def test_a_deletion_releases_the_names_even_if_its_object_is_older_than_the_write(index: NameIndex) -> None:
    index.forget("as.g.io", "u1", "1")
    assert not held(index, "x")
    assert not held(index, "as")


@behaviour("naming/M5")
@behaviour("naming/M6")
def test_a_deletion_of_another_object_of_that_name_counts_only_if_it_is_later(index: NameIndex) -> None:
    index.forget("as.g.io", "u0", "1")
    assert held(index, "x")
    index.forget("as.g.io", "u9", "3")
    assert not held(index, "x")


@behaviour("naming/M7")
@behaviour("naming/Y10")
def test_an_answer_after_the_deletion_is_ignored(index: NameIndex) -> None:
    index.forget("as.g.io", "u1", "3")
    index.record_write(seen("4", "z"))
    assert index.get("as.g.io") is None
    assert not held(index, "z")


@behaviour("naming/Y10")
def test_an_event_behind_the_cache_does_not_restore_a_missing_crd(index: NameIndex) -> None:
    index.forget("as.g.io")
    assert index.observe(seen("7", "x")) == []
    assert not held(index, "x")
    index.forget("as.g.io", "u1", "8")
    index.observe(seen("9", "x", uid="u2"))
    assert held(index, "x"), "another object of that name"
    index.forget("as.g.io")
    index.observe(seen("10", "x", uid="u2"), cached=True)
    assert held(index, "x"), "the cache has it"


@behaviour("naming/M8")
def test_an_answer_about_the_old_object_does_not_change_the_recreated_one(index: NameIndex) -> None:
    index.forget("as.g.io", "u1", "2")
    index.observe(seen("3", "y", uid="u2"))
    index.record_write(seen("2", "z", uid="u1"))
    index.record_write(seen("9", "z", uid="u1"))
    assert held(index, "y")
    assert not held(index, "z")


@behaviour("naming/M9")
def test_a_deletion_removes_a_crd_known_only_from_a_write(index: NameIndex) -> None:
    index.forget("as.g.io")
    assert len(index) == 0
    assert index.crds() == []

    fresh = NameIndex()
    fresh.record_write(seen("2", "x"))
    fresh.forget("as.g.io", "u1", "2")
    assert fresh.crds() == []
    assert not held(fresh, "x")


@behaviour("naming/Y10")
def test_an_answer_older_than_the_last_event_is_ignored(index: NameIndex) -> None:
    index.observe(seen("5", "y"))
    index.record_write(seen("4", "z"))
    assert held(index, "y")
    assert not held(index, "z")


def test_versions_are_numbers_of_any_size() -> None:
    assert compare_versions("9", "10") == -1
    assert compare_versions("18446744073709551617", "18446744073709551616") == 1
    assert compare_versions("7", "7") == 0
    assert compare_versions("abc", "7") is None
    assert compare_versions("", "7") is None


def test_a_version_that_is_not_a_number_requeues_the_group_once(index: NameIndex) -> None:
    for name in ("bs", "cs"):
        index.observe(seen("1", name=name, uid=name))
    index.observe(seen("1", name="ds", uid="ds", group="x.io"))
    requeues = index.observe(seen("v3", "y"))
    assert [key for key, _ in requeues] == ["as.g.io", "bs.g.io", "cs.g.io"]
    assert held(index, "y")
    assert index.observe(seen("v4", "y")) == []


def test_a_name_with_two_owners_is_contested_until_one_releases_it(index: NameIndex) -> None:
    index.observe(seen("4", "x", name="bs", uid="u2"))
    assert index.contested() == [("g.io", Space.RESOURCES, "x")]
    assert index.owners("g.io", Space.RESOURCES, "x") == ("as.g.io", "bs.g.io")
    assert index.observe(seen("5", name="bs", uid="u2")) == [], "the name is still held by one"
    assert index.contested() == []
    assert held(index, "x")


def fill(index: NameIndex, count: int, groups: int) -> None:
    for i in range(count):
        group = f"group{i % groups}.example.com"
        names = Names(f"resource{i}s", f"resource{i}", f"Resource{i}", f"Resource{i}List", (f"r{i}",))
        index.observe(
            Crd(f"{names.plural}.{group}", group, f"uid-{i}", str(i + 1), "", names, names, NO_CONFLICTS, None)
        )


@behaviour("naming/Z1")
def test_five_thousand_crds_take_less_than_two_kilobytes_each() -> None:
    tracemalloc.start()
    try:
        index = NameIndex()
        before, _ = tracemalloc.get_traced_memory()
        fill(index, 5_000, groups=1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index) == 5_000
    assert (after - before) / 5_000 < 2_048
    for crd in index.crds():
        decision = decide(crd, index.used(crd), Mode.ENFORCE)
        assert (decision.calculation, decision.write) == (None, False)


@behaviour("naming/Z1")
def test_five_thousand_new_crds_take_a_write_and_three_reconciles_each(fake: Any) -> None:
    for i in range(5_000):
        fake.create(f"p{i}s/p{i}/P{i}/P{i}List[x{i}]")
    fake.create("late/late/Late/LateList[x0]")
    fake.settle()
    assert fake.writes == 5_001
    assert fake.syncs <= 3 * 5_001
    syncs = fake.syncs
    fake.delete("p0s")
    fake.settle()
    assert fake.accepted("late") == "late/late/Late/LateList[x0]"
    assert fake.syncs - syncs <= 3, "of the deleted one, of its waiter, and of the waiter's own event"
    fake.delete("p1s")
    fake.settle()
    assert fake.syncs - syncs <= 4


@behaviour("naming/Z2")
def test_a_deletion_affects_only_its_own_group() -> None:
    index = NameIndex()
    fill(index, 5_000, groups=500)
    for group in ("group0.example.com", "group1.example.com"):
        wanting = Names("late", short_names=("r0", "r1"))
        index.observe(Crd(f"late.{group}", group, "u", "9000", "", wanting, Names("late"), None, None))
    assert index.forget("resource0s.group0.example.com") == [("late.group0.example.com", "delete")]


@behaviour("naming/Z3")
def test_a_release_requeues_each_of_a_thousand_waiters_once() -> None:
    index = NameIndex()
    index.observe(seen("1", "x"))
    for i in range(1_000):
        plural = f"p{i}"
        wanting = Names(plural, short_names=("x",))
        index.observe(Crd(f"{plural}.g.io", "g.io", plural, str(i + 2), "", wanting, Names(plural), None, None))
    requeues = index.forget("as.g.io")
    assert len(requeues) == len({key for key, _ in requeues}) == 1_000


@behaviour("naming/Z3")
def test_one_of_a_thousand_waiters_gets_the_name_and_the_others_are_not_written(fake: Any) -> None:
    fake.create("as/a/A/AList[x]")
    fake.settle()
    for i in range(1_000):
        fake.create(f"p{i}s/p{i}/P{i}/P{i}List[x]")
    fake.settle()
    before = fake.writes, fake.syncs
    fake.delete("as")
    fake.settle()
    assert fake.writes == before[0] + 1
    assert fake.syncs - before[1] <= 1_002, "also of the deleted one, and of the winner's own event"
    holders = [key for key, obj in fake.objects.items() if obj["status"]["acceptedNames"]["shortNames"]]
    assert holders == ["p0s.g.io"]
