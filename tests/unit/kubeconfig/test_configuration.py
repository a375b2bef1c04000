"""Credentials and trust of a client, from its kubeconfig, the pod or an exec plugin."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError, TransportError, Unauthorized
from ctrlhost.kubeconfig import exec_credentials
from ctrlhost.kubeconfig.proxy import bypasses_proxy
from tests.support.kubeconfigs import find, kubeconfig, service_account
from tests.support.stub_api_server import Answer, Computed, Failure, Json, ReceivedRequest, StubApiServer, pod

pytestmark = pytest.mark.behaviour("scale/SC50")

EXEC = "client.authentication.k8s.io/v1"


POD = "/api/v1/namespaces/default/pods/a"


@pytest.fixture
def server(server):
    server.on("GET", POD, Json(pod("a", 1)))
    return server


@pytest.fixture
def tls_server(authority):
    with StubApiServer(tls=authority.server_context()) as running:
        running.on("GET", POD, Json(pod("a", 1)))
        yield running


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "me", "password": "x"}, "Basic " + base64.b64encode(b"me:x").decode()),
        ({}, None),
    ],
)
def test_the_user_entry_becomes_a_header(write, server, user, sent):
    Client.load(write(kubeconfig({"server": server.url}, user))).get("v1", "Pod", "a")
    assert server.requests[0].headers.get("authorization") == sent


def test_an_https_server_is_verified_against_the_ca_given_as_data_or_as_a_file(write, tls_server, authority):
    data = base64.b64encode(authority.pem.encode()).decode()
    write(authority.pem, "ca.pem")
    for cluster in ({"certificate-authority-data": data}, {"certificate-authority": "ca.pem"}):
        client = Client.load(write(kubeconfig({"server": tls_server.url, **cluster})))
        assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    assert Client(tls_server.url, ca=authority.pem).get("v1", "Pod", "a")


@pytest.mark.behaviour("findings/FT2")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_comments_beside_the_ca_may_have_any_characters(write, tls_server, authority, encoding):
    bundle = f"# Müller\n{authority.pem}".encode(encoding)
    data = base64.b64encode(bundle).decode()
    Path(write("", "ca.pem")).write_bytes(bundle)
    for cluster in ({"certificate-authority-data": data}, {"certificate-authority": "ca.pem"}):
        client = Client.load(write(kubeconfig({"server": tls_server.url, **cluster})))
        assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    assert Client(tls_server.url, ca=bundle.decode(encoding)).get("v1", "Pod", "a")


def test_an_untrusted_server_certificate_is_refused_with_a_hint(tls_server):
    with pytest.raises(TransportError, match="TLS failed") as caught:
        Client(tls_server.url).get("v1", "Pod", "a")
    assert "certificate-authority" in (caught.value.hint or "")
    assert Client(tls_server.url, verify=False).get("v1", "Pod", "a")


def test_a_certificate_of_another_host_is_refused_unless_its_name_is_configured(write, authority):
    with StubApiServer(tls=authority.server_context(name="api.example.com")) as other:
        other.on("GET", POD, Json(pod("a", 1)))
        with pytest.raises(TransportError, match="TLS failed"):
            Client(other.url, ca=authority.pem).get("v1", "Pod", "a")
        data = base64.b64encode(authority.pem.encode()).decode()
        cluster = {"server": other.url, "certificate-authority-data": data, "tls-server-name": "api.example.com"}
        assert Client.load(write(kubeconfig(cluster))).get("v1", "Pod", "a")


def test_a_client_certificate_is_sent_and_a_renewed_one_is_picked_up(write, tmp_path, authority, monkeypatch):
    monkeypatch.setattr("ctrlhost.transport.trust._CHECK_INTERVAL", 0.0)
    names: list[str] = []
    with StubApiServer(tls=authority.server_context(ask=True)) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        server.on_peer = names.append
        cert, key = authority.issue("first")
        (tmp_path / "cert.pem").write_text(cert)
        (tmp_path / "key.pem").write_text(key)
        user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
        data = base64.b64encode(authority.pem.encode()).decode()
        client = Client.load(write(kubeconfig({"server": server.url, "certificate-authority-data": data}, user)))
        client.get("v1", "Pod", "a")
        cert, key = authority.issue("second")
        (tmp_path / "cert.pem").write_text(cert)
        (tmp_path / "key.pem").write_text(key)
        for file in ("cert.pem", "key.pem"):
            later = (tmp_path / file).stat().st_mtime + 5
            os.utime(tmp_path / file, (later, later))
        client.get("v1", "Pod", "a")
    assert names == ["first", "second"]


def needs(valid: set[str]) -> Answer:
    def answer(request: ReceivedRequest) -> Answer:
        if request.headers.get("authorization") in valid:
            return Json(pod("a", 1))
        return Failure(401, "Unauthorized")

    return Computed(answer)


def test_the_token_of_the_pod_is_read_again_when_refused(tmp_path, server):
    account = service_account(tmp_path)
    valid = {"Bearer inside"}
    server.on("GET", POD, needs(valid))
    (account / "ca.crt").write_text("")
    write = account.parent / "config"
    write.write_text(yaml.safe_dump(kubeconfig({"server": server.url}, {"tokenFile": str(account / "token")})))
    client = Client.load(write)
    client.get("v1", "Pod", "a")
    (account / "token").write_text("renewed")
    valid.clear()
    valid.add("Bearer renewed")
    client.get("v1", "Pod", "a")
    valid.clear()
    with pytest.raises(Unauthorized):
        client.get("v1", "Pod", "a")
    # The last one was not retried: the file has no new token.
    assert len(server.requests) == 4


def test_the_address_and_namespace_of_the_pod_are_used_inside_a_cluster(tmp_path, authority):
    account = service_account(tmp_path)
    (account / "ca.crt").write_text(authority.pem)
    connection = find(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=account)
    assert (connection.url, connection.namespace, connection.credentials.authorization(1)) == (
        "https://[fd00::1]:443",
        "mine",
        "Bearer inside",
    )


def exec_program(tmp_path: Path, body: str) -> Path:
    program = tmp_path / "login"
    program.write_text(f"#!{sys.executable}\nimport json, os, pathlib, sys\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


CREDENTIAL = """
count = pathlib.Path(sys.argv[1])
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"token-{number}-{os.environ['WHO']}"}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def exec_user(tmp_path: Path) -> dict[str, Any]:
    exec_program(tmp_path, CREDENTIAL)
    variables = [{"name": "WHO", "value": "me"}]
    args = [str(tmp_path / "count")]
    return {"exec": {"apiVersion": EXEC, "command": "./login", "args": args, "env": variables}}


