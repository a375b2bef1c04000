"""Claims: which ProviderHosts want a hostname, which of them are valid, and which one holds it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.errors import InvalidClaimError
from ctrlhost_hostname.lease import UINT32_MAX, UINT64_MAX, AddressError, LeaseID, normalise_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

API_VERSION = "akash.network/v2beta2"
KIND = "ProviderHost"

_LONGEST_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True)
class Claim:
    """A valid ProviderHost: the hostname goes to a port of a service of a lease."""

    name: str
    hostname: str
    lease: LeaseID
    service_name: str
    external_port: int
    created: str


def check_hostname(hostname: str) -> None:
    """Raise `InvalidClaimError` unless the hostname can name a route and be its host.

    Upper case is refused rather than folded, and so are wildcards: neither can be an object's name. A label may be
    longer than 63 characters, since the API server takes such names.
    """
    if not 1 <= len(hostname) <= _LONGEST_NAME:
        raise InvalidClaimError("hostname", f"hostname {hostname!r} must have 1 to {_LONGEST_NAME} characters")
    if not _SUBDOMAIN.fullmatch(hostname):
        raise InvalidClaimError("hostname", f"hostname {hostname!r} is not a lower-case DNS-1123 subdomain")
    try:
        ipaddress.ip_address(hostname)
    except ValueError:
        return
    raise InvalidClaimError("hostname", f"hostname {hostname!r} is an IP address")


def claimed_hostname(spec: Mapping[str, Any] | None) -> str:
    """Give the hostname that a ProviderHost's `spec` names, `""` where it names none."""
    hostname = (spec or {}).get("hostname")
    return hostname if isinstance(hostname, str) else ""


def read_claim(name: str, spec: Mapping[str, Any] | None, created: str, prefix: str) -> Claim:
    """Read a ProviderHost; raises `InvalidClaimError` if it can never become a route. `prefix` is that of addresses."""
    fields = spec or {}
    hostname = _text(fields, "hostname")
    check_hostname(hostname)
    return Claim(name, hostname, read_lease(fields, prefix), *_target(fields), created)


def read_lease(spec: Mapping[str, Any] | None, prefix: str) -> LeaseID:
    """Read the lease of a ProviderHost, with its addresses in lower case; raises `InvalidClaimError`."""
    fields = spec or {}
    return LeaseID(
        owner=_address(fields, "owner", prefix),
        dseq=_number(fields, "dseq", UINT64_MAX),
        gseq=_number(fields, "gseq", UINT32_MAX),
        oseq=_number(fields, "oseq", UINT32_MAX),
        provider=_address(fields, "provider", prefix),
    )


def choose_holder(
    claims: Iterable[Claim], *, flagged: Callable[[LeaseID], bool], incumbents: Collection[LeaseID]
) -> Claim:
    """Choose which of several valid claims gets the hostname; the same objects give the same answer at any time.

    `incumbents` are the leases whose route is live: one at most, unless something went wrong. `claims` must not be
    empty.
    """
    return min(
        claims,
        key=lambda claim: (
            flagged(claim.lease),
            claim.name != claim.hostname,
            claim.lease not in incumbents,
            claim.created,
            claim.name,
        ),
    )


def _target(fields: Mapping[str, Any]) -> tuple[str, int]:
    """Read the service and the port; whether they exist is the Manifest's business."""
    return _text(fields, "service_name"), _number(fields, "external_port", UINT32_MAX)


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidClaimError("decode", f"spec.{key} must be a string, not {value!r}")
    return value


def _number(fields: Mapping[str, Any], key: str, greatest: int) -> int:
    value = fields.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= greatest:
        raise InvalidClaimError("decode", f"spec.{key} must be an integer from 0 to {greatest}, not {value!r}")
    return value


def _address(fields: Mapping[str, Any], key: str, prefix: str) -> str:
    try:
        return normalise_address(_text(fields, key), prefix)
    except AddressError as error:
        raise InvalidClaimError("address", f"spec.{key}: {error}") from error
