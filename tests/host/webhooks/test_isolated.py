"""Webhooks of a plugin in a process of its own, which the host asks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.host.conftest import Distributions
from tests.support.admission_rig import GROUP
from tests.support.host_process import HostProcess
from tests.support.http_client import Api
from tests.support.processes import children_of
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.webhook_host import Certificate, Listener, config_map
from tests.support.webhook_server import configuration, webhook

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

NAMESPACE = "isolated-webhooks"
GUARD = """
    import os
    import ctrlhost

    plugin = ctrlhost.Plugin()

    @plugin.validate("v1/ConfigMap", timeout="2s")
    def size(ctx, new, old):
        ctx.warn(f"process {os.getpid()}")
        if new["data"]["size"] == "large":
            raise ctrlhost.Denied("must be small", field="data.size", code=422)
        if new["data"]["size"] == "none":
            raise RuntimeError("no size")
        if new["data"]["size"] == "slow":
            import threading
            threading.Event().wait()

    @plugin.controller("v1/Secret")
    def secrets(ctx, secret):
        pass
"""


class Isolated:
    """A host process with the isolated plugin `guard`, which the server asks with both failure policies."""

    def __init__(self, folder: Path, server: ControlPlane, api: Api) -> None:
        self.api = api
        self.certificate = Certificate(folder / "tls")
        (folder / "site").mkdir()
        distributions = Distributions(folder / "site")
        distributions.add("guard", GUARD)
        distributions.add("other", GUARD.replace('"v1/ConfigMap", ', '"v1/ConfigMap", name="check", '))
        self.process = HostProcess(
            "--plugins=guard,other",
            "--isolate=guard",
            f"--kubeconfig={server.kubeconfig}",
            f"--set=host.webhook_cert_dir={folder / 'tls'}",
            "--set=host.webhook_listen=127.0.0.1:0",
            "--set=supervision.guard.restart_delay=3s",
            environment=distributions.environment(),
        )

    def __enter__(self) -> Self:
        address = str(self.process.line("serving webhooks on https://")["msg"]).rpartition("//")[2]
        self.process.line("plugin guard running")
        self.listener = Listener(address, self.certificate)
        client = {"url": f"https://{address}/validate/guard/size", "caBundle": self.certificate.bundle}
        entries = [
            webhook(
                f"{policy.lower()}.example.com",
                client,
                failurePolicy=policy,
                timeoutSeconds=2,
                namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                objectSelector={"matchLabels": {"policy": policy}},
            )
            for policy in ("Fail", "Ignore")
        ]
        self.api.post(f"{GROUP}/validatingwebhookconfigurations", configuration(NAMESPACE, *entries)).expect(201)
        eventually(lambda: self.create("Fail", "large").status == 422, pause=0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.api.delete(f"{GROUP}/validatingwebhookconfigurations/{NAMESPACE}").expect(200)
        self.process.end()

    def create(self, policy: str, size: str) -> Any:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        return self.api.post(path, config_map("one", {"policy": policy}, size=size), dryRun="All")


@pytest.fixture(scope="module")
def isolated(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolated]:
    with api_of(server.kubeconfig) as api:
        created = {"metadata": {"name": NAMESPACE}}
        eventually(lambda: api.post("/api/v1/namespaces", created).status == 201)
        with Isolated(tmp_path_factory.mktemp("isolated"), server, api) as host:
            yield host


@pytest.mark.behaviour("webhooks/WH20")
def test_the_process_of_the_plugin_answers_as_the_host_would(isolated: Isolated) -> None:
    (child,) = (process.pid for process in children_of(isolated.process.pid))
    admitted = isolated.create("Fail", "small")
    admitted.expect(201)
    assert admitted.warnings == [f'299 - "process {child}"']
    denied = isolated.create("Fail", "large").fails(422, "Invalid", "data.size", "FieldValueInvalid")
    text = 'admission webhook "fail.example.com" denied the request: data.size: must be small'
    assert denied["message"] == text
    failed = isolated.create("Fail", "none").fails(500, "InternalError")
    assert "plugin guard: webhook function size failed" in failed["message"]
    isolated.create("Ignore", "none").expect(201)
    assert isolated.create("Fail", "slow").status == 500
    host = isolated.process
    path = {"webhook": "/validate/guard/size"}
    assert host.metric("ctrlhost_webhook_denied_total", plugin="guard", **path) >= 1
    for code in ("500", "504"):
        assert host.metric("controller_runtime_webhook_requests_total", code=code, **path) >= 1
    # Its own process says that it is stuck.
    host.eventually(
        lambda: "webhooks/guard ok: 1 running, 0 queued; stuck: 1" in host.get("/readyz?verbose")[1], "stuck"
    )
    assert (
        "degraded: slow: webhook of /validate/guard/size is beyond its deadline of 1.5 s"
        in host.get("/readyz?verbose")[1]
    )


@pytest.mark.behaviour("webhooks/WH20")
def test_without_its_process_the_failure_policy_decides(isolated: Isolated) -> None:
    host = isolated.process
    (child,) = (process.pid for process in children_of(host.pid))
    before = len(host.lines)
    os.kill(child, signal.SIGKILL)
    host.line("plugin guard failing", after=before)
    status, body = isolated.listener.send("/validate/guard/size", b"{}")
    assert (status, body) == (503, "the process of plugin guard is down\n")
    refused = isolated.create("Fail", "small").fails(500, "InternalError")
    assert 'failed calling webhook "fail.example.com"' in refused["message"]
    assert "the server is currently unable to handle the request" in refused["message"]
    isolated.create("Ignore", "large").expect(201)
    # The other plugin answers meanwhile.
    other = isolated.listener.review("/validate/other/check", config_map("one", {}, size="large"))
    assert other["allowed"] is False
    host.line("plugin guard running", after=before)
    assert eventually(lambda: isolated.create("Fail", "large").status == 422)
    isolated.create("Fail", "small").expect(201)