def test_an_exec_plugin_runs_once_and_again_when_the_server_refuses_its_token(tmp_path, write, server):
    valid = {"Bearer token-1-me"}
    server.on("GET", POD, needs(valid))
    client = Client.load(write(kubeconfig({"server": server.url}, exec_user(tmp_path))))
    client.get("v1", "Pod", "a")
    client.get("v1", "Pod", "a")
    valid.clear()
    valid.add("Bearer token-2-me")
    client.get("v1", "Pod", "a")
    assert (tmp_path / "count").read_text() == "2"


@pytest.mark.behaviour("scale/SC41")
@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("sys.exit('please log in')", TransportError, "failed with code 1: please log in"),
        ("print('hello')", ConfigError, "printed an invalid ExecCredential"),
        (
            "print(json.dumps({'apiVersion': 'other/v1', 'kind': 'ExecCredential', 'status': {}}))",
            ConfigError,
            "answered in other/v1",
        ),
        (
            f"print(json.dumps({{'apiVersion': '{EXEC}', 'kind': 'ExecCredential', 'status': {{}}}}))",
            ConfigError,
            "neither a token nor a certificate",
        ),
    ],
)
def test_a_failing_exec_plugin_is_named(tmp_path, write, server, body, kind, message):
    exec_program(tmp_path, body)
    user = {"exec": {"apiVersion": EXEC, "command": "./login"}}
    config = write(kubeconfig({"server": server.url}, user))
    with pytest.raises(kind, match=message) as caught:
        Client.load(config).get("v1", "Pod", "a")
    assert f"kubeconfig {config}: users[u].user.exec" in str(caught.value)


