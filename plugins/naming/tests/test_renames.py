"""Scenarios of names that move between fields, between CRDs, and to their waiters."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Request
from plugins.naming.tests.cluster import Cluster
from plugins.naming.tests.settled import settled

behaviour = pytest.mark.behaviour


@behaviour("naming/X16")
def test_a_name_that_moves_to_another_field_takes_two_writes(fake: Any) -> None:
    settled(fake, "as/a")
    fake.edit("as", singular="c", shortNames=["a"])
    fake.sync("as.g.io")
    assert fake.accepted("as") == "as/c/A/AList"
    assert fake.conflict("as") == 'ShortNamesConflict "a" is already in use'
    fake.settle()
    assert fake.accepted("as") == "as/c/A/AList[a]"
    assert fake.conflict("as") == ""
    assert fake.writes == 3


@behaviour("naming/X17")
def test_kind_and_list_kind_are_never_equal_during_a_rename(fake: Any) -> None:
    settled(fake, "as/a/Foo/FooList")
    fake.edit("as", kind="FooList", listKind="FooListList")
    fake.sync("as.g.io")
    assert fake.accepted("as") == "as/a/Foo/FooListList"
    assert fake.conflict("as") == 'KindConflict "FooList" is already in use'
    fake.settle()
    assert fake.accepted("as") == "as/a/FooList/FooListList"
    assert fake.conflict("as") == ""
    written = [new["status"]["acceptedNames"] for _, new in fake.written]
    assert [(names["kind"], names["listKind"]) for names in written] == [
        ("Foo", "FooList"),
        ("Foo", "FooListList"),
        ("FooList", "FooListList"),
    ]


@behaviour("naming/X18")
def test_a_swap_between_two_crds_blocks_both_until_one_takes_a_third_name(fake: Any) -> None:
    settled(fake, "as/a", "bs/b")
    fake.edit("as", singular="b")
    fake.edit("bs", singular="a")
    before = fake.writes
    fake.settle()
    assert (fake.accepted("as"), fake.accepted("bs")) == ("as/a/A/AList", "bs/b/B/BList")
    assert fake.conflict("as") == 'SingularConflict "b" is already in use'
    assert fake.conflict("bs") == 'SingularConflict "a" is already in use'
    assert fake.writes == before + 2

    fake.edit("as", singular="third")
    fake.settle()
    assert (fake.accepted("as"), fake.accepted("bs")) == ("as/third/A/AList", "bs/a/B/BList")
    assert (fake.conflict("as"), fake.conflict("bs")) == ("", "")


@behaviour("naming/X19")
def test_a_newly_taken_name_is_reported_by_a_crd_that_another_name_blocks(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x, y]")
    assert fake.conflict("bs") == 'ShortNamesConflict "x" is already in use'
    settled(fake, "cs/c/C/CList[y]")
    assert fake.conflict("bs") == 'ShortNamesConflict ["x" is already in use, "y" is already in use]'
    assert "bs.g.io" in fake.requeued


@behaviour("naming/X20")
def test_a_cycle_of_renames_ends_when_one_takes_another_name(fake: Any) -> None:
    settled(fake, "as/n1", "bs/n2", "cs/n3")
    fake.edit("as", singular="n2")
    fake.edit("bs", singular="n3")
    fake.edit("cs", singular="n1")
    fake.settle()
    assert [fake.conflict(p) for p in ("as", "bs", "cs")] == [
        f'SingularConflict "{name}" is already in use' for name in ("n2", "n3", "n1")
    ]
    fake.edit("cs", singular="n9")
    fake.settle()
    assert [fake.accepted(p).split("/")[1] for p in ("as", "bs", "cs")] == ["n2", "n3", "n9"]
    assert [fake.conflict(p) for p in ("as", "bs", "cs")] == ["", "", ""]


@behaviour("naming/X21")
def test_a_chain_of_waiters_advances_without_an_edit(fake: Any) -> None:
    settled(fake, "as/n3", "bs/n2", "cs/n1")
    fake.edit("bs", singular="n1")
    fake.edit("as", singular="n2")
    fake.settle()
    assert fake.conflict("as")
    assert fake.conflict("bs")
    fake.delete("cs")
    fake.settle()
    assert [fake.accepted(p).split("/")[1] for p in ("as", "bs")] == ["n2", "n1"]
    assert [fake.conflict(p) for p in ("as", "bs")] == ["", ""]


@behaviour("naming/X22")
def test_the_oldest_waiter_gets_a_released_name(fake: Any) -> None:
    fake.create("zs/z/Z/ZList[x]", created=1)
    fake.settle()
    for plural, age in (("as", 9), ("bs", 3), ("cs", 5)):
        fake.create(f"{plural}/{plural[0]}/{plural[0].upper()}/{plural[0].upper()}List[x]", created=age)
        fake.settle()
    fake.delete("zs")
    assert fake.requeued[-3:] == ["bs.g.io", "cs.g.io", "as.g.io"]
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList[x]"
    for plural in ("as", "cs"):
        assert fake.conflict(plural) == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X30")
def test_a_crd_recreated_before_a_reconcile_keeps_its_names(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    fake.delete("as")
    fake.create("as/a/A/AList[x]")
    fake.queue = {"as.g.io": None, "bs.g.io": None}
    fake.settle()
    assert fake.accepted("as") == "as/a/A/AList[x]"
    assert fake.conflict("as") == ""
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X30")
def test_if_the_deletion_is_reconciled_first_the_next_reconciled_crd_gets_the_name(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    fake.delete("as")
    fake.settle()
    settled(fake, "as/a/A/AList[x]")
    assert fake.accepted("bs") == "bs/b/B/BList[x]"
    assert fake.conflict("as") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X33")
def test_names_removed_by_hand_go_to_their_waiters(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    fake.edit_status("as", acceptedNames={"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"})
    assert "bs.g.io" in fake.requeued
    fake.queue = {"bs.g.io": None, "as.g.io": None}
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList[x]"
    assert fake.conflict("as") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/Y1")
def test_a_deletion_requeues_only_the_waiters_of_its_names(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c", "ds/d")
    for group in ("x.io", "y.io"):
        fake.create("es/e/E/EList[x]", group)
    fake.settle()
    fake.requeued.clear()
    fake.delete("as")
    assert fake.requeued == ["bs.g.io"]


@behaviour("naming/Y12")
def test_a_key_without_a_group_is_ignored(fake: Any) -> None:
    settled(fake, "as/a")
    fake.sync("nodot")
    assert fake.conflict("as") == ""


@behaviour("naming/Y12")
@behaviour("findings/FT1")
def test_a_key_without_a_group_is_logged_and_fails_nothing(
    start: Callable[..., Cluster], sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = start(sandbox)
    with caplog.at_level(logging.WARNING):
        cluster.queue.add(Request("nodot"))
        cluster.settled("as/a")
    messages = [record.getMessage() for record in caplog.records]
    assert any("ignoring key 'nodot': not the name of a CustomResourceDefinition" in text for text in messages)
    assert not any("failed" in text or "panic" in text for text in messages)
    assert cluster.queue.num_requeues(Request("nodot")) == 0
    assert cluster.accepted("as") == "as/a/A/AList"


@behaviour("naming/Y4")
@behaviour("naming/Y15")
def test_a_resync_writes_nothing(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c")
    writes = fake.writes
    fake.requeued.clear()
    for key in list(fake.objects):
        fake._deliver(key, fake.objects[key])
    fake.settle()
    assert fake.writes == writes
    assert fake.requeued == []


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
def test_a_deletion_affects_only_its_own_group(fake: Any) -> None:
    for spelled in ("as/a/A/AList[x]", "bs/b/B/BList[x]"):
        for number in range(500):
            fake.create(spelled, f"group{number}.io")
    fake.settle()
    fake.requeued.clear()
    fake.delete("as", "group7.io")
    assert fake.requeued == ["bs.group7.io"]


@behaviour("naming/Z3")
def test_one_of_a_thousand_waiters_gets_the_name_and_the_others_are_not_written(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]")
    for i in range(1_000):
        fake.create(f"p{i}s/p{i}/P{i}/P{i}List[x]")
    fake.settle()
    before = fake.writes, fake.syncs
    fake.delete("as")
    assert len(set(fake.requeued)) == 1_000
    fake.settle()
    assert fake.writes == before[0] + 1
    assert fake.syncs - before[1] <= 1_002, "also of the deleted one, and of the winner's own event"
    holders = [key for key, obj in fake.objects.items() if obj["status"]["acceptedNames"].get("shortNames")]
    assert holders == ["p0s.g.io"]
