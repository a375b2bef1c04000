"""The listener of webhooks: what it refuses, its certificate, and when a host is ready with webhooks."""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.errors import ConfigError
from ctrlhost.server.certificates import PERIOD
from ctrlhost.testing import HostUnderTest, ManualClock
from ctrlhost.testing.fault_proxy import Fault, FaultProxy
from ctrlhost.testing.pytest_plugin import StartHost
from tests.host.conftest import StartHost as StartProcess
from tests.support.declared import declared
from tests.support.host_process import HostProcess
from tests.support.http_client import Api
from tests.support.https_client import HttpsConnection
from tests.support.waiting import eventually
from tests.support.webhook_host import Certificate, Listener, config_map, review

behaviour = pytest.mark.behaviour
PATH = "/validate/guard/size"
GUARD = """
    import ctrlhost

    plugin = ctrlhost.Plugin()

    @plugin.validate("v1/ConfigMap")
    def size(ctx, new, old):
        if new["data"]["size"] == "large":
            raise ctrlhost.Denied("must be small")
"""


def guard(**options: Any) -> Any:
    plugin = declared("guard")

    @plugin.validate("v1/ConfigMap", **options)
    def size(ctx: Any, new: Any, old: Any) -> None:
        if new["data"]["size"] == "large":
            raise ctrlhost.Denied("must be small")

    return plugin


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path / "tls")


def listener_of(host: HostUnderTest, certificate: Certificate) -> Listener:
    address = host.host.webhook_address
    assert address is not None
    return Listener(address, certificate)


def probe(host: HostUnderTest, path: str = "/readyz?verbose") -> tuple[int, str]:
    answer = Api(f"http://{host.host.address}").get(path)
    return answer.status, answer.body.decode()


def small(size: str = "small") -> dict[str, Any]:
    return config_map("one", {}, size=size)


@pytest.fixture
def guarded(start_host: StartProcess, distributions: Any, certificate: Certificate) -> HostProcess:
    """Start a host process whose plugin has a webhook."""
    distributions.add("guard", GUARD)
    folder = certificate.folder
    host = start_host(
        "--sandbox",
        "--set=host.webhook_listen=127.0.0.1:0",
        f"--set=host.webhook_cert_dir={folder}",
        plugins="guard",
    )
    host.line("plugin guard running")
    return host


def address_of(host: HostProcess) -> str:
    return str(host.line("serving webhooks on https://")["msg"]).rpartition("//")[2]


