"""The identity of a lease: its bech32 addresses, its five parts, its namespace and its labels."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_VALUES = {character: value for value, character in enumerate(_CHARSET)}
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_CONSTANT = 1
_CHECKSUM_LENGTH = 6
_MAX_LENGTH = 1023
_MAX_ADDRESS_BYTES = 255


class AddressError(ValueError):
    """The text is not an account address; the message says why."""


def normalise_address(text: str, prefix: str) -> str:
    """Return the canonical (lower-case) form of an account address, as the Cosmos SDK reads it.

    Raises `AddressError` if the text does not decode or has another prefix. The owner of the account is not checked.
    """
    if not text.strip():
        raise AddressError("empty address string is not allowed")
    actual, words = _decode(text)
    if actual != prefix:
        raise AddressError(f"invalid Bech32 prefix; expected {prefix}, got {actual}")
    length = _byte_length(words)
    if length == 0:
        raise AddressError("addresses cannot be empty")
    if length > _MAX_ADDRESS_BYTES:
        raise AddressError(f"address max length is {_MAX_ADDRESS_BYTES}, got {length}")
    return text.lower()


def _decode(text: str) -> tuple[str, list[int]]:
    """Split a BIP 173 address into its prefix and its five-bit words, after verifying and removing the checksum."""
    if len(text) > _MAX_LENGTH:
        raise AddressError(f"decoding bech32 failed: invalid bech32 string length {len(text)}")
    if any(not 33 <= ord(character) <= 126 for character in text):
        raise AddressError("decoding bech32 failed: invalid character in string")
    if text not in (text.lower(), text.upper()):
        raise AddressError("decoding bech32 failed: string not all lowercase or all uppercase")
    text = text.lower()
    separator = text.rfind("1")
    if separator < 1 or separator + 1 + _CHECKSUM_LENGTH > len(text):
        raise AddressError(f"decoding bech32 failed: invalid separator index {separator}")
    prefix, payload = text[:separator], text[separator + 1 :]
    foreign = next((character for character in payload if character not in _VALUES), None)
    if foreign is not None:
        raise AddressError(f"decoding bech32 failed: invalid character not part of charset: {foreign!r}")
    words = [_VALUES[character] for character in payload]
    # The checksum covers the prefix too.
    expanded = [*(ord(letter) >> 5 for letter in prefix), 0, *(ord(letter) & 31 for letter in prefix)]
    if _polymod(expanded + words) != _BECH32_CONSTANT:
        raise AddressError("decoding bech32 failed: invalid checksum")
    return prefix, words[:-_CHECKSUM_LENGTH]


def _byte_length(words: list[int]) -> int:
    """Count the whole bytes in five-bit words; the remaining bits must be few and zero."""
    length, rest = divmod(len(words) * 5, 8)
    if rest > 4 or (rest and words[-1] & (1 << rest) - 1):
        raise AddressError("decoding bech32 failed: invalid incomplete group")
    return length


def _polymod(words: list[int]) -> int:
    """Compute the BCH remainder; it is `_BECH32_CONSTANT` for a valid checksum."""
    remainder = 1
    for word in words:
        top = remainder >> 25
        remainder = (remainder & 0x1FFFFFF) << 5 ^ word
        for position, generator in enumerate(_GENERATOR):
            if top >> position & 1:
                remainder ^= generator
    return remainder


UINT16_MAX, UINT32_MAX, UINT64_MAX = 2**16 - 1, 2**32 - 1, 2**64 - 1
_PREFIX = "akash.network/lease.id."


class LabelError(ValueError):
    """The labels of an object do not name a lease; the message names the label."""


@dataclass(frozen=True)
class LeaseID:
    """The five parts that identify a lease. Addresses are kept as given and not checked here."""

    owner: str
    dseq: int
    gseq: int
    oseq: int
    provider: str

    def __str__(self) -> str:
        """Return the canonical text, from which the namespace is computed."""
        return f"{self.owner}/{self.dseq}/{self.gseq}/{self.oseq}/{self.provider}"

    @cached_property
    def namespace(self) -> str:
        """The Kubernetes namespace of the lease: 45 characters of lower-case base32hex."""
        digest = hashlib.sha224(str(self).encode()).digest()
        return base64.b32hexencode(digest).decode().rstrip("=").lower()

    @property
    def labels(self) -> dict[str, str]:
        """The six labels of every object that is written for the lease."""
        return {"akash.network": "true"} | {f"{_PREFIX}{part}": str(value) for part, value in asdict(self).items()}

    def as_json(self) -> dict[str, Any]:
        """Return the lease as upstream's JSON shows it, including `bseq`, which is always 0."""
        return {**asdict(self), "bseq": 0}


def lease_from_labels(labels: Mapping[str, str]) -> LeaseID:
    """Return the lease that an object's labels name; raises `LabelError` with upstream's text."""
    for part in ("dseq", "gseq", "oseq", "owner", "provider"):
        if f"{_PREFIX}{part}" not in labels:
            raise LabelError(f'kube: missing label: "{_PREFIX}{part}"')
    numbers = {"dseq": UINT64_MAX, "gseq": UINT32_MAX, "oseq": UINT32_MAX}
    parts: dict[str, Any] = {part: labels[f"{_PREFIX}{part}"] for part in ("owner", "provider")}
    for part, maximum in numbers.items():
        text = labels[f"{_PREFIX}{part}"]
        # Without sign or blanks.
        if not (text.isascii() and text.isdigit()) or int(text) > maximum:
            raise LabelError(f'kube: invalid label value: {part} "{text}" not a uint')
        parts[part] = int(text)
    return LeaseID(**parts)
