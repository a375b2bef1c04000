"""The rights in printed manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.accounts import Account
from tests.host.conftest import Distributions, StartHost
from tests.support.control_plane import KubeApiserver
from tests.support.manifests import Manifest, Printed, of_kind
from tests.support.plugin_modules import config_map
from tests.support.plugin_sources import GREETER

behaviour = pytest.mark.behaviour

#: Watches ConfigMaps, and one Secret by its name.
SELECTIVE = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("selective", reconcile, ctrlhost.For("v1", "ConfigMap"))
        plugin.informer("v1", "Secret", field_selector="metadata.name=login")

    def reconcile(ctx, request):
        pass
"""

#: Reads each ConfigMap labelled read=yes by its name, without a permission for that.
READER = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("reader", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="read=yes"))

    def reconcile(ctx, request):
        ctx.client.get("v1", "ConfigMap", request.name, request.namespace)
"""


def rights(
    manifests: list[Manifest], resource: str, name: str = "ctrlhost"
) -> dict[tuple[str, str | None], list[tuple[list[str], list[str]]]]:
    """Return verbs and names of a resource of the core group, by kind and namespace of the role."""
    rules = {
        (manifest["kind"], manifest["metadata"].get("namespace")): [
            (rule["verbs"], rule.get("resourceNames", []))
            for rule in manifest["rules"]
            if resource in rule["resources"] and rule["apiGroups"] == [""]
        ]
        for manifest in manifests
        if "rules" in manifest and manifest["metadata"]["name"].endswith(name)
    }
    return {place: some for place, some in rules.items() if some}


@behaviour("operations/OP149")
def test_rights_are_as_narrow_as_the_namespaces_and_names(printed: Printed, distributions: Distributions) -> None:
    distributions.add("selective", SELECTIVE)
    maps, login = [(["list", "watch"], [])], [(["list", "watch"], ["login"])]

    named = printed("--plugins=selective", "-n", "a,b")
    assert rights(named, "configmaps") == {("Role", "a"): maps, ("Role", "b"): maps}
    assert rights(named, "secrets") == {("Role", "a"): login, ("Role", "b"): login}
    assert [manifest["metadata"]["namespace"] for manifest in of_kind(named, "RoleBinding")] == ["a", "b"]
    assert [manifest["metadata"]["name"] for manifest in of_kind(named, "ClusterRole")] == [
        "ctrlhost-system-ctrlhost-metrics-reader"
    ]

    for arguments in (["-n", "label:team=shop"], []):
        wide = printed("--plugins=selective", *arguments)
        assert rights(wide, "configmaps") == {("ClusterRole", None): maps}
        assert rights(wide, "secrets") == {("ClusterRole", None): login}


@behaviour("operations/OP150")
def test_an_undeclared_read_by_name_is_not_granted(
    start_host: StartHost,
    printed: Printed,
    distributions: Distributions,
    kube_apiserver: KubeApiserver,
    tmp_path: Path,
) -> None:
    distributions.add("reader", READER)
    account = Account(kube_apiserver, tmp_path)
    manifests = printed("--plugins=reader", f"--name={account.name}", f"--deploy-namespace={account.namespace}")
    assert rights(manifests, "configmaps", account.name) == {("ClusterRole", None): [(["list", "watch"], [])]}
    account.grant(manifests)
    account.client.apply(config_map("undeclared", labels={"read": "yes"}))
    host = start_host(f"--kubeconfig={account.kubeconfig}", plugins="reader")
    line = host.line("is forbidden", "cannot get resource")
    assert line["plugin"] == "reader"
    assert 'cannot get resource "configmaps" in API group "" in the namespace "default"' in line["msg"]
    assert host.stop() == 0

    distributions.add("greeter", GREETER)
    declared = rights(printed("--plugins=greeter"), "configmaps")
    assert declared == {("ClusterRole", None): [(["create", "get", "list", "watch"], [])]}
