"""A certificate authority for tests."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """An authority whose certificates are valid for a day."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self.builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_SIGNS, critical=True)
        self.pem = self.sign(builder)

    def sign(self, builder: x509.CertificateBuilder) -> str:
        """Return the certificate as PEM."""
        return _pem(builder.sign(self._key, hashes.SHA256()))

    def builder(self, subject: x509.Name, key: Any, days: tuple[float, float] = (-1, 1)) -> x509.CertificateBuilder:
        """Begin a certificate that this authority signs; `days` are from now to its begin and its end."""
        now = dt.datetime.now(dt.UTC)
        begin, end = (now + dt.timedelta(days=count) for count in days)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
        # Since Python 3.13 `ssl` requires what RFC 5280 does.
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, critical=False)

    def issue(
        self, name: str, *, address: str | None = None, days: float = 1, groups: Sequence[str] = ()
    ) -> tuple[str, str]:
        """Return a certificate for some days from now and its key as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self.builder(subject, key.public_key(), (-1, days))
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        if address is not None:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        certificate = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self.sign(certificate), private.decode()

    def server_context(self, *, name: str = "localhost", ask: bool = False) -> ssl.SSLContext:
        """Return the context of a server on 127.0.0.1 with this name; `ask` requires a client certificate."""
        cert, key = self.issue(name, address="127.0.0.1" if name == "localhost" else None)
        (self._folder / f"{name}.pem").write_text(cert + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / f"{name}.pem")
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.pem)
        return context


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
