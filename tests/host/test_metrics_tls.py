"""TLS of the metrics' own address."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
import tempfile
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from ctrlhost_sandbox import Sandbox
from prometheus_client.parser import text_string_to_metric_families

from ctrlhost.clock import SystemClock
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.errors import ConfigError
from ctrlhost.host.host import Host
from ctrlhost.host.metrics_access import MetricsAccess
from ctrlhost.server import key_pairs
from ctrlhost.server.certificates import PERIOD
from ctrlhost.server.key_pairs import LIFETIME, RENEW_BEFORE, SelfSignedPairs
from ctrlhost.testing import ManualClock
from ctrlhost.testing.host import HostUnderTest
from ctrlhost.testing.pytest_plugin import StartHost
from tests.support.https_client import HttpsConnection, get, trusting
from tests.support.tls_files import Authority
from tests.support.waiting import eventually


class Files:
    """A certificate and its key in files."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"

    def replace(self) -> bytes:
        """Write another certificate and its key, and return the certificate as a server shows it."""
        certificate, key = self.authority.issue("localhost")
        self._write(self.key, key)
        self._write(self.certificate, certificate)
        return ssl.PEM_cert_to_DER_cert(certificate)

    def replace_key(self) -> None:
        """Write a key that does not belong to the certificate."""
        self._write(self.key, self.authority.issue("localhost")[1])

    def _write(self, file: Path, text: str) -> None:
        # Renamed into place, so that nobody reads half a file.
        new = file.with_suffix(".new")
        new.write_text(text)
        new.rename(file)

    @property
    def settings(self) -> dict[str, str]:
        return {"tls_cert_file": str(self.certificate), "tls_key_file": str(self.key)}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def start(ctrlhost_host: StartHost, manual_clock: ManualClock) -> Callable[..., HostUnderTest]:
    """Return a function that starts a host with TLS on the address of its metrics."""

    def start(**settings: Any) -> HostUnderTest:
        return ctrlhost_host(clock=manual_clock, listen_metrics="127.0.0.1:0", **settings)

    return start


def address_of(host: HostUnderTest) -> str:
    assert host.host.metrics_address is not None
    return host.host.metrics_address


def advanced(clock: ManualClock, address: str) -> bytes:
    """Advance the clock until the host looks for another certificate, and return the one that it shows."""
    clock.advance(PERIOD)
    with HttpsConnection(address) as connection:
        return connection.certificate


def metric(text: str, name: str, **labels: str) -> float:
    (value,) = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return float(value)


def expiry(text: str) -> float:
    return metric(text, "ctrlhost_certificate_expiry_timestamp_seconds", listener="metrics")


def errors(text: str) -> float:
    return metric(text, "ctrlhost_certificate_errors_total", listener="metrics")


def handshakes(text: str) -> float:
    return metric(text, "ctrlhost_http_connections_rejected_total", listener="metrics", reason="tls")


@pytest.mark.behaviour("operations/OP32")
def test_replaced_files_are_used_within_ten_seconds_and_drop_no_connection(
    files: Files, start: Callable[..., HostUnderTest], manual_clock: ManualClock
) -> None:
    first = files.replace()
    address = address_of(start(**files.settings))
    eventually(lambda: manual_clock.waiters() > 0)
    with HttpsConnection(address) as old:
        assert (old.certificate, old.get().status) == (first, 200)
        local = old._connection.sock.getsockname()
        second = files.replace()
        manual_clock.advance(10.0)

        def replaced() -> bool:
            with HttpsConnection(address) as new:
                return new.certificate == second and new.get().status == 200

        eventually(replaced)
        answer = old.get()
        assert answer.status == 200
        assert old._connection.sock.getsockname() == local
        assert old.certificate == first
        assert expiry(answer.body) == x509.load_der_x509_certificate(second).not_valid_after_utc.timestamp()
        assert errors(answer.body) == 0


