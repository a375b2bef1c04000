"""Permissions on a real kube-apiserver: plugins wait for missing ones, and `ctrlhost manifests` grants enough."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.host.accounts import Account
from tests.support.plugin_sources import GREETER, WIDGETS, to_greet


@pytest.fixture
def account(kube_apiserver, tmp_path):
    return Account(kube_apiserver, tmp_path)


def rights(ctrlhost, account: Account, plugins: str) -> list[dict[str, Any]]:
    result = ctrlhost(
        *("manifests", f"--plugins={plugins}", "--image=host:1"),
        *(f"--name={account.name}", f"--deploy-namespace={account.namespace}"),
    )
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def test_a_plugin_waits_for_a_missing_permission_and_starts_when_it_is_granted(
    ctrlhost, distributions, start_host, account
):
    distributions.add("greeter", GREETER)
    host = start_host(f"--kubeconfig={account.kubeconfig}", "--set=host.start_timeout=0s", plugins="greeter")
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
    host = start_host(
        f"--kubeconfig={account.kubeconfig}",
        *("--install-crds", "--set=host.start_timeout=0s"),
        plugins="widgets,greeter",
    )
    line = host.line("plugin widgets waiting")["msg"]
    assert "installing CRDs: widgets.forbidden.test" in line
    assert "forbidden" in line
    host.line("plugin greeter running")
    account.client.create(yaml.safe_load(ctrlhost("crds", "--plugins=widgets").stdout))
    account.grant(rights(ctrlhost, account, "greeter,widgets"))
    assert host.get("/readyz")[0] == 200
    assert host.stop() == 0
