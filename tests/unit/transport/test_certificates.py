"""Certificates, keys and TLS versions as a kubeconfig and a server of another make have them."""

from __future__ import annotations

import base64
import ipaddress
import logging
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError, TransportError
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Json, StubApiServer, pod
from tests.support.tls_files import Authority

behaviour = pytest.mark.behaviour
POD = "/api/v1/namespaces/default/pods/a"
DATA = Path(__file__).parents[3] / "rust" / "transport" / "tests" / "data"
HINT = "set `certificate-authority` in the kubeconfig to the CA of the server"
HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    return partial(written, tmp_path)


def pem_of(key: Any) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def certificate(
    authority: Authority,
    *names: x509.GeneralName,
    key: Any = None,
    ca: bool = False,
    days: tuple[int, int] = (-1, 1),
) -> str:
    """Return a certificate for these names, valid from and to these days from now, and its key."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    builder = authority.builder(subject, key.public_key(), days)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return authority.sign(builder) + pem_of(key)


def context_of(tmp_path: Path, chain: str) -> ssl.SSLContext:
    file = tmp_path / "server.pem"
    file.write_text(chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Keys and versions that are refused today.
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(file)
    return context


def client_of(write: Any, server: StubApiServer, **cluster: Any) -> Client:
    return Client.load(write(kubeconfig({"server": server.url, **cluster})))


def data(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


GOOD: dict[str, Callable[[Authority], str]] = {
    "an address": lambda authority: certificate(authority, HERE),
    "a wildcard": lambda authority: certificate(authority, x509.DNSName("*.test.example")),
}
BAD: dict[str, tuple[Callable[[Authority], str], str]] = {
    "a common name alone": (certificate, "has no subject alternative name: a common name alone does not count"),
    "expired": (lambda authority: certificate(authority, HERE, days=(-9, -2)), "expired"),
    "not yet valid": (lambda authority: certificate(authority, HERE, days=(2, 9)), "not valid yet"),
    "a wrong name": (
        lambda authority: certificate(authority, x509.DNSName("a.example")),
        "not valid for 127.0.0.1, only for a.example: `tls-server-name` sets another name",
    ),
    "itself a CA": (lambda authority: certificate(authority, HERE, ca=True), "is itself that of a CA"),
    "RSA 1024": (
        lambda authority: certificate(authority, HERE, key=rsa.generate_private_key(65537, 1024)),
        "RSA key is shorter than 2,048 bits",
    ),
    "X.509 v1": (
        lambda _: (DATA / "server.v1.pem").read_text() + (DATA / "ec.pkcs8.key").read_text(),
        "X.509 version 1",
    ),
}


@behaviour("scale/SC31")
@pytest.mark.parametrize("name", GOOD)
def test_a_certificate_for_an_address_and_one_for_a_wildcard_work(tmp_path: Path, write: Any, name: str) -> None:
    authority = Authority(tmp_path)
    with StubApiServer(tls=context_of(tmp_path, GOOD[name](authority))) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        host = {"tls-server-name": "any.test.example"} if name == "a wildcard" else {}
        client = client_of(write, server, **{"certificate-authority-data": data(authority.pem)}, **host)
        assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"


@behaviour("scale/SC31")
@pytest.mark.parametrize("name", [*BAD, "an unknown CA"])
def test_what_is_wrong_with_a_certificate_is_said_and_nothing_is_sent(
    tmp_path: Path, write: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    unknown = name == "an unknown CA"
    make, text = BAD.get(name, (GOOD["an address"], "signed by an unknown authority"))
    chain = make(authority)
    trusted = authority.pem if name != "X.509 v1" else (DATA / "ca.pem").read_text()
    if unknown:
        trusted = Authority(tmp_path, "another authority").pem
    with StubApiServer(tls=context_of(tmp_path, chain)) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        client = client_of(write, server, **{"certificate-authority-data": data(trusted)})
        with pytest.raises(TransportError) as caught:
            client.get("v1", "Pod", "a")
        assert ": TLS failed: " in str(caught.value)
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not caught.value.sent
        # A signature that does not fit may be that of another authority of the same name.
        assert (caught.value.hint == HINT) == (unknown or name == "RSA 1024")
        assert server.requests == []
        caplog.clear()
        caplog.set_level(logging.DEBUG)
        insecure = client_of(write, server, **{"insecure-skip-tls-verify": True})
        for _ in range(2):
            assert insecure.get("v1", "Pod", "a")["metadata"]["name"] == "a"
            insecure.transport.close()
        assert len([record for record in caplog.records if "is not verified" in record.message]) == 1


def self_signed(*names: x509.GeneralName, ca: bool, days: tuple[int, int] = (-1, 1)) -> str:
    """Return a certificate that its own key signed, and the key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "itself")])
    begin, end = (datetime.now(UTC) + timedelta(days=count) for count in days)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(end)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode() + pem_of(key)


