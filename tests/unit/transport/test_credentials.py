"""Credentials and certificates that change while calls and streams go on."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError, Unauthorized
from ctrlhost.kubeconfig import credentials
from ctrlhost.transport import trust
from ctrlhost.transport.native import NativeTransport
from tests.support.exec_program import EXEC, ExecProgram
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Computed, Failure, Frames, Json, ReceivedRequest, StubApiServer, pod
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
POD = "/api/v1/namespaces/default/pods/a"
PODS = "/api/v1/pods"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    return partial(written, tmp_path)


@pytest.fixture
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at files before each request, in place of once a second."""
    monkeypatch.setattr(credentials, "_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(trust, "_CHECK_INTERVAL", 0.0)


def only(valid: set[str], good: Any) -> Computed:
    """Answer requests with one of these tokens, and refuse others."""

    def answer(request: ReceivedRequest) -> Any:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return good if token in valid else Failure(401, "Unauthorized")

    return Computed(answer)


def tokens(server: StubApiServer) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


@behaviour("scale/SC37")
def test_a_token_file_is_followed_and_a_broken_one_is_not(
    server: StubApiServer, tmp_path: Path, write: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert credentials._CHECK_INTERVAL == 1.0
    monkeypatch.setattr(credentials, "_CHECK_INTERVAL", 0.1)
    server.on("GET", POD, Json(pod("a", 1)))
    for version, text in (("1", "first\n"), ("2", "other\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text(text)
    (tmp_path / "data").symlink_to(tmp_path / "1")
    user = {"tokenFile": str(tmp_path / "data" / "token")}
    client = Client.load(write(kubeconfig({"server": server.url}, user)))

    def sent() -> str:
        client.get("v1", "Pod", "a")
        return tokens(server)[-1]

    def said() -> list[str]:
        return [record.message for record in caplog.records if "token file" in record.message]

    assert sent() == "first"
    # As the kubelet does: one rename of a symlink.
    (tmp_path / "new").symlink_to(tmp_path / "2")
    (tmp_path / "new").rename(tmp_path / "data")
    eventually(lambda: sent() == "other", 5, pause=0.02)
    token = tmp_path / "2" / "token"
    # A half is whole for all that can be seen of it, but for the end of its line.
    for broken in (b"ot", b"", b" \n", b"ha\nlf", b"\xff\xfe", None):
        token.unlink() if broken is None else token.write_bytes(broken)
        looked = credentials.time.monotonic() + 0.15
        while credentials.time.monotonic() < looked:
            assert sent() == "other"
            # A writer is never done in the middle for long.
            token.touch() if broken == b"ot" else None
    assert len(said()) == 1
    token.write_text("third\n")
    eventually(lambda: sent() == "third", 5, pause=0.02)
    assert set(tokens(server)) == {"first", "other", "third"}
    # What is wrong later is said again.
    token.unlink()
    eventually(lambda: sent() == "third" and len(said()) == 2, 5, pause=0.02)
    # A file that stays without the end of a line is a token.
    token.write_text("fourth")
    eventually(lambda: sent() == "fourth", 5, pause=0.02)


@behaviour("scale/SC38")
@pytest.mark.parametrize("refused", [False, True], ids=["new accepted", "new refused"])
@pytest.mark.parametrize("source", ["program", "file"])
def test_one_refresh_is_for_all_rejected_calls_and_streams(
    tmp_path: Path, write: Any, source: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet = threading.Barrier(120, timeout=60)
    first: set[int] = set()
    file, reads = tmp_path / "token-file", list[str]()

    def answer(request: ReceivedRequest) -> Any:
        old = request.headers["authorization"] == "Bearer token-1"
        if old and len(first) < 121:
            first.add(id(request))
            if len(first) > 1:
                # All were sent with the old token, which is replaced now.
                if meet.wait() == 0:
                    file.write_text("token-2\n")
                meet.wait()
        if (old and len(first) > 1) or (refused and not old):
            return Failure(401, "Unauthorized")
        return Frames().end() if request.path == PODS else Json(pod("a", 1))

    read = credentials.TokenFile._read

    def counted(self: credentials.TokenFile, doubt: bool) -> str:
        reads.append(self._token)
        return read(self, doubt)

    # No look but that of a refresh.
    monkeypatch.setattr(credentials, "_CHECK_INTERVAL", 1000.0)
    with StubApiServer() as server, closing(ExecProgram(tmp_path)) as program:
        server.on("GET", POD, Computed(answer))
        server.on("GET", PODS, Computed(answer))
        file.write_text("token-1\n")
        user = program.user if source == "program" else {"tokenFile": str(file)}
        client = Client.load(write(kubeconfig({"server": server.url}, user)))
        client.get("v1", "Pod", "a", timeout=60)
        monkeypatch.setattr(credentials.TokenFile, "_read", counted)
        calls = [Background(partial(client.get, "v1", "Pod", "a", timeout=60)) for _ in range(100)]
        streams = [Background(client.transport.stream, PODS) for _ in range(20)]
        for call in (*calls, *streams):
            if refused:
                with pytest.raises(Unauthorized):
                    call.result()
            else:
                call.result()
        assert (program.runs, len(reads)) == ((2, 0) if source == "program" else (0, 1))
        # One before, and no more than two for each.
        assert len(server.requests) == 1 + 2 * 120


@behaviour("scale/SC39")
def test_nobody_waits_for_a_program_while_the_old_credential_is_good(tmp_path: Path, write: Any) -> None:
    frames = Frames()
    with StubApiServer() as server, closing(ExecProgram(tmp_path)) as program:
        server.on("GET", POD, Json(pod("a", 1)))
        server.on("GET", PODS, frames)
        # Renewed a fifth of its life before its end; the first one is due at once.
        program.set("expires", (datetime.now(UTC) + timedelta(seconds=30)).isoformat())
        client = Client.load(write(kubeconfig({"server": server.url}, program.user)))
        stream = client.transport.stream(PODS)
        plugin = client.transport._authorization._credentials  # type: ignore[attr-defined]
        program.hold()
        plugin._renew_at = 0.0
        for number in range(20):
            assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
            frames.send_bytes(b"%d;" % number)
            assert stream.read() == b"%d;" % number
        eventually(lambda: program.runs == 2)
        program.set("expires", (datetime.now(UTC) + timedelta(hours=1)).isoformat())
        program.release()
        eventually(lambda: client.get("v1", "Pod", "a") and tokens(server)[-1] == "token-2")
        assert program.runs == 2
        assert set(tokens(server)) == {"token-1", "token-2"}
        stream.close()


@behaviour("scale/SC40")
def test_new_connections_have_the_certificate_that_a_program_renewed(tmp_path: Path, write: Any) -> None:
    authority, names = Authority(tmp_path), list[str]()
    source = "#!/bin/sh\necho x >> {0}/runs\ncat {0}/credential\n"
    program = tmp_path / "login"
    program.write_text(source.format(tmp_path))
    program.chmod(0o755)

    def issue(name: str) -> None:
        cert, key = authority.issue(name)
        expires = (datetime.now(UTC) + timedelta(minutes=2)).isoformat()
        status = {"clientCertificateData": cert, "clientKeyData": key, "expirationTimestamp": expires}
        credential = {"apiVersion": EXEC, "kind": "ExecCredential", "status": status}
        (tmp_path / "credential").write_text(json.dumps(credential))

    issue("first")
    with StubApiServer(tls=authority.server_context(ask=True)) as server:
        server.on_peer = names.append
        server.on("GET", POD, Json(pod("a", 1)))
        ca = base64.b64encode(authority.pem.encode()).decode()
        cluster = {"server": server.url, "certificate-authority-data": ca}
        user = {"exec": {"apiVersion": EXEC, "command": str(program)}}
        client = Client.load(write(kubeconfig(cluster, user)))
        client.get("v1", "Pod", "a")
        issue("second")
        plugin = client.transport._authorization._credentials  # type: ignore[attr-defined]
        plugin._renew_at = 0.0
        eventually(lambda: client.get("v1", "Pod", "a") and names[-1] == "second")
    # The idle connection of the old one is gone.
    assert names == ["first"] * names.count("first") + ["second"]
    assert server.connections == 2


@behaviour("scale/SC36")
@pytest.mark.usefixtures("looks_each_time")
def test_replaced_files_are_used_by_new_connections_and_streams_stay(
    tmp_path: Path, write: Any, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    names: list[str] = []
    frames = Frames()
    context = old.server_context(ask=True)
    with StubApiServer(tls=context) as server:
        server.on_peer = names.append
        server.on("GET", POD, Json(pod("a", 1)))
        server.on("GET", PODS, frames)
        (tmp_path / "ca.pem").write_text(old.pem)
        for file, text in zip(("cert.pem", "key.pem"), old.issue("first"), strict=True):
            (tmp_path / file).write_text(text)
        cluster = {"server": server.url, "certificate-authority": "ca.pem"}
        user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
        client = Client.load(write(kubeconfig(cluster, user)))
        stream = client.transport.stream(PODS)
        client.get("v1", "Pod", "a")
        cert, key = old.issue("second")
        (tmp_path / "cert.pem").write_text(cert)
        # The key is not that of the certificate now.
        client.get("v1", "Pod", "a")
        client.get("v1", "Pod", "a")
        assert set(names) == {"first"}
        assert len([record for record in caplog.records if "using the last usable" in record.message]) == 1
        (tmp_path / "key.pem").write_text(key)
        connections = server.connections

        def on_a_new_connection() -> None:
            nonlocal connections
            client.get("v1", "Pod", "a")
            connections += 1
            assert (names[-1], server.connections) == ("second", connections)
            assert client.transport.connections()["idle"] == 1, "the old one is gone"
            client.get("v1", "Pod", "a")
            assert server.connections == connections

        on_a_new_connection()
        # The new CA beside the old one, then the server's certificate, then the old CA goes.
        (tmp_path / "ca.pem").write_text(old.pem + new.pem)
        on_a_new_connection()
        new.server_context()
        context.load_cert_chain(tmp_path / "new" / "localhost.pem")
        (tmp_path / "ca.pem").write_text(new.pem)
        on_a_new_connection()
        frames.send_bytes(b"still")
        assert stream.read() == b"still"
        stream.close()
        client.close()


@behaviour("scale/SC43")
def test_a_token_file_wins_over_a_token(server: StubApiServer, write: Any) -> None:
    server.on("GET", POD, Json(pod("a", 1)))
    write("from the file\n", "token")
    user = {"tokenFile": "token", "token": "inline"}
    Client.load(write(kubeconfig({"server": server.url}, user))).get("v1", "Pod", "a")
    assert tokens(server) == ["from the file"]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """A program that notes what it is asked, and reads its standard input to the end."""
    program = tmp_path / "login"
    credential = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": "t"}})
    program.write_text(
        f"#!/bin/sh\ncat > {tmp_path}/input\n"
        f'printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
        f'printf %s "$WHO" > {tmp_path}/who\n'
        f"echo '{credential}'\n"
    )
    program.chmod(0o755)
    return program


@behaviour("scale/SC42")
@pytest.mark.parametrize("mode", [None, "Never", "IfAvailable"])
def test_a_program_gets_what_client_go_gives_it(
    server: StubApiServer, tmp_path: Path, write: Any, program: Path, mode: str | None
) -> None:
    server.on("GET", POD, Json(pod("a", 1)))
    entry = {
        "apiVersion": EXEC,
        "command": str(program),
        "env": [{"name": "WHO", "value": "me"}],
        "provideClusterInfo": True,
        **({"interactiveMode": mode} if mode else {}),
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"server": server.url, "insecure-skip-tls-verify": True, "extensions": [extension]}
    Client.load(write(kubeconfig(cluster, {"exec": entry}))).get("v1", "Pod", "a")
    assert (tmp_path / "input").read_text() == ""
    assert (tmp_path / "who").read_text() == "me"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": EXEC,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": server.url, "insecure-skip-tls-verify": True, "config": {"audience": "x"}},
        },
    }


@behaviour("findings3/NB9")
@pytest.mark.parametrize("extension", [None, {"name": "client.authentication.k8s.io/exec", "extension": None}])
def test_a_program_gets_the_ca_as_data_and_null_as_nothing(
    tmp_path: Path, write: Any, program: Path, extension: dict[str, Any] | None
) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "ca.pem").write_text(authority.pem)
    program.write_text(program.read_text().replace('"$WHO"', '"<$WHO><$1>"'))
    entry = {
        "apiVersion": EXEC,
        "command": str(program),
        "args": [None],
        "env": [{"name": "WHO", "value": None}],
        "provideClusterInfo": True,
    }
    with StubApiServer(tls=authority.server_context()) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        cluster = {"server": server.url, "certificate-authority": "ca.pem", "extensions": [extension] * bool(extension)}
        Client.load(write(kubeconfig(cluster, {"exec": entry}))).get("v1", "Pod", "a")
        address = server.url
    assert (tmp_path / "who").read_text() == "<><>"
    assert json.loads((tmp_path / "info").read_text())["spec"]["cluster"] == {
        "server": address,
        "certificate-authority-data": base64.b64encode(authority.pem.encode()).decode(),
        "config": None,
    }


@behaviour("scale/SC42")
def test_a_program_that_needs_a_terminal_is_refused_at_the_start(write: Any, program: Path) -> None:
    entry = {"apiVersion": EXEC, "command": str(program), "interactiveMode": "Always"}
    with pytest.raises(ConfigError, match=r"config: users\[u\]\.user\.exec\.interactiveMode is Always"):
        Client.load(write(kubeconfig({"server": "http://x"}, {"exec": entry})))


@behaviour("scale/SC31")
def test_the_log_says_once_that_nothing_is_verified(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with StubApiServer(tls=Authority(tmp_path).server_context(name="elsewhere")) as server:
        server.on("GET", POD, Json(pod("a", 1)))
        client = Client(server.url, verify=False)
        for _ in range(3):
            client.get("v1", "Pod", "a")
            client.transport.close()
        assert isinstance(client.transport, NativeTransport)
    assert [record.message for record in caplog.records if "verified" in record.message] == [
        f"the certificate of {server.url} is not verified, as configured"
    ]
