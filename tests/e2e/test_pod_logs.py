"""Logs of pods, of the sandbox's kubelet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ctrlhost_sandbox import Options, Sandbox

from ctrlhost.client import Client
from ctrlhost.errors import BadRequest, NotFound
from tests.support.waiting import eventually


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
    """A running pod whose container ends after an hour of the sandbox's clock."""
    name = request.node.name.replace("_", "-")[:60].rstrip("-")
    container = {"name": "main", "image": "x"}
    spec = {"restartPolicy": "Never", "containers": [container]}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    eventually(lambda: client.get("v1", "Pod", name)["status"].get("phase") == "Running")
    return name


def test_a_followed_log_continues_until_the_container_ends(client: Client, sandbox: Sandbox, pod: str) -> None:
    before = list(client.logs(pod))
    assert [line.partition(" ")[2] for line in before] == ["main started", "main runs nothing: this is a sandbox"]
    assert list(client.logs(pod, "default", container="main", tail_lines=1)) == before[-1:]
    lines = client.logs(pod, follow=True)
    assert [next(lines), next(lines)] == before
    sandbox.advance(3600)
    assert [line.partition(" ")[2] for line in lines] == ["main exited with code 0"]
    assert len(list(client.logs(pod, follow=True))) == len(list(client.logs(pod))) == 3


def test_a_followed_log_ends_with_its_pod_or_its_reader(client: Client, pod: str) -> None:
    lines = client.logs(pod, follow=True)
    next(lines)
    other = client.logs(pod, follow=True)
    next(other)
    other.close()  # type: ignore[attr-defined]
    client.delete("v1", "Pod", pod, grace_period_seconds=0)
    assert len(list(lines)) == 1
    with pytest.raises(NotFound):
        next(client.logs(pod))


def test_an_unknown_container_is_refused(client: Client, pod: str) -> None:
    with pytest.raises(BadRequest, match="container other is not valid"):
        next(client.logs(pod, container="other", follow=True))


def test_the_official_client_follows_a_log(client: Client, sandbox: Sandbox, pod: str) -> None:
    from kubernetes import client as official

    core = official.CoreV1Api(client.official())
    pieces = core.read_namespaced_pod_log(pod, "default", follow=True, _preload_content=False).stream()
    assert next(pieces).decode().endswith("main runs nothing: this is a sandbox\n")
    sandbox.advance(3600)
    assert b"".join(pieces).decode().endswith(" main exited with code 0\n")
    assert core.read_namespaced_pod_log(pod, "default", follow=True).count("\n") == 3
    with pytest.raises(official.ApiException) as refused:
        core.read_namespaced_pod_log("none", "default", follow=True)
    assert refused.value.status == 404
