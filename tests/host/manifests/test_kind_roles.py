"""The roles for the users of a plugin's kinds."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from tests.support.manifests import Printed, of_kind
from tests.support.waiting import eventually

#: One kind with a status and a scale, and one with neither, which is cluster-scoped.
KINDS = """
    import ctrlhost

    def crd(kind, plural, scope, **subresources):
        return {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.host.test"},
            "spec": {"group": "host.test", "scope": scope, "names": {"kind": kind, "plural": plural},
                     "versions": [{"name": "v1", "served": True, "storage": True, "subresources": subresources,
                                   "schema": {"openAPIV3Schema": {
                                       "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]},
        }

    @ctrlhost.hookimpl
    def ctrlhost_crds():
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        return [crd("Widget", "widgets", "Namespaced", status={}, scale=scale), crd("Gadget", "gadgets", "Cluster")]
"""
READ = ["get", "list", "watch"]
ALL = ["create", "delete", "deletecollection", *READ, "patch", "update"]
SCALED = ["get", "patch", "update"]


def rule(resource: str, verbs: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": ["host.test"], "resources": [resource], "verbs": verbs}


@pytest.mark.behaviour("findings3/NA29")
def test_each_kind_has_roles_that_view_and_edit_include(printed: Printed, distributions: Any) -> None:
    distributions.add("kinds", KINDS)
    documents = printed("--plugins=kinds", "--name=shop", "--deploy-namespace=a")
    roles = {
        document["metadata"]["name"]: document
        for document in of_kind(documents, "ClusterRole")
        if document["metadata"]["name"].endswith(("-viewer", "-editor"))
    }
    assert {name: role["rules"] for name, role in roles.items()} == {
        "a-shop-widgets.host.test-viewer": [
            rule("widgets", READ),
            rule("widgets/status", ["get"]),
            rule("widgets/scale", ["get"]),
        ],
        "a-shop-widgets.host.test-editor": [
            rule("widgets", ALL),
            rule("widgets/status", ["get"]),
            rule("widgets/scale", SCALED),
        ],
        "a-shop-gadgets.host.test-viewer": [rule("gadgets", READ)],
        "a-shop-gadgets.host.test-editor": [rule("gadgets", ALL)],
    }
    for name, role in roles.items():
        labels = role["metadata"]["labels"]
        added = {label for label in labels if label.startswith("rbac.authorization.k8s.io/aggregate-to-")}
        assert added == {f"rbac.authorization.k8s.io/aggregate-to-{'view' if name.endswith('viewer') else 'edit'}"}
        assert {labels[label] for label in added} == {"true"}
        assert labels["app.kubernetes.io/instance"] == "a-shop"
    # Nothing binds them, and who uninstalls the installation removes them.
    bound = {document["roleRef"]["name"] for document in of_kind(documents, "ClusterRoleBinding")}
    assert not bound & roles.keys()
    uninstalled = printed("--plugins=kinds", "--name=shop", "--deploy-namespace=a", "--uninstall")
    assert roles.keys() <= {document["metadata"]["name"] for document in uninstalled}


@pytest.mark.behaviour("findings3/NA29")
def test_who_may_view_or_edit_a_namespace_may_do_so_with_the_kinds(printed: Printed, distributions: Any) -> None:
    distributions.add("kinds", KINDS)
    with Sandbox(rbac=True) as sandbox, closing(ctrlhost.Client.load(sandbox.kubeconfig)) as admin:
        for document in printed("--plugins=kinds"):
            admin.apply(document)
        clients: dict[str, ctrlhost.Client] = {}
        for use in ("view", "edit", "admin"):
            admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": use}})
            admin.create(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": {"name": use},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": use},
                    "subjects": [{"kind": "ServiceAccount", "name": use, "namespace": "default"}],
                }
            )
            clients[use] = ctrlhost.Client.load(sandbox.kubeconfig_for(service_account=f"default/{use}"))
        try:
            for client in clients.values():
                eventually(lambda client=client: _lists(client))
            widget = {"apiVersion": "host.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
            with pytest.raises(ctrlhost.Forbidden):
                clients["view"].create(widget)
            clients["edit"].create(widget)
            with pytest.raises(ctrlhost.Forbidden):
                clients["edit"].apply({**widget, "status": {"phase": "x"}}, subresource="status")
            clients["admin"].delete("host.test/v1", "Widget", "w", "default")
        finally:
            for client in clients.values():
                client.close()


def _lists(client: ctrlhost.Client) -> bool:
    try:
        return not list(client.list("host.test/v1", "Widget", "default"))
    except ctrlhost.Forbidden:
        return False
