"""The metrics of credentials and of retries, under client-go's names where it has them."""

from __future__ import annotations

import base64
import json
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from ctrlhost.client import Client
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.coordination.term import Tenure
from ctrlhost.coordination.writes import Permit, Refusals, Writes
from ctrlhost.errors import ConfigError, CtrlhostError, TransportError
from ctrlhost.kubeconfig import credentials, exec_credentials
from ctrlhost.kubeconfig.expiry import certificate_expiry, token_expiry
from tests.support.exec_program import ExecProgram
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Drop, Failure, Json, StubApiServer, pod
from tests.support.tls_files import Authority

POD = "/api/v1/namespaces/default/pods/a"
CALLS, TTL = "rest_client_exec_plugin_call_total", "rest_client_exec_plugin_ttl_seconds"
EXPIRY, RETRIES = "ctrlhost_credential_expiry_timestamp_seconds", "rest_client_request_retries_total"
HOUR = 1 / 24


def series(client: Client, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels, in the order of the labels' names."""
    assert client.metrics is not None
    registry = CollectorRegistry()
    registry.register(client.metrics)
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
        if sample.name == name
    }


def jwt(expires: float) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=") for claims in ({}, {"exp": expires})
    ]
    return ".".join([*parts, "signature"])


def end_of(pem: str) -> float:
    return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()


@pytest.fixture
def program(tmp_path: Path) -> ExecProgram:
    return ExecProgram(tmp_path)