@behaviour("webhooks/WH21")
def test_what_the_listener_refuses(guarded: HostProcess, certificate: Certificate) -> None:
    listener = Listener(address_of(guarded), certificate)
    large = review(config_map("one", {}, size="x" * (9 << 20)))
    assert listener.send(PATH, large) == (413, "the body is longer than 8388608 bytes\n")
    for broken in (b"{", b"", b"\xff", b"[" * 100_000):
        assert listener.send(PATH, broken)[0] == 400
    assert listener.send(PATH, b'{"request":{"options":' + b'{"a":' * 100_000)[0] in (400, 500)
    status, body = listener.send(PATH, review(small(), api_version="admission.k8s.io/v1beta1"))
    assert (status, "admission.k8s.io/v1beta1" in body) == (400, True)
    assert listener.send(PATH, None, "GET") == (405, "a webhook takes POST only\n")
    for path in ("/validate/guard/other", "/validate/other/size", "/mutate/guard/size", "/", "/metrics", "/readyz"):
        assert listener.send(path, review(small())) == (404, f"no webhook at {path}\n")
    host, port = listener.address.split(":")
    with socket.create_connection((host, int(port)), 30) as plain:
        plain.sendall(b"POST /validate/guard/size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"allowed" not in plain.recv(4096)
            assert plain.recv(4096) == b""
    # Everything that was sent is counted, and nothing of it was an answer of the plugin.
    assert listener.review(PATH, small())["allowed"] is True
    counted = "controller_runtime_webhook_requests_total"
    codes = {"200": 1.0, "400": 5.0, "405": 1.0, "413": 1.0, "500": 0.0}
    found = {code: guarded.metric(counted, webhook=PATH, code=code) for code in codes}
    # What is nested too deeply is either.
    assert found["400"] + found["500"] == 6.0
    assert {**found, "400": 5.0, "500": 0.0} == codes
    assert guarded.metric("controller_runtime_webhook_requests_in_flight", webhook=PATH) == 0


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Allow this process as many files as it may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@behaviour("webhooks/WH21")
@pytest.mark.usefixtures("descriptors")
def test_silent_connections_keep_nobody_from_an_answer(guarded: HostProcess, certificate: Certificate) -> None:
    listener = Listener(address_of(guarded), certificate)
    host, port = listener.address.split(":")
    with contextlib.ExitStack() as silent:
        for _ in range(1_100):
            silent.enter_context(socket.create_connection((host, int(port)), 30))
        assert listener.review(PATH, small())["allowed"] is True
        assert listener.review(PATH, small("large"))["allowed"] is False
        assert guarded.get("/readyz")[0] == 200


@behaviour("webhooks/WH12")
def test_the_certificate_is_replaced_and_a_broken_one_is_not_used(
    ctrlhost_host: StartHost, manual_clock: ManualClock, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = certificate.replace()
    folder = str(certificate.folder)
    host = ctrlhost_host(guard(), clock=manual_clock, webhook_cert_dir=folder, listen="127.0.0.1:0")
    listener = listener_of(host, certificate)

    def shown() -> bytes:
        with HttpsConnection(listener.address) as connection:
            return connection.certificate

    def advanced() -> bytes:
        manual_clock.advance(PERIOD)
        return shown()

    def metric(name: str) -> float:
        lines = probe(host, "/metrics")[1].splitlines()
        (line,) = [line for line in lines if line.startswith(f'{name}{{listener="webhooks"}} ')]
        return float(line.rpartition(" ")[2])

    assert shown() == first
    with HttpsConnection(listener.address) as kept:
        assert kept.get(PATH).status == 405
        second = certificate.replace(days=0.5)
        eventually(lambda: advanced() == second)
    expiry = metric("ctrlhost_certificate_expiry_timestamp_seconds")
    assert expiry == pytest.approx(ssl.cert_time_to_seconds(until(second)), abs=1)
    certificate.write("tls.crt", "garbage")
    eventually(lambda: advanced() and "tls.crt and " in problems(caplog))
    assert "the last usable one stays" in problems(caplog)
    assert shown() == second
    assert metric("ctrlhost_certificate_errors_total") == 1
    assert metric("ctrlhost_certificate_expiry_timestamp_seconds") == expiry
    assert listener.review(PATH, small())["allowed"] is True
    # Whether it has expired is for the client to judge, and for the alert.
    expired = certificate.replace(days=-0.5)
    eventually(lambda: advanced() == expired)
    assert metric("ctrlhost_certificate_expiry_timestamp_seconds") < expiry
    assert probe(host)[0] == 200


def until(certificate: bytes) -> str:
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).not_valid_after_utc.strftime("%b %d %H:%M:%S %Y GMT")


def problems(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR)


@behaviour("webhooks/WH12")
def test_a_host_does_not_start_with_an_unusable_certificate(ctrlhost_host: StartHost, certificate: Certificate) -> None:
    certificate.write("tls.key", "garbage")
    with pytest.raises(ConfigError, match=r"tls\.crt and .*tls\.key"):
        ctrlhost_host(guard(), webhook_cert_dir=str(certificate.folder))


def test_an_address_in_use_is_an_error_of_the_settings(ctrlhost_host: StartHost, certificate: Certificate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"host\.webhook_listen"):
            ctrlhost_host(guard(), webhook_listen=address, webhook_cert_dir=str(certificate.folder))


@behaviour("webhooks/WH16")
def test_a_standby_serves_and_is_ready(ctrlhost_host: StartHost, sandbox: Sandbox, certificate: Certificate) -> None:
    options: dict[str, Any] = {
        "server": sandbox,
        "listen": "127.0.0.1:0",
        "leader_elect": True,
        "webhook_cert_dir": str(certificate.folder),
    }
    leader = ctrlhost_host(guard(), **options)
    eventually(lambda: leader.host.leadership is not None and leader.host.leadership.leases()[0].mine)
    standby = ctrlhost_host(guard(), **options)
    assert standby.host.leadership is not None
    assert not standby.host.leadership.leases()[0].mine
    for host in (leader, standby):
        listener = listener_of(host, certificate)
        assert listener.review(PATH, small("large"))["allowed"] is False
        eventually(lambda host=host: probe(host)[0] == 200)
        assert f"[+]webhooks ok: serving on https://{listener.address}" in probe(host)[1]


@behaviour("webhooks/WH23")
def test_a_host_is_ready_when_the_caches_of_its_webhooks_are_full(
    ctrlhost_host: StartHost, sandbox: Sandbox, certificate: Certificate
) -> None:
    plugin = declared("guard")

    @plugin.validate("v1/ConfigMap", reads=["v1/ResourceQuota"])
    def size(ctx: Any, new: Any, old: Any) -> None:
        if ctx.cache("v1/ResourceQuota").get("quota") is not None:
            raise ctrlhost.Denied("there is a quota")

    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota", "namespace": "default"}}
    with FaultProxy(sandbox) as proxy:
        for verb in ("watch", "list"):
            proxy.next(Fault.answer(500), verb=verb, resource="resourcequotas", times=1000)
        host = ctrlhost_host(
            plugin,
            server=sandbox,
            through=proxy,
            listen="127.0.0.1:0",
            webhook_cert_dir=str(certificate.folder),
            start=False,
        )
        host.client.create(quota)
        host.host.start()
        listener = listener_of(host, certificate)
        line = "[-]webhooks/guard failed: 0 running, 0 queued; not synced yet: ResourceQuota.v1"
        eventually(lambda: line in probe(host)[1].splitlines())
        assert probe(host)[0] == 503
        # No restart would help.
        eventually(lambda: "[+]webhooks/guard ok" in probe(host, "/healthz?verbose")[1])
        assert listener.send(PATH, review({**small(), "metadata": {"name": "one", "namespace": "default"}}))[0] == 500
        proxy.calm()
        eventually(lambda: probe(host)[0] == 200)
        response = listener.review(PATH, {**small(), "metadata": {"name": "one", "namespace": "default"}})
        assert response["status"]["message"] == "there is a quota"


@behaviour("webhooks/WH24")
def test_without_webhooks_there_is_no_listener_and_nothing_is_imported(
    start_host: StartProcess, ctrlhost: Any, distributions: Any
) -> None:
    distributions.add(
        "plain",
        """
        import sys
        import ctrlhost

        plugin = ctrlhost.Plugin()

        @plugin.controller("v1/ConfigMap")
        def reconcile(ctx, obj):
            pass

        @plugin.report("/modules")
        def modules(host):
            return {"modules": " ".join(name for name in sys.modules if "ctrlhost." in name and "webhook" in name)}
        """,
    )
    host = start_host("--sandbox", "--leader-elect", plugins="plain", forked=False)
    host.line("plugin plain running")
    host.line("became leader of lease default/ctrlhost")
    assert json.loads(host.get("/plain/modules?format=json")[1]) == {"modules": ""}
    assert "webhook" not in host.text
    for path in ("/readyz?verbose", "/metrics", "/"):
        assert "webhook" not in host.get(path)[1]
    status = json.loads(host.get("/api/v1/status")[1])
    written = {write["resource"] for write in status["apiserver"]["writes"]}
    assert written <= {"leases.coordination.k8s.io", "events.events.k8s.io"}
    assert status["webhooks"] == []
    assert host.stop() == 0
    printed = ctrlhost("manifests", "--plugins=plain", "--image=image")
    assert printed.returncode == 0, printed.stderr
    for word in ("webhook", "Webhook", "9443", "secrets"):
        assert word not in printed.stdout
