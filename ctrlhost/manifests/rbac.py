"""The RBAC rules that plugins need: for their sources, for events, and those that they request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.controller.sources import permissions_in
from ctrlhost.permissions import Permission
from ctrlhost.selectors.namespaces import narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost.controller.sources import Plural
    from ctrlhost.plugin.context import PluginContext

#: The host records events for its plugins; an event of a cluster-scoped object is in the namespace `default`.
_EVENTS = Permission("events.k8s.io", ["events"], ["create", "patch"])


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
    for controller in context.controllers:
        own = controller.options.namespaces
        for source in controller.sources:
            yield from source.permissions(plural, limit if own is None else own)
    for read in context.reads:
        yield from read.permissions(plural, limit)
    if context.controllers:
        yield from permissions_in(_EVENTS, narrowed(None, limit), namespaced=True)


def roles(name: str, account_namespace: str, permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Return a ClusterRole, and a Role per namespace, with exactly these permissions, bound to the account `name`."""
    by_namespace: dict[str | None, list[Permission]] = {}
    for permission in permissions:
        by_namespace.setdefault(permission.namespace, []).append(permission)
    documents: list[dict[str, Any]] = []
    for namespace in sorted(by_namespace, key=lambda one: one or ""):
        kind = "ClusterRole" if namespace is None else "Role"
        metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
        api = "rbac.authorization.k8s.io"
        rules = _rules(by_namespace[namespace])
        documents.append({"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": rules})
        documents.append(
            {
                "apiVersion": f"{api}/v1",
                "kind": f"{kind}Binding",
                "metadata": dict(metadata),
                "roleRef": {"apiGroup": api, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": account_namespace}],
            }
        )
    return documents


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
