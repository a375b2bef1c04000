"""The TLS of connections that Python makes itself trusts what the transport trusts, on every version of Python."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.connection import Certificate, from_url
from ctrlhost.transport.tls_context import tls_context


def self_signed(folder: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    """Write a server's certificate without key identifiers, which is no authority, and its key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    encoding, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, no_password)
    file = folder / "server.pem"
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(encoding) + private)
    return file


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Do a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass


@pytest.mark.behaviour("findings3/NC22")
@pytest.mark.behaviour("findings3/NB7")
def test_a_certificate_without_key_identifiers_is_trusted(tmp_path: Path) -> None:
    file = self_signed(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    trusting = tls_context(from_url("https://localhost", None, str(file), verify=True))
    assert trusting is not None
    shake_hands(trusting, server, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(trusting, server, "other")
    blind = tls_context(from_url("https://localhost", None, None, verify=False))
    assert blind is not None
    shake_hands(blind, server, "other")
    assert tls_context(from_url("http://localhost", None, None, verify=True)) is None


def test_a_key_with_a_password_is_refused(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem, locked = self_signed(tmp_path, key).read_text().partition("-----BEGIN PRIVATE")[0], tmp_path / "key.pem"
    encryption = serialization.BestAvailableEncryption(b"secret")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    connection = from_url("https://localhost", None, None, verify=True)
    connection.certificate = Certificate(cert_pem=pem, key_pem=locked.read_text())
    with pytest.raises(ConfigError, match="unusable"):
        tls_context(connection)
