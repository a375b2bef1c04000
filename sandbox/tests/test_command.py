"""`ctrlhost-sandbox`, its pytest plugin, and the programs for envtest, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import pytest
import yaml
from ctrlhost_sandbox.cli.options import make_sandbox, sandbox_options
from ctrlhost_sandbox.http import tls

from tests.support.http_client import Api
from tests.support.tls_files import Authority
from tests.support.waiting import eventually

COMMAND = [sys.executable, "-m", "ctrlhost_sandbox"]
LIMIT = 60


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)


READ = """
import os, ssl, sys, urllib.request, base64, yaml
config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
request = urllib.request.Request(cluster["server"] + "/api/v1/namespaces/default")
request.add_header("Authorization", "Bearer " + user["token"])
print(urllib.request.urlopen(request, context=ssl.create_default_context(cadata=ca)).status)
print(os.environ["USE_EXISTING_CLUSTER"], *sys.argv[1:])
"""


def test_a_command_finds_the_server_and_keeps_its_flags() -> None:
    done = run("--", sys.executable, "-c", READ, "-v", "--rbac", "./...")
    assert (done.returncode, done.stdout.splitlines()) == (0, ["200", "true -v --rbac ./..."]), done.stderr


@pytest.mark.parametrize(
    ("command", "code"), [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], 127)]
)
def test_the_exit_code_is_that_of_the_command(command: list[str], code: int) -> None:
    assert run("--", *command).returncode == code


def test_a_termination_is_forwarded_to_the_command() -> None:
    waits = "import signal, sys; signal.signal(15, lambda *_: sys.exit(9)); print('up', flush=True); signal.pause()"
    with subprocess.Popen([*COMMAND, "--", sys.executable, "-c", waits], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 9


def test_it_serves_until_a_signal_and_removes_its_kubeconfig() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        kubeconfig = Path(process.stdout.readline().removeprefix("kubeconfig: ").strip())
        assert kubeconfig.exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
    assert not kubeconfig.exists()


def test_without_free_descriptors_it_logs_one_line_and_goes_on(tmp_path: Path) -> None:
    """asyncio reports it 1,024 times a second: that is the length of the backlog."""
    errors = tmp_path / "stderr"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        server = yaml.safe_load(Path(process.stdout.readline().split()[-1]).read_text())["clusters"][0]["cluster"][
            "server"
        ]
        host, _, port = server.removeprefix("https://").rpartition(":")
        numbers = {int(path.name) for path in Path(f"/proc/{process.pid}/fd").iterdir()}
        free = next(number for number in range(len(numbers) + 1) if number not in numbers)
        before = resource.prlimit(
            process.pid, resource.RLIMIT_NOFILE, (free, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        with socket.create_connection((host, int(port)), LIMIT) as connection:
            eventually(lambda: "cannot accept connections" in errors.read_text())
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
            # Accepted at the next try, a second later: the handshake is answered.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.wrap_socket(connection).close()
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
    assert errors.read_text().count("Too many open files") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--addr=here"], "invalid address `here`"),
        (["--pod-run-delay=2"], "invalid duration `2`"),
        (["--controllers=proxy"], "error: unknown controller `proxy`"),
        (
            ["--feature-gates=Magic=true"],
            "error: unknown feature gate `Magic`\nhint: known gates: ShardedListAndWatch\n",
        ),
        (["--feature-gates=ShardedListAndWatch"], "invalid feature gate `ShardedListAndWatch`: write NAME=true"),
        (["--kubeconfig=/dev"], "error: "),
        (["assets", "/dev/null/x"], "error: /dev/null/x: Not a directory"),
    ],
)
@pytest.mark.behaviour("shards/SH74a")
def test_invalid_usage_is_a_line_and_code_2(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.behaviour("shards/SH74a")
@pytest.mark.parametrize(("value", "code"), [("true", 500), ("False", 200)])
def test_a_feature_gate_is_turned_on(value: str, code: int) -> None:
    @click.command()
    @sandbox_options()
    def command(**values: Any) -> int:
        with make_sandbox(values) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
            return api.get("/api/v1/namespaces", shardSelector="x").status

    assert command.main([f"--feature-gates=ShardedListAndWatch={value}"], standalone_mode=False) == code


def test_times_have_units() -> None:
    @click.command()
    @sandbox_options()
    def command(**values: Any) -> float:
        delay: float = values["sandbox_pod_run_delay"]
        return delay

    assert command.main(["--pod-run-delay=1m30s500ms"], standalone_mode=False) == 90.5


# ---- the pytest plugin ----


def test_the_fixtures_serve_a_project_that_does_not_know_ctrlhost(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        dedent("""
        def pytest_sandbox_arguments(request):
            return {"rbac": "limited" in request.node.name}
        """)
    )
    (tmp_path / "test_it.py").write_text(
        dedent("""
        import os

        def test_open(kubeconfig, sandbox):
            assert os.environ["KUBECONFIG"] == str(kubeconfig) == str(sandbox.kubeconfig)
            assert not sandbox.rbac

        def test_limited(sandbox):
            assert sandbox.rbac
        """)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


# ---- client certificates ----


def review(url: str, context: ssl.SSLContext, token: str = "") -> dict[str, object]:
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    request = urllib.request.Request(f"{url}/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, context=context, timeout=LIMIT) as answer:
        user: dict[str, object] = json.load(answer)["status"]["userInfo"]
        return user


def context_with(ca: str, certificate: str, key: str, tmp_path: Path) -> ssl.SSLContext:
    pem = tmp_path / "client.pem"
    pem.write_text(certificate + key)
    context = ssl.create_default_context(cadata=ca)
    context.load_cert_chain(pem)
    return context


# What envtest gives the program: certificates of its own, in a folder that it names.
@pytest.fixture
def assets(tmp_path: Path) -> Path:
    assert run("assets", str(tmp_path / "assets")).returncode == 0
    return tmp_path / "assets"


@pytest.mark.behaviour("findings3/NS14")
@pytest.mark.behaviour("shards/SH74a")
def test_the_programs_for_envtest_serve_its_certificates(assets: Path, tmp_path: Path) -> None:
    issued, clients = tls.issue("127.0.0.1"), Authority(tmp_path / "clients")
    (tmp_path / "apiserver.crt").write_text(issued.leaf)
    (tmp_path / "apiserver.key").write_text(issued.key)
    (tmp_path / "ca.crt").write_text(clients.pem)
    flags = [f"--cert-dir={tmp_path}", f"--client-ca-file={tmp_path / 'ca.crt'}", "--secure-port=0"]
    flags += [
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--etcd-servers=http://127.0.0.1:1",
        "--feature-gates=ShardedListAndWatch=true,AllAlpha=false",
    ]
    command = [assets / "kube-apiserver", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        alice = clients.issue("alice", groups=["system:masters", "authors"])
        user = review(url, context_with(issued.ca, *alice, tmp_path))
        assert user == {"username": "alice", "groups": ["system:masters", "authors", "system:authenticated"]}
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(
                f"{url}/api/v1/namespaces?shardSelector=x", context=context_with(issued.ca, *alice, tmp_path)
            )
        with pytest.raises(urllib.error.HTTPError, match="403"):
            review(url, ssl.create_default_context(cadata=issued.ca))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0


@pytest.mark.behaviour("findings3/NS14")
@pytest.mark.parametrize(
    ("program", "flag"), [("etcd", "listen-client-urls"), ("kube-apiserver", "authorization-mode")]
)
def test_the_programs_print_the_flags_that_envtest_asks_for(assets: Path, program: str, flag: str) -> None:
    done = subprocess.run([assets / program, "--help"], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0
    assert re.search(rf"^\s*--{flag}\b", done.stdout, re.MULTILINE)


@pytest.mark.behaviour("findings3/NS14")
def test_etcd_of_envtest_only_says_that_it_is_well(assets: Path) -> None:
    command = [assets / "etcd", "--listen-client-urls=http://127.0.0.1:0", "--data-dir=/nowhere"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{url}/health", timeout=LIMIT) as answer:
            assert json.load(answer) == {"health": "true"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
