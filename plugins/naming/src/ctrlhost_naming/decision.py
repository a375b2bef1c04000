"""Decide about one CustomResourceDefinition: which names it gets, and which status to write. Pure."""

from __future__ import annotations

import base64
import enum
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_naming.crd import (
    INITIAL_NAMES_ACCEPTED,
    INSTALLING,
    INVALID_CA_BUNDLE,
    NAMES_ACCEPTED,
    NO_CONFLICTS,
    NOT_ACCEPTED,
    Condition,
    Field,
    Names,
    Space,
)

if TYPE_CHECKING:
    from ctrlhost_naming.crd import Crd

_CERTIFICATE = re.compile(
    rb"^-----BEGIN CERTIFICATE-----[ \t\r]*\n([A-Za-z0-9+/=\s]*)^-----END CERTIFICATE-----[ \t\r]*$", re.MULTILINE
)
Owners = Callable[[Space, str], tuple[str, ...]]
"""Return the CRDs of the group for which a name is accepted, including the one that is decided about."""


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
    """One requested name that is in use, and the CRDs that hold it."""

    field: Field
    name: str
    owners: tuple[str, ...]

    def __str__(self) -> str:
        """Return the text for logs, events and the page."""
        return f'{self.field.label} "{self.name}" held by {", ".join(self.owners)}'


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


def decide(crd: Crd, owners: Owners, mode: Mode) -> Decision:
    """Decide about one CRD.

    A CRD that has its names is skipped only if its condition agrees. The API server compares the names alone, so a CRD
    that gave up a conflicting name keeps NamesAccepted False for ever, and one without conditions never gets any:
    `repair` fixes both.
    """
    if crd.is_named:
        return Decision(None, differs=False, write=False)
    calculation = calculate(crd.requested, crd.accepted, crd.established, owners)
    differs = calculation.accepted != crd.accepted or calculation.names_accepted != crd.names_accepted
    match mode:
        case Mode.OBSERVE:
            write = False
        case Mode.REPAIR:
            write = crd.satisfied
        case Mode.ENFORCE:
            write = differs
    return Decision(calculation, differs, write)


def calculate(requested: Names, accepted: Names, established: Condition | None, owners: Owners) -> Calculation:
    """Accept every field of `requested` whose names are free; the others keep their accepted value.

    A name is free if the field already has it, or if no CRD of the group has it. The short names are accepted together
    or not at all. Like the API server, the condition reports the last conflicting field.
    """
    refusals: list[Refusal] = []
    values: dict[str, Any] = {"categories": requested.categories}
    for field in Field:
        own = accepted.in_field(field)
        taken = [
            Refusal(field, name, holders)
            for name in requested.in_field(field)
            if name not in own and (holders := owners(field.space, name))
        ]
        refusals += taken
        values[field.attribute] = getattr(accepted if taken else requested, field.attribute)
    condition = _names_accepted(refusals)
    established = next_established(established, names_ok=condition.is_true)
    return Calculation(Names(**values), condition, established, tuple(refusals))


def next_established(old: Condition | None, *, names_ok: bool) -> Condition:
    """Return Established for its old value and whether all names are accepted.

    True is never withdrawn, since clients would lose a served resource. Naming never sets True either: the establishing
    step does, once the resource is served.
    """
    if old is not None and old.is_true:
        return old
    if names_ok:
        return INSTALLING
    return NOT_ACCEPTED if old is None else old


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
    return crd.is_named and not (crd.established is not None and crd.established.is_true)


def established_condition(crd: Crd) -> Condition:
    """Return Established for a CRD with all its names.

    A conversion webhook with unreadable certificates would fail every request, so it prevents establishing.
    """
    webhook = (crd.spec.conversion or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return INITIAL_NAMES_ACCEPTED if not bundle or _is_ca_bundle(bundle) else INVALID_CA_BUNDLE


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
