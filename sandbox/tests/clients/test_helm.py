"""Helm installs, upgrades, rolls back and tests a chart with all that charts often have."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.control_plane import BINARY
from tests.support.http_client import Api, names
from tests.support.objects import apps, batch, core
from tests.support.rbac_rig import api_of
from tests.support.workload_clusters import cluster

HELM = BINARY.with_name("helm")
CHART = Path(__file__).parent / "chart"
NS = "shop"


class Helm:
    """Runs helm on the sandbox; every command waits for the objects and the Jobs."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(sandbox.kubeconfig), "HOME": str(home)}

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [HELM, "--namespace", NS, *words], capture_output=True, text=True, timeout=120, env=self._environment
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def revisions(self) -> list[tuple[int, str]]:
        revisions = json.loads(self("history", "web", "--output", "json"))
        return [(revision["revision"], revision["status"]) for revision in revisions]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with cluster() as server:
        yield server


@pytest.fixture
def helm(sandbox: Sandbox, tmp_path: Path) -> Helm:
    if not HELM.exists():
        pytest.skip("helm is not built; `make real-tools` builds it")
    return Helm(sandbox, tmp_path)


def images(api: Api) -> set[str]:
    items = api.get(core(NS, "pods")).expect(200)["items"]
    living = [pod for pod in items if pod["metadata"].get("labels", {}).get("app") == "web"]
    return {container["image"] for pod in living for container in pod["spec"]["containers"]}


def state(api: Api, path: str) -> dict[str, Any]:
    status: dict[str, Any] = api.get(path).expect(200)["status"]
    return status


def is_complete(api: Api, name: str) -> bool:
    conditions = state(api, batch(NS, "jobs", name)).get("conditions", [])
    return {condition["type"]: condition["status"] for condition in conditions}.get("Complete") == "True"


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1g")
def test_a_chart_is_installed_upgraded_and_rolled_back(sandbox: Sandbox, helm: Helm) -> None:
    waits = ("--wait", "--wait-for-jobs", "--timeout", "60s")
    with api_of(sandbox.kubeconfig) as api:
        helm("install", "web", str(CHART), "--create-namespace", *waits)
        assert state(api, apps(NS, "deployments", "web"))["availableReplicas"] == 2
        assert state(api, core(NS, "persistentvolumeclaims", "web"))["phase"] == "Bound"
        assert state(api, f"/apis/policy/v1/namespaces/{NS}/poddisruptionbudgets/web")["expectedPods"] == 2
        assert is_complete(api, "web-pre-install")
        assert is_complete(api, "web-fill-1")
        for path, name in (
            (batch(NS, "cronjobs"), "web-nightly"),
            (f"/apis/autoscaling/v2/namespaces/{NS}/horizontalpodautoscalers", "web"),
            (f"/apis/networking.k8s.io/v1/namespaces/{NS}/networkpolicies", "web"),
        ):
            assert names(api.get(path)) == [name]
        assert images(api) == {"nginx:1"}

        helm("upgrade", "web", str(CHART), "--set", "image=nginx:2,replicas=3", *waits)
        assert state(api, apps(NS, "deployments", "web"))["availableReplicas"] == 3
        assert is_complete(api, "web-post-upgrade")
        assert is_complete(api, "web-fill-2")
        api.get(batch(NS, "jobs", "web-fill-1")).fails(404)
        assert images(api) >= {"nginx:2"}

        helm("rollback", "web", "1", *waits)
        assert state(api, apps(NS, "deployments", "web"))["availableReplicas"] == 2
        assert is_complete(api, "web-fill-1")
        assert helm.revisions() == [(1, "superseded"), (2, "superseded"), (3, "deployed")]

        text = helm("test", "web", "--logs")
        assert "Phase:          Succeeded" in text
        assert "POD LOGS: web-test" in text

        helm("uninstall", "web", "--wait", "--timeout", "60s")
        for path in (apps(NS, "deployments"), batch(NS, "cronjobs"), core(NS, "persistentvolumeclaims")):
            assert names(api.get(path)) == []


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1g")
def test_a_hook_that_fails_fails_the_upgrade(sandbox: Sandbox, helm: Helm) -> None:
    helm("install", "web", str(CHART), "--create-namespace", "--wait", "--timeout", "60s")
    text = helm("upgrade", "web", str(CHART), "--set", "exitCode=1", "--timeout", "60s", code=1)
    assert "post-upgrade hooks failed" in text
    assert "BackoffLimitExceeded" in text
    assert helm.revisions() == [(1, "deployed"), (2, "failed")]
    with api_of(sandbox.kubeconfig) as api:
        assert "failed" in state(api, batch(NS, "jobs", "web-post-upgrade"))
