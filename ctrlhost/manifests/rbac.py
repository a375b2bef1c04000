"""The RBAC rules that a host with some plugins needs, and the accounts that they are bound to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.controller.source import permissions_in
from ctrlhost.coordination.leadership import lease_names, lease_permissions, shard_permissions
from ctrlhost.manifests.installation import outside
from ctrlhost.manifests.loading import collect_crds
from ctrlhost.permissions import Permission
from ctrlhost.selectors.namespaces import narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.source import Plural
    from ctrlhost.manifests.loading import SetUpPlugin
    from ctrlhost.manifests.webhooks import WebhookObjects
    from ctrlhost.plugin.context import PluginContext

#: The host records events for its plugins; an event of a cluster-scoped object is in the namespace `default`.
_EVENTS = Permission("events.k8s.io", ["events"], ["create", "patch"])
_API = "rbac.authorization.k8s.io"
#: The role of Kubernetes to ask who a client is and what it may do.
_DELEGATOR = "system:auth-delegator"


def collect_permissions(plugins: Iterable[SetUpPlugin], settings: HostSettings) -> list[Permission]:
    """Return the permissions that exactly these plugins need: for their sources, and those that they request."""
    plugins = list(plugins)
    plural = plurals(collect_crds(plugins))
    permissions: list[Permission] = []
    for plugin in plugins:
        permissions += implied(plugin.context, plural, settings.namespaces)
        permissions += plugin.plugin.permissions(plugin.settings)
        if owned := sorted(crd["metadata"]["name"] for crd in plugin.plugin.crds()):
            # The host compares its plugins' CRDs with those of the server.
            permissions.append(Permission("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"], owned))
    return permissions


def make_roles(
    plugins: Sequence[SetUpPlugin],
    settings: HostSettings,
    account: str,
    namespace: str,
    webhooks: WebhookObjects | None = None,
    *,
    shards: bool = False,
) -> list[dict[str, Any]]:
    """Return the roles that a host with these plugins needs, with their bindings to its service account.

    With `shards`, replicas of it share the keys of controllers.
    """
    permissions = collect_permissions(plugins, settings)
    if webhooks is not None:
        permissions += webhooks.permissions()
    if settings.leader_elect:
        leases = lease_names(settings, [plugin.name for plugin in plugins])
        permissions += lease_permissions(leases, settings.leader_elect_resource_namespace or namespace)
    if shards:
        permissions += shard_permissions(settings, namespace)
    return roles(account, namespace, permissions)


def plurals(crds: Iterable[dict[str, Any]]) -> Plural:
    """Return a function that finds plural and scope of these CRDs' and other kinds without a server."""
    specs = [crd["spec"] for crd in crds]
    custom = {
        (spec["group"], spec["names"]["kind"]): (spec["names"]["plural"], spec["scope"] == "Namespaced")
        for spec in specs
    }

    def plural(api_version: str, kind: str) -> tuple[str, bool]:
        known = custom.get((api_version.rpartition("/")[0], kind)) or builtin_plural(api_version, kind)
        return known or (_guess(kind), True)

    return plural


def _guess(kind: str) -> str:
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def implied(context: PluginContext, plural: Plural, limit: Sequence[str]) -> Iterator[Permission]:
    """Return the permissions that a plugin's sources and events need; `limit` are the operator's namespaces."""
    yield from of_sources(context, plural, limit)
    if context.controllers:
        yield from permissions_in(_EVENTS, narrowed(None, limit), namespaced=True)


def of_sources(context: PluginContext, plural: Plural, limit: Sequence[str]) -> Iterator[Permission]:
    """Return the permissions that a plugin's sources need; `limit` are the operator's namespaces."""
    for controller in context.controllers:
        own = controller.options.namespaces
        for source in controller.sources:
            yield from source.permissions(plural, limit if own is None else own)
    for read in context.reads:
        yield from read.permissions(plural, limit)


def roles(name: str, account_namespace: str, permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Return a ClusterRole, and a Role per namespace, with exactly these permissions, bound to the account `name`.

    Other installations may have an account of that name: only the objects in the account's namespace are named after
    the account alone.
    """
    by_namespace: dict[str | None, list[Permission]] = {}
    for permission in permissions:
        by_namespace.setdefault(permission.namespace, []).append(permission)
    documents: list[dict[str, Any]] = []
    for namespace in sorted(by_namespace, key=lambda item: item or ""):
        kind = "ClusterRole" if namespace is None else "Role"
        metadata = {"name": name if namespace == account_namespace else outside(name, account_namespace)}
        if namespace is not None:
            metadata["namespace"] = namespace
        rules = _rules(by_namespace[namespace])
        documents.append({"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata, "rules": rules})
        documents.append(_binding(metadata, kind, metadata["name"], name, account_namespace))
    return documents


def delegator(account: str, namespace: str) -> dict[str, Any]:
    """Return the binding that lets an account ask for the identity and the rights of the clients of `/metrics`."""
    metadata = {"name": outside(f"{account}-auth-delegator", namespace)}
    return _binding(metadata, "ClusterRole", _DELEGATOR, account, namespace)


def metrics_reader(name: str, namespace: str) -> dict[str, Any]:
    """Return the role to read `/metrics`, which the operator binds to Prometheus."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    metadata = {"name": outside(f"{name}-metrics-reader", namespace)}
    return {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def service_account(name: str, namespace: str) -> dict[str, Any]:
    """Return the account; only the pods of the host mount its token."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def _binding(metadata: dict[str, str], kind: str, role: str, account: str, account_namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "RoleBinding" if "namespace" in metadata else "ClusterRoleBinding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _API, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }


def _rules(permissions: Iterable[Permission]) -> list[dict[str, list[str]]]:
    """Merge permissions that differ only in verbs or resources, as in a role written by hand."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for permission in permissions:
        for resource in permission.resources:
            key = (permission.group, resource, tuple(sorted(permission.resource_names)))
            verbs.setdefault(key, set()).update(permission.verbs)
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, names), some in verbs.items():
        resources.setdefault((group, names, tuple(sorted(some))), []).append(resource)
    return [
        Permission(group, sorted(some), list(allowed), names).rule()
        for (group, names, allowed), some in sorted(resources.items())
    ]
