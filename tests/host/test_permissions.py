"""Permissions on a real kube-apiserver: plugins wait for missing ones, and `ctrlhost manifests` grants enough."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.plugin_sources import GREETER, WIDGETS, to_greet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.control_plane import KubeApiserver

_accounts = itertools.count(1)


class Account:
    """A service account without permissions, and its kubeconfig."""

    def __init__(self, server: KubeApiserver, folder: Path) -> None:
        self.client = server.client
        self.name = f"host-{next(_accounts)}"
        self.namespace = "default"
        metadata = {"name": self.name, "namespace": self.namespace}
        self.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.client.transport.request(
            "POST",
            f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token",
            body=json.dumps(request).encode(),
            headers={"Content-Type": "application/json"},
        )
        config = yaml.safe_load(server.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": json.loads(answer.body)["status"]["token"]}
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def grant(self, manifests: list[dict[str, Any]]) -> None:
        for one in manifests:
            if one["apiVersion"].startswith("rbac.") or one["kind"] == "CustomResourceDefinition":
                self.client.apply(one)


@pytest.fixture
def account(kube_apiserver, tmp_path):
    return Account(kube_apiserver, tmp_path)


def rights(ctrlhost, account: Account, plugins: str) -> list[dict[str, Any]]:
    result = ctrlhost(
        "manifests", f"--plugins={plugins}", f"--name={account.name}", f"--deploy-namespace={account.namespace}"
    )
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def test_a_plugin_waits_for_a_missing_permission_and_starts_when_it_is_granted(
    ctrlhost, distributions, start_host, account
):
    distributions.add("greeter", GREETER)
    host = start_host(f"--kubeconfig={account.kubeconfig}", plugins="greeter")
    line = host.line("plugin greeter waiting")["msg"]
    assert "ConfigMap (v1)" in line
    assert "configmaps is forbidden" in line
    assert host.get("/readyz") == (200, "ok")
    assert host.metric("ctrlhost_plugin_state", plugin="greeter", state="waiting") == 1
    account.grant(rights(ctrlhost, account, "greeter"))
    host.line("plugin greeter running")
    assert host.stop() == 0


def test_manifests_grant_enough_and_a_missing_permission_affects_one_plugin(
    ctrlhost, distributions, start_host, account
):
    distributions.add("greeter", GREETER)
    distributions.add("widgets", WIDGETS)
    account.grant(rights(ctrlhost, account, "greeter"))
    host = start_host(f"--kubeconfig={account.kubeconfig}", plugins="greeter,widgets")
    host.line("plugin greeter running")
    host.line("plugin widgets waiting")
    account.client.create(to_greet("cleared"))
    host.line("greeting cleared")
    host.wait_for_metric(1, "controller_runtime_reconcile_total", controller="greeter/greeter", result="success")
    account.grant(rights(ctrlhost, account, "greeter,widgets"))
    host.line("plugin widgets running")
    assert host.stop() == 0


def test_a_plugin_waits_for_crds_that_it_may_not_install(ctrlhost, distributions, start_host, account):
    distributions.add("widgets", WIDGETS.replace("host.test", "forbidden.test"))
    distributions.add("greeter", GREETER)
    account.grant(rights(ctrlhost, account, "greeter"))
    host = start_host(f"--kubeconfig={account.kubeconfig}", "--install-crds", plugins="widgets,greeter")
    line = host.line("plugin widgets waiting")["msg"]
    assert "installing CRDs: widgets.forbidden.test" in line
    assert "forbidden" in line
    host.line("plugin greeter running")
    account.client.create(yaml.safe_load(ctrlhost("crds", "--plugins=widgets").stdout))
    account.grant(rights(ctrlhost, account, "greeter,widgets"))
    assert host.get("/readyz")[0] == 200
    assert host.stop() == 0
