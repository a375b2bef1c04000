"""A right that is revoked while its plugin runs: the plugin is degraded, and the operator reads what to type."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Permission
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.status import status_of

RBAC = "rbac.authorization.k8s.io/v1"
COMMAND = "run `ctrlhost manifests --plugins=demo --image=IMAGE | kubectl apply --server-side -f -`"


def ready_line(host: Any) -> tuple[int, str]:
    with urllib.request.urlopen(f"http://{host.host.address}/readyz?verbose", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return answer.status, next(line for line in lines if "]plugin/demo " in line)


def set_verbs(client: Any, resource: str, verb: str, *, granted: bool) -> None:
    """Grant or revoke a verb in each ClusterRole that has the resource."""
    for role in client.list(RBAC, "ClusterRole"):
        rules = [dict(rule) for rule in role["rules"] or ()]
        for rule in (rule for rule in rules if resource in rule.get("resources", ())):
            others = [other for other in rule["verbs"] if other != verb]
            rule["verbs"] = [*others, verb] if granted else others
        if rules != role["rules"] and not role["metadata"]["name"].startswith(
            ("system:", "cluster-admin", "admin", "edit", "view")
        ):
            client.patch(RBAC, "ClusterRole", role["metadata"]["name"], None, {"rules": rules})


@pytest.mark.behaviour("oncall/OC21")
def test_a_revoked_right_degrades_and_the_hint_is_for_the_operator(
    ctrlhost_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctrlhost.supervisor.rights.AGAIN", 0.05)
    monkeypatch.setattr("ctrlhost.supervisor.rights._PERIOD", 0.05)

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"a": "b"}})

    plugin = plugin_of(
        lambda context: context.add_controller("c", reconcile, For("v1", "ConfigMap", label_selector="mine")),
        permissions=lambda settings: [Permission("", ["configmaps"], ["patch"])],
    )
    host = ctrlhost_host(
        plugin, least_privilege=True, listen="127.0.0.1:0", controllers={"demo/c": {"max_delay": "1s"}}
    )
    host.client.create(config_map("a", labels={"mine": "1"}))
    host.wait_for(lambda: host.client.get("v1", "ConfigMap", "a", "default").get("data"))
    assert ready_line(host) == (200, "[+]plugin/demo ok: running")

    set_verbs(host.client, "configmaps", "patch", granted=False)
    host.client.create(config_map("b", labels={"mine": "1"}))
    (degraded,) = host.wait_for(lambda: status_of(host)["plugins"][0]["degraded"])
    assert degraded["reason"] == "forbidden"
    assert degraded["message"] == f"1 right missing for demo: {COMMAND}, with the options of the installation"
    # The host stays in service: its other plugins run.
    status, line = host.wait_for(lambda: (seen := ready_line(host)) and "degraded" in seen[1] and seen)
    assert status == 200
    assert line == f"[-]plugin/demo failed: running, degraded: forbidden: {degraded['message']}"
    (row,) = status_of(host)["plugins"]
    assert (row["condition"], row["severity"]) == ("degraded", "degraded")
    # The plugin declares the right, so its author has nothing to do.
    error = host.wait_for(lambda: (last := host.controllers["demo/c"].status().last_error) and COMMAND in last and last)
    assert "plugin.permission" not in error

    set_verbs(host.client, "configmaps", "patch", granted=True)
    host.wait_for(lambda: not status_of(host)["plugins"][0]["degraded"])
    host.wait_for(lambda: host.client.get("v1", "ConfigMap", "b", "default").get("data"))
    host.wait_for(lambda: ready_line(host)[1] == "[+]plugin/demo ok: running")