@pytest.mark.behaviour("scale/SC41")
def test_a_hanging_exec_plugin_is_killed_and_named(tmp_path, write, server, monkeypatch):
    monkeypatch.setattr(exec_credentials, "_RUN_LIMIT", 0.2)
    exec_program(tmp_path, "import time; time.sleep(100)")
    config = write(kubeconfig({"server": server.url}, {"exec": {"apiVersion": EXEC, "command": "./login"}}))
    with pytest.raises(TransportError, match=r"did not answer within 0\.2 s") as caught:
        Client.load(config).get("v1", "Pod", "a")
    assert f"kubeconfig {config}: users[u].user.exec" in str(caught.value)
    assert not caught.value.sent


@pytest.mark.behaviour("scale/SC41")
def test_a_missing_exec_plugin_is_named_with_its_install_hint(write, server):
    user = {
        "exec": {
            "apiVersion": EXEC,
            "command": "no-such-login",
            "installHint": "get it there",
        }
    }
    config = write(kubeconfig({"server": server.url}, user))
    with pytest.raises(ConfigError, match="`no-such-login` is not installed") as caught:
        Client.load(config)
    assert f"kubeconfig {config}: users[u].user.exec" in str(caught.value)
    assert caught.value.hint == "get it there"


def test_an_exec_plugin_that_is_not_executable_is_named_at_once(tmp_path, write, server):
    (tmp_path / "login").write_text("no program")
    user = {"exec": {"apiVersion": EXEC, "command": "./login"}}
    with pytest.raises(ConfigError, match="login` is not executable"):
        Client.load(write(kubeconfig({"server": server.url}, user)))


def test_an_exec_plugin_may_return_a_certificate(tmp_path, write, authority):
    cert, key = authority.issue("from-exec")
    status = {"clientCertificateData": cert, "clientKeyData": key}
    answer = {"apiVersion": EXEC, "kind": "ExecCredential", "status": status}
    exec_program(tmp_path, f"print({json.dumps(answer)!r})")
    user = {"exec": {"apiVersion": EXEC, "command": "./login"}}
    names: list[str] = []
    with StubApiServer(tls=authority.server_context(ask=True)) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        server.on_peer = names.append
        data = base64.b64encode(authority.pem.encode()).decode()
        Client.load(write(kubeconfig({"server": server.url, "certificate-authority-data": data}, user))).get(
            "v1", "Pod", "a"
        )
    assert names == ["from-exec"]


def test_a_configuration_of_the_official_client_is_used_with_its_hook(server):
    from kubernetes.client import Configuration

    tokens = iter(["Bearer one", "Bearer two", "Bearer two"])

    def refresh(configuration: Any) -> None:
        configuration.api_key["BearerToken"] = next(tokens)

    server.on("GET", POD, needs({"Bearer two"}))
    configuration = Configuration(host=server.url)
    configuration.refresh_api_key_hook = refresh
    assert Client.from_configuration(configuration).get("v1", "Pod", "a")


def test_the_proxy_of_the_kubeconfig_receives_the_requests(write, server):
    server.on("GET", "http://api.example.com" + POD, Json(pod("through", 1)))
    server.on("GET", POD, Json(pod("through", 1)))
    config = write(kubeconfig({"server": "http://api.example.com", "proxy-url": server.url}))
    assert Client.load(config).get("v1", "Pod", "a")["metadata"]["name"] == "through"


@pytest.mark.parametrize(
    ("url", "rules", "expected"),
    [
        ("https://10.0.0.1:6443", "10.0.0.0/8", True),
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com, other", True),
        ("https://api.example.com:6443", "api.example.com:6443", True),
        ("https://api.example.com", "ample.com", False),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "", False),
        ("https://[fd00::1]", "fd00::/8", True),
    ],
)
def test_no_proxy_follows_the_usual_rules(url, rules, expected):
    assert bypasses_proxy(url, rules) is expected
