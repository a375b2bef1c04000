"""Decide about one CustomResourceDefinition: which names it gets, and which status to write. Pure."""

from __future__ import annotations

import base64
import enum
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ctrlhost
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
    from collections.abc import Iterable, Mapping

    from ctrlhost import Clock
    from ctrlhost_naming.crd import Crd

_CERTIFICATE = re.compile(
    rb"^-----BEGIN CERTIFICATE-----[ \t\r]*\n([A-Za-z0-9+/=\s]*)^-----END CERTIFICATE-----[ \t\r]*$", re.MULTILINE
)
Used = Callable[[Space, str], bool]
"""Return whether a name is accepted for some CRD of the group, including the one that is decided about."""


class Mode(enum.Enum):
    """What the plugin may write."""

    OBSERVE = "observe"
    """Compare and report; write nothing."""
    REPAIR = "repair"
    """Also repair the one state that the API server's own controller never leaves."""
    ENFORCE = "enforce"
    """Act as the naming controller of a server that has none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One requested name that is in use."""

    field: Field
    name: str


@dataclass(frozen=True, slots=True)
class Calculation:
    """The expected status of one CRD."""

    accepted: Names
    names_accepted: Condition
    established: Condition
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one CRD. Without `calculation` its names were not checked, because its status is right."""

    calculation: Calculation | None
    differs: bool
    """The status is not the calculated one."""
    write: bool


def decide(crd: Crd, used: Used, mode: Mode) -> Decision:
    """Decide about one CRD.

    A CRD that has its names is skipped only if its condition agrees. The API server compares the names alone, so a CRD
    that gave up a conflicting name keeps NamesAccepted False for ever, and one without conditions never gets any:
    `repair` fixes both.
    """
    if crd.satisfied and is_true(crd.names_accepted):
        return Decision(None, differs=False, write=False)
    calculation = calculate(crd.requested, crd.accepted, crd.established, used)
    differs = calculation.accepted != crd.accepted or calculation.names_accepted != crd.names_accepted
    match mode:
        case Mode.OBSERVE:
            write = False
        case Mode.REPAIR:
            write = crd.satisfied
        case Mode.ENFORCE:
            write = differs
    return Decision(calculation, differs, write)


def calculate(requested: Names, accepted: Names, established: Condition | None, used: Used) -> Calculation:
    """Accept every field of `requested` whose names are free; the others keep their accepted value.

    A name is free if the field already has it, or if no CRD of the group has it. The short names are accepted together
    or not at all. Like the API server, the condition reports the last conflicting field.
    """
    refusals: list[Refusal] = []
    values: dict[str, Any] = {"categories": requested.categories}
    for field in Field:
        own = accepted.in_field(field)
        taken = [name for name in requested.in_field(field) if name not in own and used(field.space, name)]
        refusals.extend(Refusal(field, name) for name in taken)
        values[field.attribute] = getattr(accepted if taken else requested, field.attribute)
    condition = _names_accepted(refusals)
    established = next_established(established, is_true(condition))
    return Calculation(Names(**values), condition, established, tuple(refusals))


def next_established(old: Condition | None, names_ok: bool) -> Condition:
    """Return Established for its old value and whether all names are accepted.

    True is never withdrawn, since clients would lose a served resource. Naming never sets True either: the establishing
    step does, once the resource is served.
    """
    if old is not None and is_true(old):
        return old
    if names_ok:
        return INSTALLING
    return NOT_ACCEPTED if old is None else old


def unmet(requested: Names, accepted: Names) -> frozenset[tuple[Space, str]]:
    """Return every requested name that the CRD does not have in that field: any change of its owner concerns the CRD.

    These are not only names in use: when a second short name becomes used, the message about the first one changes.
    """
    return frozenset(
        (field.space, name)
        for field in Field
        for name in requested.in_field(field)
        if name not in accepted.in_field(field)
    )


def _names_accepted(refusals: list[Refusal]) -> Condition:
    """Return the condition, with the last conflicting field's messages, each once."""
    if not refusals:
        return NO_CONFLICTS
    last = refusals[-1].field
    texts = list(dict.fromkeys(f'"{r.name}" is already in use' for r in refusals if r.field is last))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Condition(NAMES_ACCEPTED, "False", last.reason, message)


def should_establish(crd: Crd) -> bool:
    """Return whether a CRD has all requested names, says so, and is not established."""
    return crd.satisfied and is_true(crd.names_accepted) and not is_true(crd.established)


def established_condition(crd: Crd, raw: Mapping[str, Any]) -> Condition | None:
    """Return the condition to write, or None if it is already set.

    A conversion webhook with unreadable certificates would fail every request, so it prevents establishing.
    """
    conversion = raw["spec"].get("conversion") or {}
    bundle = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("caBundle")
    wanted = INITIAL_NAMES_ACCEPTED if not bundle or _is_ca_bundle(bundle) else INVALID_CA_BUNDLE
    return None if crd.established == wanted else wanted


def _is_ca_bundle(bundle: str) -> bool:
    """Return whether the text is the base64 form of at least one valid PEM certificate.

    Anything else in it is ignored, as by `AppendCertsFromPEM` of Go's crypto/x509, which kube-apiserver uses.
    """
    try:
        pem = base64.b64decode(bundle, validate=True)
    except ValueError:
        return False
    return any(_is_certificate(block) for block in _CERTIFICATE.findall(pem))


def _is_certificate(block: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=base64.b64decode(block))
    except (ssl.SSLError, ValueError):
        return False
    return True


def status_patch(
    raw: Mapping[str, Any], changes: Iterable[Condition], clock: Clock, accepted: Names | None = None
) -> dict[str, Any]:
    """Return the merge patch of the status with changed conditions and, if given, accepted names.

    It contains the resource version that it is based on, so that a stale patch fails. A merge patch replaces lists, so
    it repeats the conditions of others. The schemas, which may be a megabyte, are not sent and need not be cached.
    """
    conditions = ctrlhost.plain((raw.get("status") or {}).get("conditions") or [])
    patched: dict[str, Any] = {"status": {"conditions": conditions}}
    for change in changes:
        status_conditions.set(patched, change.type, change.status, change.reason, change.message, clock)
    if accepted is not None:
        patched["status"]["acceptedNames"] = accepted.to_merge_patch()
    return {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, **patched}
