"""Scenarios of several CRDs in one group, on the fake cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_naming.decision import Mode, should_establish

if TYPE_CHECKING:
    from collections.abc import Callable

from plugins.naming.tests.settled import settled

behaviour = pytest.mark.behaviour


@behaviour("naming/X1")
def test_the_sample_of_the_documentation_gets_all_its_names(fake: Any) -> None:
    fake.create("crontabs/crontab/CronTab/CronTabList[ct]", "stable.example.com")
    fake.settle()
    assert fake.accepted("crontabs", "stable.example.com") == "crontabs/crontab/CronTab/CronTabList[ct]"
    assert fake.condition("crontabs", "NamesAccepted", "stable.example.com") == (
        "True",
        "NoConflicts",
        "no conflicts found",
    )
    assert fake.established("crontabs", "stable.example.com") == "False/Installing"
    assert fake.writes == 1


@behaviour("naming/X2")
@behaviour("naming/X3")
@behaviour("naming/X4")
def test_a_twin_gets_only_its_plural_until_the_first_one_is_deleted(fake: Any) -> None:
    settled(fake, "foos/foo/Foo/FooList[f]", "bars/foo/Foo/FooList[f]")
    blocked = ("bars///", 'ListKindConflict "FooList" is already in use', "False/NotAccepted")
    assert (fake.accepted("bars"), fake.conflict("bars"), fake.established("bars")) == blocked

    fake.terminate("foos")
    fake.settle()
    assert (fake.accepted("bars"), fake.conflict("bars"), fake.established("bars")) == blocked

    fake.delete("foos")
    fake.settle()
    assert fake.accepted("bars") == "bars/foo/Foo/FooList[f]"
    assert fake.conflict("bars") == ""
    assert fake.established("bars") == "False/Installing"


@behaviour("naming/X5")
def test_the_same_names_in_two_groups_do_not_conflict(fake: Any) -> None:
    fake.create("foos/foo/Foo/FooList[f]", "g.io")
    fake.create("foos/foo/Foo/FooList[f]", "x.g.io")
    fake.settle()
    for group in ("g.io", "x.g.io"):
        assert fake.accepted("foos", group) == "foos/foo/Foo/FooList[f]"
        assert fake.conflict("foos", group) == ""


@behaviour("naming/X6")
def test_a_short_name_conflicts_with_a_singular_and_with_a_plural(fake: Any) -> None:
    settled(fake, "as/a", "bs/b/B/BList[a]", "cs/c/C/CList[as]")
    assert fake.conflict("bs") == 'ShortNamesConflict "a" is already in use'
    assert fake.conflict("cs") == 'ShortNamesConflict "as" is already in use'


@behaviour("naming/X7")
def test_a_plural_conflicts_with_a_short_name_and_the_other_names_are_accepted(fake: Any) -> None:
    settled(fake, "as/a/A/AList[cs]", "cs/c/C/CList")
    assert fake.accepted("cs") == "/c/C/CList"
    assert fake.conflict("cs") == 'PluralConflict "cs" is already in use'


@behaviour("naming/X8")
def test_a_list_kind_conflicts_with_a_kind(fake: Any) -> None:
    settled(fake, "foolists/foolist/FooList/FooListList", "foos/foo/Foo/FooList")
    assert fake.accepted("foos") == "foos/foo/Foo/"
    assert fake.conflict("foos") == 'ListKindConflict "FooList" is already in use'


@behaviour("naming/X9")
def test_kinds_and_resources_do_not_conflict_and_names_are_case_sensitive(fake: Any) -> None:
    settled(fake, "as/foo/A/AList", "bs/b/foo/FList", "cs/c/Foo/GList")
    assert [fake.conflict(plural) for plural in ("as", "bs", "cs")] == ["", "", ""]


@behaviour("naming/X10")
def test_a_duplicate_short_name_is_accepted_twice_and_reported_once(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x, x]", "bs/b/B/BList[x, x, y]")
    assert fake.accepted("as") == "as/a/A/AList[x, x]"
    assert fake.conflict("as") == ""
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == 'ShortNamesConflict "x" is already in use'


@behaviour("naming/X11")
def test_one_taken_short_name_blocks_all_short_names(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x, y]", "bs/b/B/BList[y, z, x]")
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == 'ShortNamesConflict ["y" is already in use, "x" is already in use]'
    settled(fake, "cs/c/C/CList[z]")
    assert fake.accepted("cs") == "cs/c/C/CList[z]", "the refused request took no name"


@behaviour("naming/X12")
def test_a_name_that_is_only_requested_blocks_no_crd(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x, y]", "cs/c/C/CList[y]")
    assert fake.accepted("cs") == "cs/c/C/CList[y]"
    assert fake.conflict("cs") == ""


@behaviour("naming/X13")
def test_own_names_as_short_names_are_accepted_at_creation_and_refused_later(fake: Any) -> None:
    settled(fake, "as/a/A/AList[a]", "bs/b")
    assert fake.accepted("as") == "as/a/A/AList[a]"
    assert fake.conflict("as") == ""
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == ""
    fake.edit("bs", shortNames=["b", "bs"])
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == 'ShortNamesConflict ["b" is already in use, "bs" is already in use]'


@behaviour("naming/X13")
def test_own_names_as_new_short_names_are_accepted_if_allowed(new_fake: Callable[..., Any]) -> None:
    fake = new_fake(allow_own=True)
    settled(fake, "bs/b")
    fake.edit("bs", shortNames=["b", "bs"])
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList[b, bs]"
    assert fake.conflict("bs") == ""


@behaviour("naming/X14")
@behaviour("naming/X26")
def test_the_own_plural_is_refused_as_new_singular_and_reverting_fixes_it(fake: Any) -> None:
    settled(fake, "sheep/sheep", "fish/fishy/Fish/FishList")
    assert fake.conflict("sheep") == ""
    fake.edit("fish", singular="fish")
    fake.settle()
    assert fake.accepted("fish") == "fish/fishy/Fish/FishList"
    assert fake.conflict("fish") == 'SingularConflict "fish" is already in use'

    fake.edit("fish", singular="fishy")
    fake.settle()
    assert fake.conflict("fish") == ""
    assert fake.established("fish") == "False/Installing"


@behaviour("naming/X15")
def test_singular_and_short_name_swapped_within_a_crd_block_each_other(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]")
    fake.edit("as", singular="x", shortNames=["a"])
    fake.settle()
    refused = ("as/a/A/AList[x]", 'ShortNamesConflict "a" is already in use')
    assert (fake.accepted("as"), fake.conflict("as")) == refused
    refusals = fake.state.ledger.entries()["as.g.io"].refusals
    assert [str(refusal) for refusal in refusals] == ['singular "x" held by as.g.io', 'shortName "a" held by as.g.io']

    before = fake.writes
    fake.edit_status("as", storedVersions=["v1", "v2"])
    settled(fake, "bs/b")
    fake.sync("as.g.io")
    fake.settle()
    assert (fake.accepted("as"), fake.conflict("as")) == refused, "no later event changes that"
    assert fake.writes == before + 1, "only of the other CRD"


@behaviour("naming/X15")
def test_the_swap_within_a_crd_takes_one_write_if_own_names_are_allowed(new_fake: Callable[..., Any]) -> None:
    fake = new_fake(allow_own=True)
    settled(fake, "as/a/A/AList[x]")
    fake.edit("as", singular="x", shortNames=["a"])
    fake.settle()
    assert fake.accepted("as") == "as/x/A/AList[a]"
    assert fake.conflict("as") == ""
    assert fake.writes == 2


@behaviour("naming/X23")
def test_a_conflict_before_establishment_leaves_it_installing(fake: Any) -> None:
    settled(fake, "as/a", "bs/b")
    assert fake.established("bs") == "False/Installing"
    fake.edit("bs", singular="a")
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == 'SingularConflict "a" is already in use'
    assert fake.established("bs") == "False/Installing"
    assert not should_establish(fake.get("bs"))


@behaviour("naming/X24")
def test_an_established_crd_stays_established_in_a_conflict(fake: Any) -> None:
    settled(fake, "as/a", "bs/b")
    fake.establish("bs")
    fake.edit("bs", singular="a")
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList"
    assert fake.conflict("bs") == 'SingularConflict "a" is already in use'
    assert fake.established("bs") == "True/InitialNamesAccepted"


@pytest.mark.parametrize("mode", ["observe", "repair", "enforce"])
@pytest.mark.parametrize(
    ("spelled", "edits", "stale"),
    [
        pytest.param(
            "bs/b/B/BList[x]",
            [{"shortNames": []}],
            ('ShortNamesConflict "x" is already in use', "False/NotAccepted"),
            marks=behaviour("naming/X25"),
            id="X25",
        ),
        pytest.param(
            "bs/b",
            [{"singular": "bs"}, {"singular": "b"}],
            ('SingularConflict "bs" is already in use', "False/Installing"),
            marks=behaviour("naming/X26"),
            id="X26",
        ),
    ],
)
def test_a_crd_that_gives_up_the_conflicting_name_is_repaired_in_repair_and_enforce(
    new_fake: Callable[..., Any],
    fake: Any,
    spelled: str,
    edits: list[dict[str, Any]],
    stale: tuple[str, str],
    mode: str,
) -> None:
    settled(fake, "as/a/A/AList[x]", spelled)
    for changed in edits:
        fake.settle()
        fake.edit("bs", **changed)
    # The state that the API server's own controller leaves: all requested names, and a condition that is False.
    mended = new_fake(Mode(mode)).showing(fake)
    mended.settle()
    if mode == "observe":
        assert (mended.conflict("bs"), mended.established("bs")) == stale
    else:
        assert mended.conflict("bs") == ""
        assert mended.established("bs") == "False/Installing"
    assert mended.writes == (mode != "observe")


@behaviour("naming/X27")
def test_a_new_order_and_new_categories_take_one_write_each(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x, y]")
    fake.edit("as", shortNames=["y", "x"])
    fake.settle()
    assert fake.accepted("as") == "as/a/A/AList[y, x]"
    assert fake.writes == 2
    fake.edit("as", categories=["all"])
    fake.settle()
    assert fake.objects["as.g.io"]["status"]["acceptedNames"]["categories"] == ["all"]
    assert fake.writes == 3
    assert fake.conflict("as") == ""


@behaviour("naming/X27")
def test_categories_are_accepted_while_other_names_conflict(fake: Any) -> None:
    settled(fake, "as/a", "bs/b")
    fake.edit("bs", singular="a", categories=["all"])
    fake.settle()
    assert fake.conflict("bs") == 'SingularConflict "a" is already in use'
    assert fake.objects["bs.g.io"]["status"]["acceptedNames"]["categories"] == ["all"]
    assert fake.writes == 3


@behaviour("naming/X28")
def test_short_names_are_accepted_once_none_is_taken(fake: Any) -> None:
    settled(fake, "bs/b/B/BList[y]", "as/a/A/AList[x]")
    fake.edit("bs", shortNames=["x", "y", "w"])
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList[y]"
    assert fake.conflict("bs") == 'ShortNamesConflict "x" is already in use'
    fake.edit("bs", shortNames=["w"])
    fake.settle()
    assert fake.accepted("bs") == "bs/b/B/BList[w]"
    assert fake.conflict("bs") == ""


@behaviour("naming/X29")
def test_a_crd_without_a_free_name_gets_no_name(fake: Any) -> None:
    settled(fake, "as/bs/B/AList[b, x]", "bs/b/B/AList[x]")
    assert fake.accepted("bs") == "///"
    assert fake.conflict("bs") == 'ListKindConflict "AList" is already in use'


@behaviour("naming/X31")
def test_installing_replaces_an_invalid_ca_bundle_and_keeps_the_time(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]")
    fake.edit_status(
        "bs",
        conditions=[
            *(c for c in fake.objects["bs.g.io"]["status"]["conditions"] if c["type"] == "NamesAccepted"),
            {
                "type": "Established",
                "status": "False",
                "reason": "InvalidCABundle",
                "message": "The conversion webhook CABundle is invalid",
                "lastTransitionTime": "2025-06-07T08:09:10Z",
            },
        ],
    )
    fake.delete("as")
    fake.settle()
    assert fake.conflict("bs") == ""
    assert fake.established("bs") == "False/Installing"
    assert fake.objects["bs.g.io"]["status"]["conditions"][1]["lastTransitionTime"] == "2025-06-07T08:09:10Z"


@behaviour("naming/X32")
def test_foreign_conditions_keep_their_place(fake: Any) -> None:
    fake.create("as/a")
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
    fake.edit_status("as", conditions=foreign, storedVersions=["v1"])
    fake.settle()
    status = fake.objects["as.g.io"]["status"]
    assert status["conditions"][:2] == foreign
    assert [c["type"] for c in status["conditions"][2:]] == ["NamesAccepted", "Established"]
    assert status["storedVersions"] == ["v1"]