def leaf(chain: str) -> str:
    """Return the certificate without its key."""
    return chain[: chain.index("-----BEGIN PRIVATE KEY")]


ITSELF: dict[str, Callable[..., str]] = {
    "self-signed CA": lambda _, *names, **more: self_signed(*names, ca=True, **more),
    "self-signed": lambda _, *names, **more: self_signed(*names, ca=False, **more),
    "leaf": lambda authority, *names, **more: certificate(authority, *names, **more),
    "leaf of a CA": lambda authority, *names, **more: certificate(authority, *names, ca=True, **more),
}


@behaviour("findings3/NB7")
@pytest.mark.parametrize("beside_another", [False, True])
@pytest.mark.parametrize("kind", ITSELF)
def test_a_certificate_in_the_bundle_is_trusted_itself(
    tmp_path: Path, write: Any, kind: str, beside_another: bool
) -> None:
    authority = Authority(tmp_path)
    # Of the same name as the authority of the leaf: its signature does not fit.
    other = Authority(tmp_path / "other").pem if beside_another else ""
    chain = ITSELF[kind](authority, HERE)
    with StubApiServer(tls=context_of(tmp_path, chain)) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        client = client_of(write, server, **{"certificate-authority-data": data(other + leaf(chain))})
        assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"


@behaviour("findings3/NB7")
@pytest.mark.parametrize("kind", ITSELF)
def test_name_and_times_of_a_certificate_in_the_bundle_must_fit(tmp_path: Path, write: Any, kind: str) -> None:
    authority = Authority(tmp_path)
    chains = {
        "not valid for 127.0.0.1, only for a.example": ITSELF[kind](authority, x509.DNSName("a.example")),
        "expired": ITSELF[kind](authority, HERE, days=(-9, -2)),
        "not valid yet": ITSELF[kind](authority, HERE, days=(2, 9)),
    }
    for text, chain in chains.items():
        with StubApiServer(tls=context_of(tmp_path, chain)) as server:
            client = client_of(write, server, **{"certificate-authority-data": data(leaf(chain))})
            with pytest.raises(TransportError, match=text):
                client.get("v1", "Pod", "a")
            assert server.requests == []


@behaviour("findings3/NB7")
def test_another_certificate_of_the_same_subject_is_not_trusted(tmp_path: Path, write: Any) -> None:
    trusted, presented = (self_signed(HERE, ca=True) for _ in range(2))
    with StubApiServer(tls=context_of(tmp_path, presented)) as server:
        client = client_of(write, server, **{"certificate-authority-data": data(leaf(trusted))})
        with pytest.raises(TransportError, match="is itself that of a CA"):
            client.get("v1", "Pod", "a")
        assert server.requests == []


@behaviour("findings3/NB7")
def test_keys_on_p_521_are_named_with_what_to_do(tmp_path: Path, write: Any) -> None:
    authority = Authority(tmp_path)
    chain = certificate(authority, HERE, key=ec.generate_private_key(ec.SECP521R1()))
    ca = {"certificate-authority-data": data(authority.pem)}
    with StubApiServer(tls=context_of(tmp_path, chain)) as server:
        client = client_of(write, server, **ca)
        with pytest.raises(TransportError, match="P-521") as caught:
            client.get("v1", "Pod", "a")
        assert server.requests == []
        assert not caught.value.sent
        assert server.url in str(caught.value)
        key = chain[len(leaf(chain)) :]
        user = {"client-certificate-data": data(leaf(chain)), "client-key-data": data(key)}
        path = write(kubeconfig({"server": server.url, **ca}, user))
        with pytest.raises(
            ConfigError, match=r"client-key-data is unusable: not supported: .*P-256 or P-384"
        ) as refused:
            Client.load(path)
        assert str(path) in str(refused.value)


