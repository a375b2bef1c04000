"""When certificates and tokens expire, in seconds since the epoch."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime

import msgspec

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
#: DER tags of X.509 (RFC 5280, 4.1).
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
#: UTCTime has two digits for the year, of which these and larger ones are in the 20th century.
_FIRST_OF_LAST_CENTURY = 50


class _Claims(msgspec.Struct):
    exp: float | None = None


def certificate_expiry(pem: bytes) -> float | None:
    """Return when the first certificate of a chain expires; None if there is no readable one."""
    validity = certificate_validity(pem)
    return None if validity is None else validity[1]


def certificate_validity(pem: bytes) -> tuple[float, float] | None:
    """Return from when until when the first certificate of a chain is valid; None if there is no readable one."""
    match = _CERTIFICATE.search(pem)
    if match is None:
        return None
    try:
        _, certificate, _ = _element(base64.b64decode(b"".join(match[1].split()), validate=True), _SEQUENCE)
        _, fields, _ = _element(certificate, _SEQUENCE)
        if fields[0] == _VERSION:
            _, _, fields = _element(fields)
        # The serial number, the algorithm and the issuer.
        for _ in range(3):
            _, _, fields = _element(fields)
        _, validity, _ = _element(fields, _SEQUENCE)
        first, start, validity = _element(validity)
        last, end, _ = _element(validity)
        return _moment(first, start.decode("ascii")), _moment(last, end.decode("ascii"))
    except (ValueError, IndexError):
        return None


def token_expiry(header: str | None) -> float | None:
    """Return when the token of an `Authorization` header expires; None unless it is a JWT that says so."""
    scheme, _, token = (header or "").partition(" ")
    parts = token.split(".")
    if scheme != "Bearer" or len(parts) != 3:
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except (ValueError, msgspec.DecodeError):
        return None


def earliest(*moments: float | None) -> float | None:
    """Return the first of the moments that are known."""
    return min((moment for moment in moments if moment is not None), default=None)


def _element(data: bytes, expected: int | None = None) -> tuple[int, bytes, bytes]:
    """Split the first DER element off; return its tag, its content and the rest. ValueError if it is malformed."""
    tag, length, start = data[0], data[1], 2
    if length >= 0x80:
        start += length - 0x80
        length = int.from_bytes(data[2:start], "big")
    if (expected is not None and tag != expected) or start + length > len(data):
        raise ValueError("malformed DER")
    return tag, data[start : start + length], data[start + length :]


def _moment(tag: int, text: str) -> float:
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= _FIRST_OF_LAST_CENTURY else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("not a time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
