"""The rights that plugins need: to read what their sources watch, to record events, and what they ask for besides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.controller.sources import Every
from ctrlhost.permissions import Permission
from ctrlhost.selectors.namespaces import NamespaceSelector, narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost.controller.sources import KindSource
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.selectors.namespaces import Namespaces

_READ = ("get", "list", "watch")
#: The host records events for its plugins; an event of a cluster-scoped object is in the namespace `default`.
_EVENTS = Permission("events.k8s.io", ["events"], ["create", "patch"])


_CRDS = Permission("apiextensions.k8s.io", ["customresourcedefinitions"], _READ)
_NAMESPACES = Permission("", ["namespaces"], _READ)


@dataclass(frozen=True, slots=True)
class KindNames:
    """Plural and scope of the kinds that plugins watch, without asking a server."""

    #: By group and kind, from CRDs.
    custom: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, crds: Iterable[dict[str, Any]]) -> KindNames:
        """Know the kinds that these CRDs define."""
        specs = [crd["spec"] for crd in crds]
        return cls(
            {
                (spec["group"], spec["names"]["kind"]): (spec["names"]["plural"], spec["scope"] == "Namespaced")
                for spec in specs
            }
        )

    def plural(self, api_version: str, kind: str) -> tuple[str, bool]:
        """Give the plural and whether the kind is namespaced; for a kind that nobody here defines, a guess."""
        group = api_version.rpartition("/")[0]
        return self.custom.get((group, kind)) or builtin_plural(api_version, kind) or (_guess(kind), True)


def _guess(kind: str) -> str:
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def implied(context: PluginContext, kinds: KindNames, limit: Sequence[str]) -> Iterator[Permission]:
    """Give the rights to read what a plugin watches; `limit` are the operator's namespaces."""
    for controller in context.controllers:
        own = controller.options.namespaces
        for source in controller.sources:
            if not isinstance(source, Every):
                yield from _reading(source, kinds, limit if own is None else own)
    for read in context.reads:
        yield from _reading(read, kinds, limit)
    if context.controllers:
        yield from _in_namespaces(_EVENTS, narrowed(None, limit), namespaced=True)


def _reading(source: KindSource, kinds: KindNames, limit: Sequence[str]) -> Iterator[Permission]:
    plural, namespaced = kinds.plural(source.api_version, source.kind)
    wanted = narrowed(source.namespaces, limit)
    if wanted == ():
        return
    yield from _in_namespaces(Permission(source.group, [plural], _READ), wanted, namespaced=namespaced)
    if builtin_plural(source.api_version, source.kind) is None:
        # So that a kind which is not there yet, or is removed, is noticed at once.
        yield _CRDS


def _in_namespaces(permission: Permission, namespaces: Namespaces, *, namespaced: bool) -> Iterator[Permission]:
    if namespaces is None or not namespaced:
        yield permission
        return
    if isinstance(namespaces, NamespaceSelector):
        # Which ones these are is known only at run time, by looking at all of them.
        yield permission
        yield _NAMESPACES
        return
    for namespace in namespaces:
        yield Permission(permission.group, permission.resources, permission.verbs, permission.resource_names, namespace)


def roles(name: str, account_namespace: str, permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Give a ClusterRole, and a Role per namespace, with exactly these rights, bound to the account `name`."""
    by_namespace: dict[str | None, list[Permission]] = {}
    for permission in permissions:
        by_namespace.setdefault(permission.namespace, []).append(permission)
    made: list[dict[str, Any]] = []
    for namespace in sorted(by_namespace, key=lambda one: one or ""):
        kind = "ClusterRole" if namespace is None else "Role"
        metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
        api = "rbac.authorization.k8s.io"
        made.append(
            {
                "apiVersion": f"{api}/v1",
                "kind": kind,
                "metadata": metadata,
                "rules": _rules(by_namespace[namespace]),
            }
        )
        made.append(
            {
                "apiVersion": f"{api}/v1",
                "kind": f"{kind}Binding",
                "metadata": dict(metadata),
                "roleRef": {"apiGroup": api, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": account_namespace}],
            }
        )
    return made


def _rules(permissions: Iterable[Permission]) -> list[dict[str, list[str]]]:
    """Merge rights that differ in one thing only, so that a role reads as a person would write it."""
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