@behaviour("scale/SC33")
def test_tls_1_2_and_1_3_work_and_an_older_server_is_told_them(tmp_path: Path, write: Any) -> None:
    authority = Authority(tmp_path)
    for version in ("TLSv1_1", "TLSv1_2", "TLSv1_3"):
        context = context_of(tmp_path, certificate(authority, HERE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        with StubApiServer(tls=context) as server:
            server.on("GET", POD, Json(pod("a", 1)))
            client = client_of(write, server, **{"certificate-authority-data": data(authority.pem)})
            if version != "TLSv1_1":
                assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
                continue
            with pytest.raises(TransportError, match=r"ctrlhost speaks TLS 1\.2 and 1\.3") as caught:
                client.get("v1", "Pod", "a")
            assert not caught.value.sent


ENCRYPTED = "encrypted: pass phrases are not supported; decrypt it with `openssl pkey`"
KEYS = {
    "an encrypted key": ("rsa.client.pem", "rsa.encrypted.key", "key", ENCRYPTED),
    "an encrypted PKCS#8 key": ("rsa.client.pem", "rsa.pkcs8.encrypted.key", "key", ENCRYPTED),
    "another key": ("rsa.client.pem", "ec.pkcs8.key", "key", "the key does not belong to the certificate"),
    "an empty key": ("rsa.client.pem", "empty", "key", "no PEM private key in it"),
    "an empty certificate": ("empty", "rsa.pkcs8.key", "certificate", "no PEM certificate in it"),
}


@behaviour("scale/SC29")
@pytest.mark.parametrize("inline", [False, True], ids=["files", "data"])
@pytest.mark.parametrize("name", KEYS)
def test_an_unusable_certificate_or_key_ends_the_start(write: Any, tmp_path: Path, name: str, inline: bool) -> None:
    cert, key, part, text = KEYS[name]
    user: dict[str, str] = {}
    for entry, file in (("client-certificate", cert), ("client-key", key)):
        # A file without PEM: an entry without data counts as absent.
        content = "text\n" if file == "empty" else (DATA / file).read_text()
        (tmp_path / file).write_text(content)
        user[entry + "-data" if inline else entry] = data(content) if inline else str(tmp_path / file)
    config = write(kubeconfig({"server": "https://127.0.0.1:1"}, user))
    with pytest.raises(ConfigError) as caught:
        Client.load(config)
    where = f"client-{part}-data" if inline else str(tmp_path / (key if part == "key" else cert))
    assert str(config) in str(caught.value)
    assert where in str(caught.value)
    assert str(caught.value).endswith(text)


@behaviour("scale/SC30")
def test_one_of_a_bundle_signed_and_an_unusable_entry_is_said(
    tmp_path: Path, write: Any, caplog: pytest.LogCaptureFixture
) -> None:
    authorities = [Authority(tmp_path / str(number)) for number in range(3)]
    rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    bundle = [authorities[0].pem, rubbish, authorities[1].pem, "some text\n", authorities[2].pem]
    write("".join(bundle), "bundle.pem")
    with StubApiServer(tls=authorities[1].server_context()) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        client = client_of(write, server, **{"certificate-authority": "bundle.pem"})
        assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    said = [record.message for record in caplog.records if "cannot be used" in record.message]
    assert len(said) == 1
    assert said[0].endswith("certificate 2 cannot be used: malformed certificate")
    assert str(tmp_path / "config") in said[0]


@behaviour("scale/SC30")
def test_without_a_ca_the_roots_of_the_system_count(tmp_path: Path, write: Any) -> None:
    system, other = Authority(tmp_path / "system"), Authority(tmp_path / "other", "another authority")
    code = "import sys, ctrlhost; print(ctrlhost.Client.load(sys.argv[1]).get('v1', 'Pod', 'a')['metadata']['name'])"
    for authority, text in ((system, "a"), (other, "signed by an unknown authority")):
        with StubApiServer(tls=authority.server_context()) as server:
            server.on("GET", POD, Json(pod("a", 1)))
            config = write(kubeconfig({"server": server.url}))
            done = subprocess.run(
                [sys.executable, "-c", code, config],
                capture_output=True,
                text=True,
                timeout=60,
                env={"SSL_CERT_FILE": str(write(system.pem, "roots.pem")), "PYTHONPATH": ":".join(sys.path)},
            )
        assert text in (done.stdout + done.stderr)
        assert (done.returncode == 0) == (authority is system)
