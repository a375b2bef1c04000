"""Properties that hold after any history of creations, renames and deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_naming.crd import Crd, Space
from ctrlhost_naming.decision import Mode, calculate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlhost import Object

if TYPE_CHECKING:
    from collections.abc import Callable

behaviour = pytest.mark.behaviour

PLURALS = ["as", "bs", "cs", "ds", "es"]
RESOURCES = [*PLURALS, "n1", "n2", "n3", "n4"]
KINDS = ["A", "AList", "B", "BList", "C", "CList"]

short_names = st.lists(st.sampled_from(RESOURCES), max_size=3)
create = st.tuples(
    st.just("create"), st.sampled_from(PLURALS), st.sampled_from(RESOURCES), st.sampled_from(KINDS), short_names
)
rename = st.tuples(
    st.just("rename"), st.sampled_from(PLURALS), st.sampled_from(RESOURCES), st.sampled_from(KINDS), short_names
)
delete = st.tuples(st.just("delete"), st.sampled_from(PLURALS))
settle = st.just(("settle",))
histories = st.lists(st.one_of(create, create, rename, rename, delete, settle), max_size=50)


def play(fake: Any, history: list[tuple[Any, ...]]) -> int:
    """Apply the operations that an API server would allow; return their number."""
    done = 0
    for age, (operation, *arguments) in enumerate(history):
        if operation == "settle":
            fake.settle()
            continue
        plural = arguments[0]
        exists = fake.key(plural) in fake.objects
        if operation == "delete":
            if exists:
                fake.delete(plural)
                done += 1
            continue
        _, singular, kind, short = arguments
        changed = {"singular": singular, "kind": kind, "listKind": f"{kind}List", "shortNames": short}
        if operation == "create" and not exists:
            fake.create(f"{plural}/{singular}/{kind}/{kind}List[{', '.join(short)}]", created=age)
            done += 1
        elif operation == "rename" and exists:
            fake.edit(plural, **changed)
            done += 1
    fake.settle()
    return done


def crds(fake: Any) -> list[Crd]:
    return [fake.get(name.partition(".")[0]) for name in fake.objects]


def double_owners(fake: Any) -> list[tuple[Any, ...]]:
    owners: dict[tuple[Any, ...], set[str]] = {}
    for known in crds(fake):
        for space, name in known.accepted.held():
            owners.setdefault((known.group, space, name), set()).add(known.name)
    return [name for name, holders in owners.items() if len(holders) > 1]


def disagreements(fake: Any) -> list[str]:
    """Return the CRDs that a calculation without the index would write."""
    holders = []
    everyone = crds(fake)
    held = {(known.group, *name) for known in everyone for name in known.accepted.held()}
    for known in everyone:

        def owners(space: Space, name: str, group: str = known.group) -> tuple[str, ...]:
            return ("some",) if (group, space, name) in held else ()

        result = calculate(known.requested, known.accepted, known.established, owners)
        if (result.accepted, result.names_accepted) != (known.accepted, known.names_accepted):
            holders.append(known.name)
    return holders


relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@behaviour("naming/J1")
@behaviour("naming/J2")
@behaviour("naming/J3")
@behaviour("naming/Z4")
@behaviour("naming/Z5")
@relaxed
@given(history=histories)
def test_any_history_ends_stable_with_one_owner_per_name(
    new_fake: Callable[..., Any], history: list[tuple[Any, ...]]
) -> None:
    fake = new_fake()
    operations = play(fake, history)

    assert double_owners(fake) == []
    assert disagreements(fake) == []
    names = {name for op in history if op[0] in {"create", "rename"} for name in (*op[1:4], f"{op[3]}List", *op[4])}
    for known in crds(fake):
        assert {name for _, name in known.accepted.held()} <= names
        assert not known.accepted.kind or known.accepted.kind != known.accepted.listKind
    assert fake.writes <= 20 * operations


@behaviour("naming/Z4")
@relaxed
@given(history=histories)
def test_requeuing_waiters_ends_where_requeuing_everything_does(
    new_fake: Callable[..., Any], history: list[tuple[Any, ...]]
) -> None:
    ours, reference = new_fake(), new_fake(requeue_all=True)
    play(ours, history)
    play(reference, history)
    # Another waiter may get a released name, with all consequences. But both must be stable, and neither may accept a
    # name twice.
    for fake in (ours, reference):
        assert disagreements(fake) == []
        assert double_owners(fake) == []
    assert ours.objects.keys() == reference.objects.keys()
    # Another winner may cause one more sync per step, but never a pass over the group.
    assert ours.syncs <= reference.syncs + len(history)


@behaviour("naming/J4")
@behaviour("naming/J5")
@behaviour("naming/J6")
@behaviour("naming/J8")
@relaxed
@given(history=histories, established=st.sets(st.sampled_from(PLURALS)))
def test_each_write_keeps_all_other_fields(
    new_fake: Callable[..., Any], history: list[tuple[Any, ...]], established: set[str]
) -> None:
    fake = new_fake()
    foreign = {"type": "NonStructuralSchema", "status": "True", "reason": "Violations", "message": "x", "extra": 1}
    for step in history:
        play(fake, [step])
        for obj in list(fake.objects.values()):
            if foreign not in obj["status"].get("conditions", ()):
                fake.edit_status(
                    obj["metadata"]["name"].partition(".")[0],
                    conditions=[foreign, *obj["status"].get("conditions", ())],
                )
        for plural in established:
            if fake.key(plural) in fake.objects and fake.established(plural) == "False/Installing":
                fake.establish(plural)
                fake.settle()

    for old, new in fake.written:
        was, now = Object(old).decode(Crd), Object(new).decode(Crd)
        assert (was.accepted, was.names_accepted) != (now.accepted, now.names_accepted)
        for field in ("plural", "singular", "kind", "listKind", "shortNames"):
            assert getattr(now.accepted, field) in (getattr(was.accepted, field), getattr(now.requested, field))
        if was.established and was.established.status == "True":
            assert now.established == was.established
        assert new["spec"] == old["spec"]
        assert {**new["metadata"], "resourceVersion": ""} == {**old["metadata"], "resourceVersion": ""}
        assert new["status"]["storedVersions"] == old["status"]["storedVersions"]
        others, kept = (
            [condition for condition in obj["status"].get("conditions", ()) if condition["type"] == foreign["type"]]
            for obj in (old, new)
        )
        assert kept == others


@behaviour("naming/J7")
@relaxed
@given(history=histories, mode=st.sampled_from([Mode.OBSERVE, Mode.REPAIR]))
def test_observe_writes_nothing_and_repair_only_outdated_conditions(
    new_fake: Callable[..., Any], history: list[tuple[Any, ...]], mode: Mode
) -> None:
    server = new_fake()
    play(server, history)
    ours = new_fake(mode)
    ours.showing(server)
    stale = [
        known.name
        for known in crds(ours)
        if known.satisfied and known.names_accepted and known.names_accepted.status != "True"
    ]
    ours.settle()
    written = [old["metadata"]["name"] for old, _ in ours.written]
    assert written == ([] if mode is Mode.OBSERVE else stale)
    assert ours.writes == len(written)


@relaxed
@given(history=histories)
def test_with_own_names_allowed_a_crd_never_waits_for_itself(
    new_fake: Callable[..., Any], history: list[tuple[Any, ...]]
) -> None:
    fake = new_fake(allow_own=True)
    play(fake, history)
    assert double_owners(fake) == []
    for name, entry in fake.state.ledger.entries().items():
        for refusal in entry.refusals:
            assert set(refusal.owners) - {name} or refusal.field.space is Space.KINDS
