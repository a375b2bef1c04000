"""Scenarios of several CustomResourceDefinitions in one group, played with the pure parts of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

from plugins.naming.tests.settled import settled

behaviour = pytest.mark.behaviour


@behaviour("naming/X1")
def test_the_sample_of_the_documentation_gets_all_its_names(world: Any) -> None:
    world.create("crontabs/crontab/CronTab/CronTabList[ct]", "stable.example.com")
    world.settle()
    assert world.accepted("crontabs", "stable.example.com") == "crontabs/crontab/CronTab/CronTabList[ct]"
    assert world.condition("crontabs", "NamesAccepted", "stable.example.com") == (
        "True",
        "NoConflicts",
        "no conflicts found",
    )
    assert world.established("crontabs", "stable.example.com") == "False/Installing"
    assert world.writes == 1


@behaviour("naming/X2")
@behaviour("naming/X3")
@behaviour("naming/X4")
def test_a_twin_gets_only_its_plural_until_the_first_one_is_gone_for_good(world: Any) -> None:
    settled(world, "foos/foo/Foo/FooList[f]", "bars/foo/Foo/FooList[f]")
    assert world.accepted("bars") == "bars///"
    assert world.conflict("bars") == 'ListKindConflict "FooList" is already in use'
    assert world.established("bars") == "False/NotAccepted"

    world.terminate("foos")
    world.settle()
    assert world.accepted("bars") == "bars///"

    world.delete("foos")
    world.settle()
    assert world.accepted("bars") == "bars/foo/Foo/FooList[f]"
    assert world.conflict("bars") == ""
    assert world.established("bars") == "False/Installing"


@behaviour("naming/X5")
def test_the_same_names_in_two_groups_do_not_conflict(world: Any) -> None:
    world.create("foos/foo/Foo/FooList[f]", "g.io")
    world.create("foos/foo/Foo/FooList[f]", "x.g.io")
    world.settle()
    for group in ("g.io", "x.g.io"):
        assert world.accepted("foos", group) == "foos/foo/Foo/FooList[f]"
        assert world.conflict("foos", group) == ""


@behaviour("naming/X6")
def test_a_short_name_conflicts_with_a_singular_and_with_a_plural(world: Any) -> None:
    settled(world, "as/a", "bs/b/B/BList[a]", "cs/c/C/CList[as]")
    assert world.conflict("bs") == 'ShortNamesConflict "a" is already in use'
    assert world.conflict("cs") == 'ShortNamesConflict "as" is already in use'


@behaviour("naming/X7")
def test_a_plural_conflicts_with_a_short_name_and_the_other_names_are_accepted(world: Any) -> None:
    settled(world, "as/a/A/AList[cs]", "cs/c/C/CList")
    assert world.accepted("cs") == "/c/C/CList"
    assert world.conflict("cs") == 'PluralConflict "cs" is already in use'


@behaviour("naming/X8")
def test_a_list_kind_conflicts_with_a_kind(world: Any) -> None:
    settled(world, "foolists/foolist/FooList/FooListList", "foos/foo/Foo/FooList")
    assert world.accepted("foos") == "foos/foo/Foo/"
    assert world.conflict("foos") == 'ListKindConflict "FooList" is already in use'


@behaviour("naming/X9")
def test_kinds_and_resources_do_not_conflict_and_case_counts(world: Any) -> None:
    settled(world, "as/foo/A/AList", "bs/b/foo/FList", "cs/c/Foo/GList")
    assert [world.conflict(plural) for plural in ("as", "bs", "cs")] == ["", "", ""]


@behaviour("naming/X10")
def test_a_short_name_given_twice_is_accepted_twice_and_told_once(world: Any) -> None:
    settled(world, "as/a/A/AList[x, x]", "bs/b/B/BList[x, x, y]")
    assert world.accepted("as") == "as/a/A/AList[x, x]"
    assert world.conflict("as") == ""
    assert world.accepted("bs") == "bs/b/B/BList"
    assert world.conflict("bs") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X11")
def test_one_taken_short_name_keeps_all_of_them(world: Any) -> None:
    settled(world, "as/a/A/AList[x, y]", "bs/b/B/BList[y, z, x]")
    assert world.accepted("bs") == "bs/b/B/BList"
    assert world.conflict("bs") == 'ShortNamesConflict ["y" is already in use, "x" is already in use]'


@behaviour("naming/X12")
def test_a_name_that_was_only_asked_for_blocks_nobody(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x, y]", "cs/c/C/CList[y]")
    assert world.accepted("cs") == "cs/c/C/CList[y]"


@behaviour("naming/X13")
def test_own_names_as_short_names_are_accepted_at_creation_and_refused_later(world: Any) -> None:
    settled(world, "as/a/A/AList[a]", "bs/b")
    assert world.accepted("as") == "as/a/A/AList[a]"
    world.edit("bs", shortNames=["b", "bs"])
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList"
    assert world.conflict("bs") == 'ShortNamesConflict ["b" is already in use, "bs" is already in use]'


@behaviour("naming/X13")
def test_own_names_as_short_names_are_accepted_later_too_where_that_is_allowed(new_world: Callable[..., Any]) -> None:
    world = new_world(allow_own=True)
    settled(world, "bs/b")
    world.edit("bs", shortNames=["b", "bs"])
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList[b, bs]"
    assert world.conflict("bs") == ""


@behaviour("naming/X14")
@behaviour("naming/X26")
def test_the_own_plural_is_no_new_singular_and_taking_that_back_cures_it(world: Any) -> None:
    settled(world, "sheep/sheep", "fish/fishy/Fish/FishList")
    assert world.conflict("sheep") == ""
    world.edit("fish", singular="fish")
    world.settle()
    assert world.accepted("fish") == "fish/fishy/Fish/FishList"
    assert world.conflict("fish") == 'SingularConflict "fish" is already in use'

    world.edit("fish", singular="fishy")
    world.settle()
    assert world.conflict("fish") == ""
    assert world.established("fish") == "False/Installing"


@behaviour("naming/X15")
def test_singular_and_short_name_swapped_within_a_crd_block_each_other(world: Any) -> None:
    settled(world, "as/a/A/AList[x]")
    world.edit("as", singular="x", shortNames=["a"])
    world.settle()
    assert world.accepted("as") == "as/a/A/AList[x]"
    assert world.conflict("as") == 'ShortNamesConflict "a" is already in use'


@behaviour("naming/X15")
def test_the_swap_within_a_crd_takes_one_write_where_own_names_are_allowed(new_world: Callable[..., Any]) -> None:
    world = new_world(allow_own=True)
    settled(world, "as/a/A/AList[x]")
    world.edit("as", singular="x", shortNames=["a"])
    world.settle()
    assert world.accepted("as") == "as/x/A/AList[a]"
    assert world.writes == 2


@behaviour("naming/X23")
def test_a_conflict_before_establishment_leaves_it_installing(world: Any) -> None:
    settled(world, "as/a", "bs/b")
    assert world.established("bs") == "False/Installing"
    world.edit("bs", singular="a")
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList"
    assert world.conflict("bs") == 'SingularConflict "a" is already in use'
    assert world.established("bs") == "False/Installing"


@behaviour("naming/X24")
def test_an_established_crd_stays_established_in_a_conflict(world: Any) -> None:
    settled(world, "as/a", "bs/b")
    world.establish("bs")
    world.edit("bs", singular="a")
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList"
    assert world.conflict("bs") == 'SingularConflict "a" is already in use'
    assert world.established("bs") == "True/InitialNamesAccepted"


@behaviour("naming/X25")
@pytest.mark.parametrize("mode", ["observe", "repair", "enforce"])
def test_a_crd_that_gives_up_the_conflicting_name_is_cured_in_repair_and_enforce(
    new_world: Callable[..., Any], world: Any, mode: str
) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    world.edit("bs", shortNames=[])
    # What the API server's own controller leaves behind: all names as asked for, and a condition that says otherwise.
    mended = new_world(type(world.mode)(mode))
    mended.objects, mended.version = world.objects, world.version
    for key in mended.objects:
        mended.sync(key)
    mended.settle()
    if mode == "observe":
        assert mended.conflict("bs") == 'ShortNamesConflict "x" is already in use'
        assert mended.established("bs") == "False/NotAccepted"
    else:
        assert mended.conflict("bs") == ""
        assert mended.established("bs") == "False/Installing"
    assert mended.writes == (mode != "observe")


@behaviour("naming/X27")
def test_a_new_order_and_new_categories_take_one_write_each(world: Any) -> None:
    settled(world, "as/a/A/AList[x, y]")
    world.edit("as", shortNames=["y", "x"])
    world.settle()
    assert world.accepted("as") == "as/a/A/AList[y, x]"
    assert world.writes == 2
    world.edit("as", categories=["all"])
    world.settle()
    assert world.objects["as.g.io"]["status"]["acceptedNames"]["categories"] == ["all"]
    assert world.writes == 3
    assert world.conflict("as") == ""


@behaviour("naming/X27")
def test_categories_are_taken_over_while_other_names_conflict(world: Any) -> None:
    settled(world, "as/a", "bs/b")
    world.edit("bs", singular="a", categories=["all"])
    world.settle()
    assert world.conflict("bs") == 'SingularConflict "a" is already in use'
    assert world.objects["bs.g.io"]["status"]["acceptedNames"]["categories"] == ["all"]


@behaviour("naming/X28")
def test_short_names_follow_once_none_of_them_is_taken(world: Any) -> None:
    settled(world, "bs/b/B/BList[y]", "as/a/A/AList[x]")
    world.edit("bs", shortNames=["x", "y", "w"])
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList[y]"
    assert world.conflict("bs") == 'ShortNamesConflict "x" is already in use'
    world.edit("bs", shortNames=["w"])
    world.settle()
    assert world.accepted("bs") == "bs/b/B/BList[w]"
    assert world.conflict("bs") == ""


@behaviour("naming/X29")
def test_a_crd_none_of_whose_names_is_free_gets_nothing(world: Any) -> None:
    settled(world, "as/bs/B/AList[b, x]", "bs/b/B/AList[x]")
    assert world.accepted("bs") == "///"
    assert world.conflict("bs") == 'ListKindConflict "AList" is already in use'


@behaviour("naming/X31")
def test_an_invalid_ca_bundle_gives_way_to_installing_and_the_time_stays(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    world.edit_status(
        "bs",
        conditions=[
            *(c for c in world.objects["bs.g.io"]["status"]["conditions"] if c["type"] == "NamesAccepted"),
            {
                "type": "Established",
                "status": "False",
                "reason": "InvalidCABundle",
                "message": "The conversion webhook CABundle is invalid",
                "lastTransitionTime": "2025-06-07T08:09:10Z",
            },
        ],
    )
    world.delete("as")
    world.settle()
    assert world.established("bs") == "False/Installing"
    assert world.objects["bs.g.io"]["status"]["conditions"][1]["lastTransitionTime"] == "2025-06-07T08:09:10Z"


@behaviour("naming/X32")
def test_conditions_of_others_stay_where_they_are(world: Any) -> None:
    world.create("as/a")
    foreign = [
        {"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "message": "", "extra": 1},
        {
            "type": "NonStructuralSchema",
            "status": "True",
            "reason": "Violations",
            "message": "x",
            "observedGeneration": 3,
        },
    ]
    world.edit_status("as", conditions=foreign, storedVersions=["v1"])
    world.settle()
    status = world.objects["as.g.io"]["status"]
    assert status["conditions"][:2] == foreign
    assert [c["type"] for c in status["conditions"][2:]] == ["NamesAccepted", "Established"]
    assert status["storedVersions"] == ["v1"]
