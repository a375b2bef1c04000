"""Claims: the valid ProviderHosts of a hostname, and which of them holds it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost_hostname.errors import InvalidClaimError
from ctrlhost_hostname.lease import UINT32_MAX, UINT64_MAX, AddressError, LeaseID, normalise_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import ctrlhost

API_VERSION = "akash.network/v2beta2"
KIND = "ProviderHost"

_MAX_NAME_LENGTH = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True)
class Claim:
    """A valid ProviderHost, which routes a hostname to a port of a service of a lease."""

    name: str
    hostname: str
    lease: LeaseID
    service_name: str
    external_port: int
    created: str


def check_hostname(hostname: str) -> None:
    """Raise `InvalidClaimError` unless the hostname can be both a route's name and its host.

    Upper case (which is not folded) and wildcards are invalid, since neither can be in an object's name. A label may be
    longer than 63 characters, since the API server accepts such names.
    """
    if not 1 <= len(hostname) <= _MAX_NAME_LENGTH:
        raise InvalidClaimError("hostname", f"hostname {hostname!r} must have 1 to {_MAX_NAME_LENGTH} characters")
    if not _SUBDOMAIN.fullmatch(hostname):
        raise InvalidClaimError("hostname", f"hostname {hostname!r} is not a lower-case DNS-1123 subdomain")
    try:
        ipaddress.ip_address(hostname)
    except ValueError:
        return
    raise InvalidClaimError("hostname", f"hostname {hostname!r} is an IP address")


def claimed_hostname(host: ctrlhost.Object) -> str:
    """Return the hostname of a ProviderHost; all without one share `""`, so that they are reported too."""
    hostname = host.get_path("spec", "hostname")
    return hostname if isinstance(hostname, str) else ""


def read_claim(host: ctrlhost.Object, prefix: str) -> Claim:
    """Read a ProviderHost whose addresses have this prefix; raises `InvalidClaimError` if it cannot become a route.

    Whether the service and the port exist depends on the Manifest and is not checked.
    """
    hostname = _text(host, "hostname")
    check_hostname(hostname)
    return Claim(
        name=host.name,
        hostname=hostname,
        lease=read_lease(host, prefix),
        service_name=_text(host, "service_name"),
        external_port=_number(host, "external_port", UINT32_MAX),
        created=host.get_path("metadata", "creationTimestamp", default=""),
    )


def read_lease(host: ctrlhost.Object, prefix: str) -> LeaseID:
    """Read the lease of a ProviderHost, with its addresses in lower case; raises `InvalidClaimError`."""
    return LeaseID(
        owner=_address(host, "owner", prefix),
        dseq=_number(host, "dseq", UINT64_MAX),
        gseq=_number(host, "gseq", UINT32_MAX),
        oseq=_number(host, "oseq", UINT32_MAX),
        provider=_address(host, "provider", prefix),
    )


def choose_holder(
    claims: Iterable[Claim], *, flagged: Callable[[LeaseID], bool], incumbents: Collection[LeaseID]
) -> Claim:
    """Choose the claim that gets the hostname; the same objects give the same answer at any time.

    `incumbents` are the leases with a live route, normally one at most. `claims` must not be empty.
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


def _text(host: ctrlhost.Object, key: str) -> str:
    value = host.get_path("spec", key, default="")
    if not isinstance(value, str):
        raise InvalidClaimError("decode", f"spec.{key} must be a string, got {value!r}")
    return value


def _number(host: ctrlhost.Object, key: str, maximum: int) -> int:
    value = host.get_path("spec", key, default=0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
        raise InvalidClaimError("decode", f"spec.{key} must be an integer from 0 to {maximum}, got {value!r}")
    return value


def _address(host: ctrlhost.Object, key: str, prefix: str) -> str:
    try:
        return normalise_address(_text(host, key), prefix)
    except AddressError as error:
        raise InvalidClaimError("address", f"spec.{key}: {error}") from error
