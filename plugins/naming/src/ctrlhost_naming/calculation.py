"""Which of the requested names are accepted. Pure: names in, names and conditions out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ctrlhost_naming.conditions import (
    INSTALLING,
    NAMES_ACCEPTED,
    NO_CONFLICTS,
    NOT_ACCEPTED,
    Condition,
    is_true,
)
from ctrlhost_naming.names import Field, Names, Space

Used = Callable[[Space, str], bool]
"""Say whether a name is accepted for some CRD of the group, the one that asks included."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One requested name that is in use."""

    field: Field
    name: str


@dataclass(frozen=True, slots=True)
class Calculation:
    """What the status of one CRD should say."""

    accepted: Names
    names_accepted: Condition
    established: Condition
    refusals: tuple[Refusal, ...]


def calculate(requested: Names, accepted: Names, established: Condition | None, used: Used) -> Calculation:
    """Accept what can be accepted of `requested`, field by field, and keep the earlier value of the others.

    A name is free if it is the field's own accepted value or nobody's in the group. The short names are one block:
    all of them or none. Of several conflicts the last field's is told, as the API server has always done.
    """
    refusals: list[Refusal] = []
    result = Names(categories=requested.categories)
    for field in Field:
        if field is Field.SHORT_NAMES:
            taken = _refused_short_names(requested, accepted, used)
            refusals.extend(Refusal(field, name) for name in taken)
            result = replace(result, short_names=accepted.short_names if taken else requested.short_names)
            continue
        wanted, own = requested.single(field), accepted.single(field)
        free = wanted == own or not used(field.space, wanted)
        if not free:
            refusals.append(Refusal(field, wanted))
        result = _with(result, field, wanted if free else own)
    condition = _names_accepted(refusals)
    return Calculation(result, condition, next_established(established, is_true(condition)), tuple(refusals))


def next_established(old: Condition | None, names_ok: bool) -> Condition:
    """Give Established from its old value and whether all names are accepted.

    True stays True for good: taking a served resource away would lose its clients. Naming never sets True; that is the
    establishing step's, which makes sure that the resource is served first.
    """
    if old is not None and is_true(old):
        return old
    if names_ok:
        return INSTALLING
    return NOT_ACCEPTED if old is None else old


def unmet(requested: Names, accepted: Names) -> frozenset[tuple[Space, str]]:
    """Give every requested name that the CRD does not have in that field: any change of who holds it concerns the CRD.

    That is more than the names that are in use: a name that becomes used changes the message of a block of short names
    that another name keeps from being accepted.
    """
    names: set[tuple[Space, str]] = set()
    for field in Field:
        if field is Field.SHORT_NAMES:
            if requested.short_names != accepted.short_names:
                names.update((field.space, n) for n in requested.short_names if n not in accepted.short_names)
        elif requested.single(field) != accepted.single(field):
            names.add((field.space, requested.single(field)))
    names.discard((Space.RESOURCES, ""))
    names.discard((Space.KINDS, ""))
    return frozenset(names)


def _refused_short_names(requested: Names, accepted: Names, used: Used) -> list[str]:
    """Give the requested short names that are neither accepted already nor free, in their order."""
    if requested.short_names == accepted.short_names:
        return []
    own = frozenset(accepted.short_names)
    return [name for name in requested.short_names if name not in own and used(Space.RESOURCES, name)]


def _with(names: Names, field: Field, value: str) -> Names:
    """Give `names` with one field set."""
    match field:
        case Field.PLURAL:
            return replace(names, plural=value)
        case Field.SINGULAR:
            return replace(names, singular=value)
        case Field.KIND:
            return replace(names, kind=value)
        case _:
            return replace(names, list_kind=value)


def _names_accepted(refusals: list[Refusal]) -> Condition:
    """Give the condition: the last conflicting field's, with each text once."""
    if not refusals:
        return NO_CONFLICTS
    last = refusals[-1].field
    texts = list(dict.fromkeys(f'"{r.name}" is already in use' for r in refusals if r.field is last))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Condition(NAMES_ACCEPTED, "False", last.reason, message)
