"""The rights that follow from `owns`, and hosts that have no others."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.manifests.loading import load_plugins
from ctrlhost.manifests.rbac import collect_permissions
from tests.support.operators import deployment, errors, mine, operator
from tests.support.plugin_modules import plugin_of

READ = {"list", "watch"}
ENSURED = READ | {"get", "create", "patch"}


def rights(*plugins: Any) -> dict[str, set[str]]:
    """Return the verbs by resource that plugins need, without those to read CRDs."""
    configuration = Configuration(
        {"host": {}, "plugins": {}, "controllers": {}, "supervision": {}, "informers": {}}, ""
    )
    verbs: dict[str, set[str]] = {}
    for permission in collect_permissions(load_plugins(plugins, configuration), configuration.host):
        for resource in permission.resources:
            verbs.setdefault(resource, set()).update(permission.verbs)
    verbs.pop("customresourcedefinitions", None)
    return verbs


@pytest.mark.parametrize(
    ("owns", "verbs", "finalizers"),
    [
        pytest.param("apps/v1/Deployment", ENSURED, True, id="text"),
        pytest.param(ctrlhost.Owns("apps/v1/Deployment"), ENSURED, True, id="owns"),
        pytest.param(ctrlhost.Owns("apps/v1/Deployment", prune=True), ENSURED | {"delete"}, True, id="prune"),
        pytest.param(ctrlhost.Owns("apps/v1/Deployment", ensure=False), READ, False, id="read-only"),
        pytest.param(
            ctrlhost.Owns("apps/v1/Deployment", ensure=False, prune=True), READ | {"delete"}, False, id="delete"
        ),
        pytest.param(ctrlhost.Owns("apps/v1/Deployment", reads="metadata"), READ, False, id="part"),
    ],
)
def test_the_verbs_follow_from_owns(owns: Any, verbs: set[str], finalizers: bool) -> None:
    wanted = {"configmaps": READ, "deployments": verbs, "events": {"create", "patch"}}
    if finalizers:
        wanted["configmaps/finalizers"] = {"update"}
    assert rights(operator(lambda ctx, obj: None, owns)) == wanted


def test_a_watched_kind_that_is_ensured_needs_no_right_on_its_owner() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.controller("v1/ConfigMap", watches=[ctrlhost.Watches("apps/v1/Deployment", ensure=True)])
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None: ...

    assert rights(plugin) == {"configmaps": READ, "deployments": ENSURED, "events": {"create", "patch"}}


def test_the_verbs_are_those_of_the_namespaces_of_the_sources() -> None:
    source = ctrlhost.For("v1/ConfigMap", namespaces=["a"])
    owns = ctrlhost.Owns("apps/v1/Deployment", namespaces=["a", "b"])
    configuration = Configuration(
        {"host": {}, "plugins": {}, "controllers": {}, "supervision": {}, "informers": {}}, ""
    )
    loaded = load_plugins((operator(lambda ctx, obj: None, owns, kind=source),), configuration)
    triples = {
        (resource, verb, permission.namespace)
        for permission in collect_permissions(loaded, configuration.host)
        for resource in permission.resources
        for verb in permission.verbs
    }
    assert {namespace for resource, verb, namespace in triples if (resource, verb) == ("deployments", "patch")} == {
        "a",
        "b",
    }
    assert {namespace for resource, _, namespace in triples if resource == "configmaps/finalizers"} == {"a"}


def test_a_controller_of_the_hooks_only_reads_what_it_owns() -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller(
            "c", lambda ctx, request: None, ctrlhost.For("v1/ConfigMap"), ctrlhost.Owns("apps/v1/Deployment")
        )

    assert rights(plugin_of(setup)) == {"configmaps": READ, "deployments": READ, "events": {"create", "patch"}}


def test_a_host_with_these_rights_is_never_forbidden_and_uses_each(ctrlhost_host) -> None:
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        names = obj["data"]["names"].split()
        for name in names:
            ctx.ensure(deployment(name))
        ctx.prune("apps/v1/Deployment", keep=names)

    owns = ctrlhost.Owns("apps/v1/Deployment", prune=True)
    host = ctrlhost_host(operator(reconcile, owns), least_privilege=True)
    host.client.create(mine(names="a b"))
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "cache", "default", {"data": {"names": "a"}})
    host.run_until_idle()
    assert [obj["metadata"]["name"] for obj in host.client.list("apps/v1", "Deployment", "default")] == ["a"]
    assert errors(host) == 0
    # An informer lists only where the server sends no streams, and an event has a series only if it comes again.
    unused = {right for right in host.unused_rights() if right[1:] != ("events", "patch") and right[2] != "list"}
    assert unused == set()
