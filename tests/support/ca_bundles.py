"""CA bundles of conversion webhooks, and which of them a kube-apiserver accepts."""

from __future__ import annotations

from pathlib import Path

from tests.support.tls_files import Authority

_AUTHORITY = Authority(Path())
_GOOD = _AUTHORITY.pem.encode()
_BROKEN = _GOOD.replace(b"MII", b"MXX", 1)
_BEGIN = b"-----BEGIN CERTIFICATE-----\n"
_SHORT = _BEGIN + b"AAAA\n-----END CERTIFICATE-----\n"
_LEAF, _KEY = (text.encode() for text in _AUTHORITY.issue("webhook"))

BUNDLES: dict[str, tuple[bytes, bool]] = {
    "certificate": (_GOOD, True),
    "leaf": (_LEAF, True),
    "carriage-returns": (_GOOD.replace(b"\n", b"\r\n"), True),
    "comment-in-utf-8": ("# Főtanúsítvány\n".encode() + _GOOD, True),
    "comment-in-latin-1": (b"# F\xf6\n" + _GOOD, True),
    "key-first": (_KEY + _GOOD, True),
    "broken-first": (_BROKEN + _GOOD, True),
    "broken-last": (_GOOD + _BROKEN, True),
    "short-first": (_SHORT + _GOOD, True),
    "unclosed-first": (_BEGIN + _GOOD, True),
    "unclosed-last": (_GOOD + _BEGIN, True),
    "text": (b"not a certificate", False),
    "blank": (b" ", False),
    "broken": (_BROKEN, False),
    "short": (_SHORT, False),
    "key": (_KEY, False),
    "trusted": (_GOOD.replace(b"CERTIFICATE", b"TRUSTED CERTIFICATE"), False),
    "x509": (_GOOD.replace(b"CERTIFICATE", b"X509 CERTIFICATE"), False),
    "headers": (_GOOD.replace(_BEGIN, _BEGIN + b"a: b\n\n"), False),
    "indented": (b"  " + _GOOD, False),
    "one-line": (_GOOD.replace(b"\n", b""), False),
}
"""Bundles by their names, each with whether it is accepted."""
