"""The key that signs the tokens of service accounts, and its public half for others (JSON web keys, RFC 7517)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ALGORITHM = "ES256"
_BYTES = 32
_SCHEME = ec.ECDSA(hashes.SHA256())


class SigningKey:
    """A new key on the curve P-256."""

    def __init__(self) -> None:
        """Generate the key. Its id is the hash of the public half, as in kube-apiserver."""
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._public = self._private.public_key()
        encoded = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = encode(hashlib.sha256(encoded).digest())

    def sign(self, data: bytes) -> str:
        """Return the signature of `data`, encoded."""
        parts = decode_dss_signature(self._private.sign(data, _SCHEME))
        return encode(b"".join(map(_number, parts)))

    def signed(self, data: bytes, signature: str) -> bool:
        """Return whether this key made the signature."""
        try:
            raw = decode(signature)
            first, second = raw[:_BYTES], raw[_BYTES:]
            if len(second) != _BYTES or encode(raw) != signature:
                return False
            pair = encode_dss_signature(int.from_bytes(first), int.from_bytes(second))
            self._public.verify(pair, data, _SCHEME)
        except (ValueError, InvalidSignature):
            return False
        return True

    def public(self) -> dict[str, Any]:
        """Return the public half as a JSON web key."""
        point = self._public.public_numbers()
        members = {"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM}
        return {**members, "x": encode(_number(point.x)), "y": encode(_number(point.y))}


def _number(value: int) -> bytes:
    return value.to_bytes(_BYTES)


def encode(data: bytes) -> str:
    """Encode as base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Decode base64 for URLs; ValueError if it is invalid."""
    return base64.urlsafe_b64decode(text.encode("ascii") + b"==")
