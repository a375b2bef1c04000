"""Claims: the valid ProviderHosts of a hostname, and which of them holds it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

import ctrlhost
from ctrlhost_hostname.errors import InvalidClaimError
from ctrlhost_hostname.lease import UINT32_MAX, UINT64_MAX, AddressError, LeaseID, normalise_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

#: The apiVersion and the kind.
PROVIDER_HOST = ("akash.network/v2beta2", "ProviderHost")
_MAX_NAME_LENGTH = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LIMITS = {"dseq": UINT64_MAX, "gseq": UINT32_MAX, "oseq": UINT32_MAX, "external_port": UINT32_MAX}


class ProviderHostSpec(msgspec.Struct, frozen=True):
    """A hostname, and the port of a service of a lease that it leads to; limits are checked by `read_claim`."""

    owner: str = ""
    provider: str = ""
    hostname: str = ""
    dseq: int = 0
    gseq: int = 0
    oseq: int = 0
    service_name: str = ""
    external_port: int = 0


@ctrlhost.resource(PROVIDER_HOST[0])
class ProviderHost(ctrlhost.Model[ProviderHostSpec, ctrlhost.ModelStatus]):
    """Declares a hostname."""

    spec: ProviderHostSpec = ProviderHostSpec()

    @property
    def unchecked_lease(self) -> LeaseID:
        """The lease as it is written, with its addresses in lower case."""
        spec = self.spec
        return LeaseID(spec.owner.lower(), spec.dseq, spec.gseq, spec.oseq, spec.provider.lower())


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


def read_claim(host: ProviderHost, prefix: str) -> Claim:
    """Read a ProviderHost whose addresses have this prefix; raises `InvalidClaimError` if it cannot become a route.

    Whether the service and the port exist depends on the Manifest and is not checked.
    """
    spec = host.spec
    check_hostname(spec.hostname)
    for key, maximum in _LIMITS.items():
        if not 0 <= (value := getattr(spec, key)) <= maximum:
            raise InvalidClaimError("decode", f"spec.{key} must be an integer from 0 to {maximum}, got {value}")
    for key in ("owner", "provider"):
        try:
            normalise_address(getattr(spec, key), prefix)
        except AddressError as error:
            raise InvalidClaimError("address", f"spec.{key}: {error}") from error
    return Claim(
        name=host.metadata.name,
        hostname=spec.hostname,
        lease=host.unchecked_lease,
        service_name=spec.service_name,
        external_port=spec.external_port,
        created=str(host.metadata.creationTimestamp or ""),
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
