"""Commands in pods and forwarded ports, of the sandbox's kubelet."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox

from ctrlhost.client import Client
from ctrlhost.client.dry_run import DryRunTransport
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.errors import BadRequest, ConfigError, Forbidden, NotFound, NotLeading, ServerError, TransportError
from ctrlhost.testing import Faults
from ctrlhost.testing.faults import FaultyTransport
from tests.support.control_plane import BINARY, ControlPlane, require_kube_apiserver
from tests.support.waiting import eventually

PORT = 8080


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    options = Options(pod_start_delay=0.0, pod_ready_delay=0.0, pod_run_delay=3600.0, pod_stop_delay=0.0)
    with Sandbox(controllers=["gc", "namespace", "workloads"], options=options) as sandbox:
        yield sandbox


@pytest.fixture
def client(sandbox: Sandbox) -> Client:
    return Client.load(sandbox.kubeconfig)


@pytest.fixture
def pod(client: Client, request: pytest.FixtureRequest) -> str:
    """A running pod with one port."""
    name = request.node.originalname.replace("_", "-")[:60].rstrip("-")
    container = {"name": "main", "image": "x", "ports": [{"containerPort": PORT}]}
    spec = {"containers": [container]}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    eventually(lambda: client.get("v1", "Pod", name)["status"].get("phase") == "Running")
    return name


def forwarded(connection: socket.socket, data: bytes) -> bytes:
    """Return what comes back."""
    connection.sendall(data)
    answer = b""
    while len(answer) < len(data):
        answer += connection.recv(65536)
    return answer


@pytest.mark.behaviour("findings3/NB21")
def test_a_command_in_a_pod(client: Client, pod: str) -> None:
    done = client.exec(pod, ["echo", "a & b", "ü"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "a & b ü\n".encode(), b"")
    done = client.exec(pod, ["cat", "/a"], "default", container="main")
    assert (done.exit_code, done.stdout, done.stderr) == (1, b"", b"cat: /a: No such file or directory\n")
    # More than all the buffers on the way hold.
    data = bytes(range(256)) * 40_000
    assert client.exec(pod, ["cat"], stdin=data).stdout == data
    assert client.exec(pod, ["cat"], stdin=b"").exit_code == 0


@pytest.mark.behaviour("findings3/NB21")
def test_a_command_that_is_refused(client: Client, pod: str) -> None:
    with pytest.raises(ServerError, match="executable file not found"):
        client.exec(pod, ["missing"])
    with pytest.raises(BadRequest, match="container other is not valid"):
        client.exec(pod, ["true"], container="other")
    with pytest.raises(NotFound, match="none"):
        client.exec("none", ["true"])
    with pytest.raises(TransportError, match="dry run") as refused:
        Client.over(DryRunTransport(client.transport)).exec(pod, ["true"])
    assert not refused.value.sent


@pytest.mark.behaviour("findings3/NB21")
def test_a_forwarded_port(client: Client, pod: str) -> None:
    with client.port_forward(pod, PORT) as forward:
        address = "127.0.0.1", forward.local_port
        with socket.create_connection(address, 30) as first, socket.create_connection(address, 30) as second:
            assert forwarded(first, b"a") == b"a"
            assert forwarded(second, b"b" * 3_000_000) == b"b" * 3_000_000
            assert forwarded(first, b"c") == b"c"
        with socket.create_connection(address, 30) as last:
            assert forwarded(last, b"a") == b"a"
            client.delete("v1", "Pod", pod, grace_period_seconds=0)
            assert last.recv(1) == b""
    forward.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 30)


@pytest.mark.behaviour("findings3/NB21")
def test_a_port_that_is_refused(client: Client, pod: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NotFound, match="none"):
        client.port_forward("none", PORT)
    with client.port_forward(pod, 1) as forward, socket.create_connection(("127.0.0.1", forward.local_port), 30) as end:
        assert end.recv(1) == b""
    assert "error forwarding port 1" in caplog.text


@pytest.mark.behaviour("findings3/NB21")
def test_the_official_client_connects_to_a_pod(client: Client, pod: str) -> None:
    from kubernetes import client as official
    from kubernetes import stream

    core = official.CoreV1Api(client.official())
    connect: Any = core.connect_get_namespaced_pod_exec
    options = {"stdout": True, "stderr": True, "stdin": False, "tty": False}
    assert stream.stream(connect, pod, "default", command=["echo", "a", "b"], **options) == "a b\n"
    assert core.read_namespaced_pod(pod, "default").metadata.name == pod
    running = stream.stream(
        connect, pod, "default", command=["cat"], **{**options, "stdin": True}, _preload_content=False
    )
    running.write_stdin("line\n")
    assert running.readline_stdout(timeout=30) == "line"
    running.close_channel(0)
    running.run_forever(timeout=30)
    assert running.returncode == 0
    ports = stream.portforward(core.connect_get_namespaced_pod_portforward, pod, "default", ports=str(PORT))
    assert forwarded(ports.socket(PORT), b"hello") == b"hello"
    ports.socket(PORT).close()
    with pytest.raises(official.ApiException, match="none"):
        stream.stream(connect, "none", "default", command=["true"], **options)


@pytest.mark.real
@pytest.mark.behaviour("findings3/NB21")
def test_kubectl_runs_a_command(sandbox: Sandbox, pod: str, tmp_path: Path) -> None:
    require_kube_apiserver()
    # kubectl keeps what it discovers.
    environment = {**os.environ, "HOME": str(tmp_path)}

    def run(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        command = [BINARY, "kubectl", f"--kubeconfig={sandbox.kubeconfig}", "exec", *words]
        return subprocess.run(command, input=stdin, env=environment, capture_output=True, check=False, timeout=60)

    assert run(pod, "--", "echo", "a").stdout == b"a\n"
    assert run("-i", pod, "--", "cat", stdin=b"line").stdout == b"line"
    failed = run(pod, "--", "false")
    assert (failed.returncode, failed.stderr) == (1, b"command terminated with exit code 1\n")
    assert b'exec: "missing": executable file not found' in run(pod, "--", "missing").stderr


@pytest.mark.behaviour("findings3/NB21")
@pytest.mark.parametrize(("verbs", "refused"), [(["get"], "cannot create"), (["create"], "cannot get")])
def test_the_rights_of_a_connection(verbs: list[str], refused: str) -> None:
    with Sandbox(rbac=True) as sandbox:
        admin = Client.load(sandbox.kubeconfig)
        rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}
        admin.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "a"},
                "rules": [rule],
            }
        )
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "a"},
        }
        admin.create({**binding, "roleRef": role, "subjects": [subject]})
        account = Client.load(sandbox.kubeconfig_for(service_account="default/default"))
        with pytest.raises(Forbidden, match=refused):
            account.exec("a", ["true"])


@pytest.mark.behaviour("findings3/NB21")
def test_a_refusal_is_the_servers(control_plane: ControlPlane) -> None:
    client = Client.load(control_plane.kubeconfig)
    with pytest.raises(NotFound, match='pods "none" not found'):
        client.exec("none", ["true"])
    container = {"name": "main", "image": "x"}
    metadata = {"generateName": "a", "namespace": "default"}
    pod = client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    name = pod["metadata"]["name"]
    for call in (lambda: client.exec(name, ["true"]), lambda: client.port_forward(name, PORT)):
        with pytest.raises(BadRequest, match="does not have a host assigned"):
            call()


@pytest.mark.behaviour("findings3/NB21")
def test_without_websocket_client_the_error_says_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("websocket", "ctrlhost.client.pod_exec", "ctrlhost.client.port_forward"):
        monkeypatch.setitem(sys.modules, module, None)
    for call in (lambda: client.exec("a", ["true"]), lambda: client.port_forward("a", PORT)):
        with pytest.raises(ConfigError, match="need websocket-client") as raised:
            call()
        assert "pip install" in str(raised.value.hint)


@pytest.mark.behaviour("findings3/NB21")
def test_a_plugin_connects_only_while_it_may_write(client: Client) -> None:
    def refuse() -> None:
        raise NotLeading("no longer")

    governed = Client.over(GovernedTransport(client.transport, None, lambda: None, refuse))  # type: ignore[arg-type]
    faults = Faults()
    faulty = Client.over(FaultyTransport(client.transport, faults))
    for call in ("exec", "port_forward"):
        with pytest.raises(NotLeading):
            getattr(governed, call)("a", 80 if call == "port_forward" else ["true"])
        faults.next("create", Forbidden("not today"), resource="pods")
        with pytest.raises(Forbidden, match="not today"):
            getattr(faulty, call)("a", 80 if call == "port_forward" else ["true"])
