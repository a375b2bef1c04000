"""The identity of a lease: its five parts, its namespace, its labels."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGED_LABEL = "akash.network"
_PREFIX = "akash.network/lease.id."
OWNER_LABEL = f"{_PREFIX}owner"
DSEQ_LABEL = f"{_PREFIX}dseq"
GSEQ_LABEL = f"{_PREFIX}gseq"
OSEQ_LABEL = f"{_PREFIX}oseq"
PROVIDER_LABEL = f"{_PREFIX}provider"

UINT16_MAX = 2**16 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1


class LabelError(ValueError):
    """The labels of an object do not name a lease; the message has the label."""


@dataclass(frozen=True)
class LeaseID:
    """What makes two leases the same: all five parts. Addresses are kept as they are and not checked here."""

    owner: str
    dseq: int
    gseq: int
    oseq: int
    provider: str

    def __str__(self) -> str:
        """Give the canonical text, from which the namespace is computed."""
        return f"{self.owner}/{self.dseq}/{self.gseq}/{self.oseq}/{self.provider}"

    @cached_property
    def namespace(self) -> str:
        """The Kubernetes namespace of the lease: 45 characters of lower-case base32hex."""
        digest = hashlib.sha224(str(self).encode()).digest()
        return base64.b32hexencode(digest).decode().rstrip("=").lower()

    @cached_property
    def labels(self) -> dict[str, str]:
        """The six labels of everything that is written for the lease."""
        return {
            MANAGED_LABEL: "true",
            OWNER_LABEL: self.owner,
            DSEQ_LABEL: str(self.dseq),
            GSEQ_LABEL: str(self.gseq),
            OSEQ_LABEL: str(self.oseq),
            PROVIDER_LABEL: self.provider,
        }

    @property
    def removal_selector(self) -> str:
        """The label selector under which a route of the lease is removed; upstream leaves the provider out."""
        labels = self.labels
        return ",".join(f"{key}={labels[key]}" for key in (OWNER_LABEL, DSEQ_LABEL, GSEQ_LABEL, OSEQ_LABEL))

    def as_json(self) -> dict[str, Any]:
        """Give the lease as upstream's JSON shows it, `bseq` included, which is always 0."""
        return {
            "owner": self.owner,
            "dseq": self.dseq,
            "gseq": self.gseq,
            "oseq": self.oseq,
            "provider": self.provider,
            "bseq": 0,
        }


def lease_from_labels(labels: Mapping[str, str]) -> LeaseID:
    """Recover the lease from an object's labels; raises `LabelError` with upstream's text."""
    for key in (DSEQ_LABEL, GSEQ_LABEL, OSEQ_LABEL, OWNER_LABEL, PROVIDER_LABEL):
        if key not in labels:
            raise LabelError(f'kube: missing label: "{key}"')
    return LeaseID(
        dseq=_number(labels, DSEQ_LABEL, UINT64_MAX),
        gseq=_number(labels, GSEQ_LABEL, UINT32_MAX),
        oseq=_number(labels, OSEQ_LABEL, UINT32_MAX),
        owner=labels[OWNER_LABEL],
        provider=labels[PROVIDER_LABEL],
    )


def _number(labels: Mapping[str, str], key: str, greatest: int) -> int:
    """Read a label as an unsigned decimal number without sign and blanks."""
    text = labels[key]
    if not (text.isascii() and text.isdigit()) or int(text) > greatest:
        raise LabelError(f'kube: invalid label value: {key.removeprefix(_PREFIX)} "{text}" not a uint')
    return int(text)
