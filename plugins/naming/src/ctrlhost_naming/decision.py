"""Decide about one CustomResourceDefinition: which names it gets, and which status to write. Pure."""

from __future__ import annotations

import base64
import binascii
import enum
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost import conditions as status_conditions
from ctrlhost_naming.conditions import (
    INITIAL_NAMES_ACCEPTED,
    INSTALLING,
    INVALID_CA_BUNDLE,
    NAMES_ACCEPTED,
    NO_CONFLICTS,
    NOT_ACCEPTED,
    Condition,
    is_true,
)
from ctrlhost_naming.names import Field, Names, Space

if TYPE_CHECKING:
    from ctrlhost import Clock
    from ctrlhost_naming.crd import Crd


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


class Mode(enum.Enum):
    """How far the plugin goes."""

    OBSERVE = "observe"
    """Compare and report; write nothing."""
    REPAIR = "repair"
    """Observe, and put right the one state that the API server's own controller never leaves."""
    ENFORCE = "enforce"
    """Be the naming controller, where there is none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one CRD. `calculation` is None where the names were not looked at because all is well."""

    calculation: Calculation | None
    differs: bool
    """The status is not what the calculation gives."""
    write: bool


def decide(crd: Crd, used: Used, mode: Mode) -> Decision:
    """Decide about one CRD.

    A CRD that has what it asks for is left alone only if its condition says so too. The API server looks at the names
    alone, and so leaves a CRD that gave up a conflicting name at NamesAccepted False for ever: `repair` cures that.
    """
    if crd.satisfied and is_true(crd.names_accepted):
        return Decision(None, differs=False, write=False)
    calculation = calculate(crd.requested, crd.accepted, crd.established, used)
    differs = calculation.accepted != crd.accepted or calculation.names_accepted != crd.names_accepted
    match mode:
        case Mode.OBSERVE:
            write = False
        case Mode.REPAIR:
            write = crd.satisfied and crd.names_accepted is not None
        case Mode.ENFORCE:
            write = differs
    return Decision(calculation, differs, write)


def status_patch(
    resource_version: str, conditions: Sequence[Mapping[str, Any]], calculation: Calculation, clock: Clock
) -> dict[str, Any]:
    """Give the merge patch for the status subresource.

    It carries the resource version that it is based on, so a stale one is refused, and all conditions, since a merge
    patch replaces lists: those of others are sent back as they came. The rest of the object is not sent, so the cache
    need not hold the schemas, which may be a megabyte.
    """
    said: dict[str, Any] = {"status": {"conditions": plain(conditions)}}
    for condition in (calculation.names_accepted, calculation.established):
        status_conditions.set(said, condition.type, condition.status, condition.reason, condition.message, clock)
    return {
        "metadata": {"resourceVersion": resource_version},
        "status": {**said["status"], "acceptedNames": calculation.accepted.to_merge_patch()},
    }


def plain(value: Any) -> Any:
    """Give a copy of a read-only view that can be changed and sent."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(part) for part in value]
    return value


def is_due(crd: Crd) -> bool:
    """Say whether a CRD has all the names that it asks for now, is told so, and is not established."""
    return crd.satisfied and is_true(crd.names_accepted) and not is_true(crd.established)


def outcome(crd: Crd, raw: Mapping[str, Any]) -> Condition | None:
    """Give the condition to write, None where it stands there already.

    A conversion webhook whose certificates can not be read would make every request fail, so it keeps the CRD from
    being established.
    """
    conversion = raw["spec"].get("conversion") or {}
    bundle = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("caBundle")
    wanted = INITIAL_NAMES_ACCEPTED if not bundle or _is_ca_bundle(bundle) else INVALID_CA_BUNDLE
    return None if crd.established == wanted else wanted


def established_patch(raw: Mapping[str, Any], condition: Condition, clock: Clock) -> dict[str, Any]:
    """Give the merge patch for the status subresource: the resource version that it is based on, and all conditions."""
    conditions = plain((raw.get("status") or {}).get("conditions") or ())
    said: dict[str, Any] = {"status": {"conditions": conditions}}
    status_conditions.set(said, condition.type, condition.status, condition.reason, condition.message, clock)
    return {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, **said}


def _is_ca_bundle(bundle: str) -> bool:
    """Say whether it is base64 of at least one certificate in PEM form."""
    try:
        text = base64.b64decode(bundle, validate=True).decode("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError):
        return False
    return True
