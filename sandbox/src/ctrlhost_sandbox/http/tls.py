"""A certificate authority for each start, and the server certificate that it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Certificates:
    """The PEM texts that a server needs: its authorities, its certificate and key. No authority's key is kept."""

    ca: str
    """The authority of the server's certificate."""
    leaf: str
    key: str
    client_ca: str = ""
    """The authority of clients' certificates; empty to ask clients for none."""

    def server_context(self) -> ssl.SSLContext:
        """Return the context of the listening socket. The key is on disk only while OpenSSL reads it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        with tempfile.TemporaryDirectory() as directory:
            pem = Path(directory) / "server.pem"
            pem.touch(mode=0o600)
            pem.write_text(self.key + self.leaf, encoding="ascii")
            context.load_cert_chain(pem)
        if self.client_ca:
            context.load_verify_locations(cadata=self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def issue(address: str) -> Certificates:
    """Create an authority and a leaf for `address` and the loopback names, valid for a year."""
    now = dt.datetime.now(dt.UTC)
    until = now + dt.timedelta(days=364)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("ctrlhost-sandbox-ca")
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(ca_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address(text)) for text in dict.fromkeys(("127.0.0.1", "::1", address))
    ]
    names.append(x509.DNSName("localhost"))
    leaf = (
        _builder(_name("ctrlhost-sandbox"), ca_name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificates(ca.public_bytes(pem).decode(), leaf.public_bytes(pem).decode(), secret.decode())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime, until: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # A client whose clock is slightly behind must accept a new certificate.
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(until)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
