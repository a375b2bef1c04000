"""Scenarios of names that move: between fields, between CRDs, and to those who wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    pass

from plugins.naming.tests.settled import settled

behaviour = pytest.mark.behaviour


@behaviour("naming/X16")
def test_a_name_that_moves_to_another_field_takes_two_writes(world: Any) -> None:
    settled(world, "as/a")
    world.edit("as", singular="c", shortNames=["a"])
    world.sync("as.g.io")
    assert world.accepted("as") == "as/c/A/AList"
    assert world.conflict("as") == 'ShortNamesConflict "a" is already in use'
    world.settle()
    assert world.accepted("as") == "as/c/A/AList[a]"
    assert world.conflict("as") == ""
    assert world.writes == 3


@behaviour("naming/X17")
def test_kind_and_list_kind_are_never_the_same_on_the_way_to_new_ones(world: Any) -> None:
    settled(world, "as/a/Foo/FooList")
    world.edit("as", kind="FooList", listKind="FooListList")
    world.sync("as.g.io")
    assert world.accepted("as") == "as/a/Foo/FooListList"
    assert world.conflict("as") == 'KindConflict "FooList" is already in use'
    world.settle()
    assert world.accepted("as") == "as/a/FooList/FooListList"
    assert world.conflict("as") == ""


@behaviour("naming/X18")
def test_a_swap_between_two_crds_blocks_both_until_one_takes_a_third_name(world: Any) -> None:
    settled(world, "as/a", "bs/b")
    world.edit("as", singular="b")
    world.edit("bs", singular="a")
    before = world.writes
    world.settle()
    assert (world.accepted("as"), world.accepted("bs")) == ("as/a/A/AList", "bs/b/B/BList")
    assert world.conflict("as") == 'SingularConflict "b" is already in use'
    assert world.conflict("bs") == 'SingularConflict "a" is already in use'
    assert world.writes == before + 2

    world.edit("as", singular="third")
    world.settle()
    assert (world.accepted("as"), world.accepted("bs")) == ("as/third/A/AList", "bs/a/B/BList")
    assert (world.conflict("as"), world.conflict("bs")) == ("", "")


@behaviour("naming/X19")
def test_a_name_that_becomes_taken_is_told_to_a_crd_that_another_name_blocks(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x, y]")
    assert world.conflict("bs") == 'ShortNamesConflict "x" is already in use'
    settled(world, "cs/c/C/CList[y]")
    assert world.conflict("bs") == 'ShortNamesConflict ["x" is already in use, "y" is already in use]'
    assert ("bs.g.io", "taken") in world.woken


@behaviour("naming/X20")
def test_a_ring_of_renames_opens_when_one_of_them_steps_out(world: Any) -> None:
    settled(world, "as/n1", "bs/n2", "cs/n3")
    world.edit("as", singular="n2")
    world.edit("bs", singular="n3")
    world.edit("cs", singular="n1")
    world.settle()
    assert [world.conflict(p) for p in ("as", "bs", "cs")] == [
        f'SingularConflict "{name}" is already in use' for name in ("n2", "n3", "n1")
    ]
    world.edit("cs", singular="n9")
    world.settle()
    assert [world.accepted(p).split("/")[1] for p in ("as", "bs", "cs")] == ["n2", "n3", "n9"]
    assert [world.conflict(p) for p in ("as", "bs", "cs")] == ["", "", ""]


@behaviour("naming/X21")
def test_a_chain_of_waiters_moves_up_without_an_edit(world: Any) -> None:
    settled(world, "as/n3", "bs/n2", "cs/n1")
    world.edit("bs", singular="n1")
    world.edit("as", singular="n2")
    world.settle()
    assert world.conflict("as")
    assert world.conflict("bs")
    world.delete("cs")
    world.settle()
    assert [world.accepted(p).split("/")[1] for p in ("as", "bs")] == ["n2", "n1"]
    assert [world.conflict(p) for p in ("as", "bs")] == ["", ""]


@behaviour("naming/X22")
def test_the_oldest_waiter_gets_a_freed_name(world: Any) -> None:
    world.create("zs/z/Z/ZList[x]", created=1)
    world.settle()
    for plural, age in (("as", 9), ("bs", 3), ("cs", 5)):
        world.create(f"{plural}/{plural[0]}/{plural[0].upper()}/{plural[0].upper()}List[x]", created=age)
        world.settle()
    world.delete("zs")
    world.queue.clear()
    world.sync("zs.g.io")
    for key, _ in world.woken[-3:]:
        world.queue[key] = None
    assert list(world.queue) == ["bs.g.io", "cs.g.io", "as.g.io"]
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList[x]"
    for plural in ("as", "cs"):
        assert world.conflict(plural) == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X30")
def test_a_crd_deleted_and_made_again_before_anybody_looked_keeps_its_names(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    world.delete("as")
    world.create("as/a/A/AList[x]")
    world.queue = {"as.g.io": None, "bs.g.io": None}
    world.settle()
    assert world.accepted("as") == "as/a/A/AList[x]"
    assert world.conflict("bs") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X30")
def test_if_the_deletion_is_seen_first_the_first_one_looked_at_gets_the_name(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    world.delete("as")
    world.settle()
    settled(world, "as/a/A/AList[x]")
    assert world.accepted("bs") == "bs/b/B/BList[x]"
    assert world.conflict("as") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X33")
def test_names_freed_by_hand_go_to_who_waits_for_them(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    world.edit_status("as", acceptedNames={"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"})
    assert ("bs.g.io", "release") in world.woken
    world.queue = {"bs.g.io": None, "as.g.io": None}
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList[x]"
    assert world.conflict("as") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/Y1")
def test_a_deletion_wakes_those_who_wait_for_its_names_and_nobody_else(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c", "ds/d")
    for group in ("x.io", "y.io"):
        world.create("es/e/E/EList[x]", group)
    world.settle()
    world.woken.clear()
    del world.objects["as.g.io"]
    world.sync("as.g.io")
    assert world.woken == [("bs.g.io", "delete")]


@behaviour("naming/Y12")
def test_a_key_without_a_group_harms_nothing(world: Any) -> None:
    settled(world, "as/a")
    world.sync("nodot")
    assert world.conflict("as") == ""


@behaviour("naming/Y15")
def test_a_resync_finds_nothing_to_write(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c")
    before = world.writes, world.calculations
    for key in list(world.objects):
        world._deliver(key, world.objects[key])
    world.settle()
    assert world.writes == before[0]
    assert world.calculations == before[1] + 1, "only the CRD in conflict is looked into"


@behaviour("naming/Y9")
def test_a_name_wanted_by_hundreds_at_once_is_given_once_though_the_informer_shows_none_of_it(world: Any) -> None:
    for i in range(300):
        world.create(f"p{i}s/p{i}/P{i}/P{i}List[x]")
    world.frozen = True
    world.settle()
    holders = [
        name for name, obj in world.objects.items() if "x" in (obj["status"]["acceptedNames"]["shortNames"] or ())
    ]
    assert len(holders) == 1
    world.thaw()
    world.settle()
    assert world.index.contested() == []