@pytest.mark.behaviour("operations/OP33")
def test_a_key_that_does_not_fit_leaves_the_old_certificate(
    files: Files, start: Callable[..., HostUnderTest], manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    first = files.replace()
    address = address_of(start(**files.settings))
    before = get(address).body
    files.replace_key()

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    manual_clock.advance(PERIOD)
    eventually(said)
    for _ in range(20):
        # The thread looks again, as often as it gets to it.
        manual_clock.advance(PERIOD)
        get(address)
    with HttpsConnection(address) as connection:
        after = connection.get().body
        assert connection.certificate == first
    assert errors(after) == errors(before) + 1
    assert expiry(after) == expiry(before)
    (line,) = said()
    assert f"{files.certificate} and {files.key}: the key does not belong to the certificate" in line
    # The next pair that fits is used.
    second = files.replace()
    eventually(lambda: advanced(manual_clock, address) == second)


def test_missing_files_are_reported_once_and_used_again_when_they_return(
    files: Files, start: Callable[..., HostUnderTest], manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = files.replace()
    address = address_of(start(**files.settings))
    away = files.key.with_suffix(".away")
    for count in (1, 2):
        caplog.clear()
        files.key.rename(away)
        for _ in range(5):
            advanced(manual_clock, address)
        eventually(lambda: advanced(manual_clock, address) and "No such file or directory" in caplog.text)
        assert errors(get(address).body) == count
        assert caplog.text.count("No such file or directory") == 1
        away.rename(files.key)
        eventually(lambda: advanced(manual_clock, address) and "using another certificate" in caplog.text)
    assert advanced(manual_clock, address) == first


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that this process opens for writing; no temporary file can be made."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    messages: list[str] = []
    active = [True]

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            messages.append(str(arguments[0]))

    sys.addaudithook(audit)
    yield messages
    # An audit hook stays for ever.
    active.clear()


@pytest.mark.behaviour("operations/OP34")
def test_without_files_the_host_makes_a_certificate_for_its_pod_and_service(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    namespace = tmp_path / "namespace"
    namespace.write_text("operators\n")
    opened.clear()
    monkeypatch.setattr(socket, "gethostname", lambda: "ctrlhost-7d9f8b6c54-x2x4z")
    monkeypatch.setattr(key_pairs, "NAMESPACE", namespace)
    settings = HostSettings(
        listen="", listen_metrics="127.0.0.1:0", metrics_auth="kubernetes", kubeconfig=str(sandbox.kubeconfig)
    )
    host = Host(settings)
    host.start()
    try:
        assert opened == []
        assert host.metrics_address is not None
        with HttpsConnection(host.metrics_address) as connection:
            der = connection.certificate
            assert connection.get().status == 401
        verifying = ssl.create_default_context(cadata=der)
        with (
            socket.create_connection(host.metrics_address.split(":"), 30) as plain,  # type: ignore[arg-type]
            verifying.wrap_socket(plain, server_hostname="localhost") as verified,
        ):
            assert verified.getpeercert(binary_form=True) == der
    finally:
        host.stop(5)
    certificate = x509.load_der_x509_certificate(der)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    service = "ctrlhost-metrics.operators.svc"
    wanted = {"ctrlhost-7d9f8b6c54-x2x4z", "localhost", service, f"{service}.cluster.local"}
    assert set(names.get_values_for_type(x509.DNSName)) == wanted
    assert {"127.0.0.1", "::1"} <= {str(name) for name in names.get_values_for_type(x509.IPAddress)}
    assert certificate.issuer == certificate.subject
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_self_signed_certificate_is_renewed_before_it_expires() -> None:
    now = [1_800_000_000.0]
    pairs = SelfSignedPairs(["localhost"], lambda: now[0])

    def end_of(pair: key_pairs.KeyPair | None) -> float:
        assert pair is not None
        loaded = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        assert key.public_key() == loaded.public_key()
        assert loaded.not_valid_before_utc.timestamp() < now[0]
        return loaded.not_valid_after_utc.timestamp()

    assert end_of(pairs.next()) == now[0] + LIFETIME
    now[0] += LIFETIME - RENEW_BEFORE - 1
    assert pairs.next() is None
    now[0] += 1
    assert end_of(pairs.next()) == now[0] + LIFETIME
    # The clock was ahead by years, and is right again.
    now[0] -= 5 * LIFETIME
    assert end_of(pairs.next()) == now[0] + LIFETIME


@pytest.mark.behaviour("operations/OP35")
def test_old_versions_of_tls_and_plain_http_are_refused_counted_and_leave_no_traceback(
    files: Files, start: Callable[..., HostUnderTest], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files.replace()
    address = address_of(start(**files.settings))
    host, port = address.split(":")
    before = handshakes(get(address).body)
    old = trusting()
    # The test's own side must be willing.
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)), socket.create_connection((host, int(port)), 30) as plain:
        old.wrap_socket(plain)
    eventually(lambda: handshakes(get(address).body) == before + 1)
    with socket.create_connection((host, int(port)), 30) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = plain.recv(4096)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"\x15\x03"))
    assert b"ctrlhost_" not in answer
    eventually(lambda: handshakes(get(address).body) == before + 2)
    assert [
        record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING
    ] == []
    oldest = trusting()
    oldest.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((host, int(port)), 30) as plain, oldest.wrap_socket(plain) as accepted:
        assert accepted.version() == "TLSv1.2"


def test_metrics_at_their_own_address_are_not_at_that_of_the_host(ctrlhost_host: StartHost) -> None:
    host = ctrlhost_host(listen="127.0.0.1:0", listen_metrics="127.0.0.1:0")
    with urllib.request.urlopen(f"http://{host.host.metrics_address}/metrics", timeout=30) as answer:
        assert b"ctrlhost_build_info" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{host.host.address}/metrics", timeout=30)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"metrics_auth": "kubernetes"}, "an address of its own, other than `listen`, with `metrics_auth`"),
        (
            {"tls_cert_file": "a", "tls_key_file": "b"},
            "an address of its own, other than `listen`, with `tls_cert_file`",
        ),
        ({"metrics_auth": "kubernetes", "listen": ":1", "listen_metrics": ":1"}, "an address of its own"),
        ({"tls_cert_file": "a", "listen_metrics": ":1"}, "`tls_cert_file` and `tls_key_file` need each other"),
        ({"tls_key_file": "a", "listen_metrics": ":1"}, "`tls_cert_file` and `tls_key_file` need each other"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        _ = Configuration({"host": settings, "plugins": {}, "controllers": {}}, "").host


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("certificate", None, "No such file or directory: .*tls.crt"),
        ("certificate", "no PEM", "no PEM certificate in it"),
        ("key", "no PEM", "no PEM private key in it"),
    ],
)
def test_unusable_files_end_the_start(files: Files, name: str, content: str | None, problem: str) -> None:
    files.replace()
    file: Path = getattr(files, name)
    file.unlink()
    if content is not None:
        file.write_text(content)
    settings = HostSettings(listen_metrics="127.0.0.1:0", **files.settings)
    with pytest.raises(ConfigError, match=f"{files.certificate} and {files.key}: .*({problem})") as caught:
        MetricsAccess(settings, lambda: None, SystemClock())
    assert "pass phrase" in str(caught.value.hint)


def test_a_key_with_a_pass_phrase_is_refused_without_asking_for_it(files: Files) -> None:
    files.replace()
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    settings = HostSettings(listen_metrics="127.0.0.1:0", **files.settings)
    with pytest.raises(ConfigError, match=r"tls\.key"):
        MetricsAccess(settings, lambda: None, SystemClock())
