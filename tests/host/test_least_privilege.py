"""Hosts with only the permissions from `ctrlhost manifests`."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import For, Forbidden, Permission
from tests.support.plugin_modules import config_map, plugin_of

MINE = For("v1", "ConfigMap", label_selector="mine")
CREATE = Permission("", ["configmaps"], ["create", "delete"])


def copier(caught: list[str], *permissions: Permission) -> Any:
    """Return a plugin that copies each of its ConfigMaps, and records the error if that is forbidden."""

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        try:
            ctx.client.create(config_map(f"copy-of-{request.name}"))
        except Forbidden as error:
            caught.append(error.message)

    return plugin_of(
        lambda plugin: plugin.add_controller("c", reconcile, MINE), permissions=lambda settings: permissions
    )


def test_an_undeclared_permission_is_not_granted(ctrlhost_host) -> None:
    caught: list[str] = []
    host = ctrlhost_host(copier(caught), least_privilege=True)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert len(caught) == 1
    assert caught[0].startswith("configmaps is forbidden: User ")
    assert 'cannot create resource "configmaps" in API group "" in the namespace "default"' in caught[0]
    assert host.client.find("v1", "ConfigMap", "copy-of-ann", "default") is None


def test_declared_permissions_are_enough_and_unused_ones_are_reported(ctrlhost_host) -> None:
    caught: list[str] = []
    host = ctrlhost_host(copier(caught, CREATE), least_privilege=True)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "copy-of-ann", "default")
    assert caught == []
    unused = host.unused_rights()
    assert ("", "configmaps", "delete") in unused
    assert ("", "configmaps", "create") not in unused
    assert ("", "configmaps", "watch") not in unused


def test_limits_apply_behind_a_proxy(ctrlhost_host, faults) -> None:
    caught: list[str] = []
    with Sandbox(rbac=True) as server:
        host = ctrlhost_host(copier(caught), sandbox=server, through=faults(server), least_privilege=True)
        host.client.create(config_map("ann", labels={"mine": "1"}))
        host.run_until_idle()
        assert len(caught) == 1
        assert host.stop()


def test_a_sandbox_without_rbac_cannot_limit_a_host(ctrlhost_host, sandbox) -> None:
    with pytest.raises(ValueError, match="needs a sandbox with `rbac=True`"):
        ctrlhost_host(copier([]), sandbox=sandbox, least_privilege=True)
    host = ctrlhost_host(copier([]), sandbox=sandbox)
    with pytest.raises(RuntimeError, match="was not started with `least_privilege=True`"):
        host.unused_rights()
    with pytest.raises(RuntimeError, match="has no RBAC"):
        sandbox.rights_used("ann")


class TestWithTheFixtureOverridden:
    """Override the fixture as in an author's conftest.py."""

    @pytest.fixture
    def ctrlhost_least_privilege(self) -> bool:
        return True

    def test_every_host_is_limited_and_every_sandbox_checks_roles(self, ctrlhost_host, sandbox) -> None:
        caught: list[str] = []
        for host in (ctrlhost_host(copier(caught)), ctrlhost_host(copier(caught), sandbox=sandbox)):
            host.client.create(config_map("ann", labels={"mine": "1"}))
            host.run_until_idle()
        assert len(caught) == 2

    def test_a_host_can_be_excluded(self, ctrlhost_host) -> None:
        caught: list[str] = []
        host = ctrlhost_host(copier(caught), least_privilege=False)
        host.client.create(config_map("ann", labels={"mine": "1"}))
        host.run_until_idle()
        assert caught == []


@pytest.mark.parametrize("granted", [True, False])
def test_a_reference_that_blocks_the_deletion_of_its_owner_uses_the_right_to_its_finalizers(granted: bool) -> None:
    blocked = {"apiGroups": [""], "resources": ["configmaps/finalizers"], "verbs": ["update"]}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}, *([blocked] * granted)]
    rbac = "rbac.authorization.k8s.io"
    with Sandbox(rbac=True) as sandbox:
        admin = ctrlhost.Client.load(sandbox.kubeconfig)
        subject = {"kind": "User", "apiGroup": rbac, "name": "ann"}
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "writer"}
        for kind, content in (
            ("ClusterRole", {"rules": rules}),
            ("ClusterRoleBinding", {"roleRef": role, "subjects": [subject]}),
        ):
            admin.create({"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": {"name": "writer"}, **content})
        owner = admin.create(config_map("owner"))
        ann = ctrlhost.Client.load(sandbox.kubeconfig_for(user="ann"))
        # As a kube-apiserver by default, the sandbox does not require it.
        ann.apply(config_map("child"), owner=owner)
        finalizers = {("", "configmaps/finalizers", "update")} if granted else set()
        used = {("", "configmaps", "create"), ("", "configmaps", "patch"), *finalizers}
        assert set(sandbox.rights_used("ann")) == used
        admin.close()
        ann.close()