def load(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Client:
    return Client.load(written(tmp_path, kubeconfig(cluster, user)))


@pytest.mark.behaviour("operations/OP122")
def test_runs_of_an_exec_plugin_are_counted_as_client_go_does(
    server: StubApiServer, program: ExecProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_credentials, "_FIRST_PAUSE", 0.0)
    server.on("GET", POD, Json(pod("a", 1)))
    client = load(tmp_path, {"server": server.url}, program.user)
    assert series(client, CALLS) == {}
    assert series(client, TTL) == {(): math.inf}
    assert series(client, EXPIRY) == {}
    program.set("fail")
    with pytest.raises(TransportError, match="code 1"):
        client.get("v1", "Pod", "a")
    assert series(client, CALLS) == {("plugin_execution_error", "1"): 1}
    program.clear("fail")
    program.set("expires", "2031-02-03T04:05:06Z")
    client.get("v1", "Pod", "a")
    client.get("v1", "Pod", "a")
    assert series(client, CALLS) == {("plugin_execution_error", "1"): 1, ("no_error", "0"): 1}
    assert series(client, EXPIRY) == {("token",): datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()}
    # It has no client certificate.
    assert series(client, TTL) == {(): math.inf}
    other = load(tmp_path, {"server": server.url}, program.user)
    program.path.unlink()
    with pytest.raises(ConfigError, match="not installed"):
        other.get("v1", "Pod", "a")
    assert series(other, CALLS) == {("plugin_not_found_error", "1"): 1}


@pytest.mark.behaviour("operations/OP122")
def test_the_end_of_an_exec_plugins_certificate_is_right_to_the_second(
    authority: Authority, secure: StubApiServer, program: ExecProgram, tmp_path: Path
) -> None:
    certificate, key = authority.issue("me", days=HOUR)
    program.set("certificate", certificate)
    program.set("key", key)
    client = load(tmp_path, {"server": secure.url, "certificate-authority-data": data(authority.pem)}, program.user)
    client.get("v1", "Pod", "a")
    assert series(client, EXPIRY) == {("certificate",): end_of(certificate)}
    before = time.time()
    (left,) = series(client, TTL).values()
    # The text of the metrics has fewer digits.
    assert end_of(certificate) - time.time() - 0.001 <= left <= end_of(certificate) - before + 0.001


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(authority: Authority) -> Any:
    with StubApiServer(tls=authority.server_context()) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        yield server


def data(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


@pytest.mark.behaviour("operations/OP122")
def test_the_end_of_a_client_certificate_in_a_file_follows_the_file(
    authority: Authority, secure: StubApiServer, tmp_path: Path
) -> None:
    def write(days: float) -> float:
        certificate, key = authority.issue("me", days=days)
        (tmp_path / "cert").write_text(certificate)
        (tmp_path / "key").write_text(key)
        return end_of(certificate)

    first = write(HOUR)
    user = {"client-certificate": str(tmp_path / "cert"), "client-key": str(tmp_path / "key")}
    client = load(tmp_path, {"server": secure.url, "certificate-authority-data": data(authority.pem)}, user)
    assert series(client, EXPIRY) == {("certificate",): first}
    assert series(client, TTL) == {(): math.inf}
    second = write(2 * HOUR)
    client.transport._trust.changed(now=True)  # type: ignore[attr-defined]
    assert series(client, EXPIRY) == {("certificate",): second}


def test_the_end_of_a_token_is_what_the_token_says(
    server: StubApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_CHECK_INTERVAL", 0.0)
    server.on("GET", POD, Json(pod("a", 1)))
    assert series(load(tmp_path, {"server": server.url}, {"token": jwt(2e9)}), EXPIRY) == {("token",): 2e9}
    assert series(load(tmp_path, {"server": server.url}, {"token": "opaque"}), EXPIRY) == {}
    assert series(load(tmp_path, {"server": server.url}, {"username": "a.b.c", "password": "x"}), EXPIRY) == {}
    (tmp_path / "token").write_text(jwt(2e9) + "\n")
    client = load(tmp_path, {"server": server.url}, {"tokenFile": str(tmp_path / "token")})
    (tmp_path / "token").write_text(jwt(3e9) + "\n")
    client.get("v1", "Pod", "a")
    assert series(client, EXPIRY) == {("token",): 3e9}


def test_retries_are_counted_by_what_caused_them(server: StubApiServer, tmp_path: Path) -> None:
    host = server.url.removeprefix("http://")
    again = Failure(429, "TooManyRequests", retry_after=0)
    client = Client(server.url, token="t")
    server.on("GET", POD, Json(pod("a", 1)))
    client.get("v1", "Pod", "a")
    assert series(client, RETRIES) == {}
    server.on("GET", POD, Drop(), Json(pod("a", 1)))
    client.get("v1", "Pod", "a")
    assert series(client, RETRIES) == {("<error>", host, "GET"): 1}
    server.on("DELETE", POD, again, Json(pod("a", 1)))
    client.delete("v1", "Pod", "a")
    assert series(client, RETRIES) == {("<error>", host, "GET"): 1, ("429", host, "DELETE"): 1}
    # Without a time the answer is the caller's.
    server.on("DELETE", POD, Failure(429, "TooManyRequests"))
    with pytest.raises(CtrlhostError):
        client.delete("v1", "Pod", "a")
    writes = Writes("demo", Tenure.endless(), Refusals())
    governed = client.derive(transport=GovernedTransport(client.transport, None, writes.read, Permit(writes, 1)))
    server.on("DELETE", POD, again, Json(pod("a", 1)))
    governed.delete("v1", "Pod", "a")
    assert series(client, RETRIES)["429", host, "DELETE"] == 2
    # A renewed token.
    token_file = tmp_path / "token"
    token_file.write_text("old")
    renewing = load(tmp_path, {"server": server.url}, {"tokenFile": str(token_file)})
    renewing.get("v1", "Pod", "a")
    token_file.write_text("new")
    server.on("GET", POD, Failure(401, "Unauthorized"), Json(pod("a", 1)))
    renewing.get("v1", "Pod", "a")
    assert series(renewing, RETRIES) == {("401", host, "GET"): 1}


@pytest.mark.parametrize("days", [HOUR, 365 * 40])
def test_the_end_of_a_certificate_is_read_from_its_der(tmp_path: Path, days: float) -> None:
    certificate, key = Authority(tmp_path).issue("me", days=days)
    assert certificate_expiry(certificate.encode()) == end_of(certificate)
    assert certificate_expiry(f"# a comment\n{key}{certificate}".encode()) == end_of(certificate)


def test_what_is_no_certificate_or_token_has_no_end(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("me")
    begin, *lines, end = certificate.splitlines()
    der = base64.b64decode("".join(lines))
    for count in range(0, len(der), 7):
        # Cut anywhere; what lies behind the validity is not read.
        cut = "\n".join((begin, base64.b64encode(der[:count]).decode(), end))
        assert certificate_expiry(cut.encode()) is None
    for text in (b"", key.encode(), b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----"):
        assert certificate_expiry(text) is None
    for header in (None, "", "Basic YTpi", "Bearer", "Bearer a.b.c", "Bearer a.e30.c", "Bearer ..", "Bearer a.b"):
        assert token_expiry(header) is None
