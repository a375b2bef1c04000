"""Where built-in kinds depart from the rule; one strategy object per kind."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy, Strategy

if TYPE_CHECKING:
    from ctrlhost.sandbox.registry.registry import Kind

_RULE = Strategy()


def strategy_of(kind: Kind) -> Strategy:
    """Give the strategy of a kind."""
    return _RULE if kind.custom is not None else _strategies().get((kind.group, kind.kind), _BUILTIN)


_BUILTIN = BuiltinStrategy()


@cache
def _strategies() -> dict[tuple[str, str], Strategy]:
    # The modules need the engine, which needs to be able to name strategies.
    from ctrlhost.sandbox.kinds import apiextensions, apps, core, networking, pods, rbac, services

    workloads = {kind: apps.Workload() for kind in ("ReplicaSet", "DaemonSet", "ControllerRevision")}
    return {
        ("", "Namespace"): core.Namespaces(),
        ("", "Secret"): core.Secrets(),
        ("", "ConfigMap"): core.ConfigMaps(),
        ("", "Event"): core.Events(),
        ("events.k8s.io", "Event"): core.Events(),
        ("", "Pod"): pods.Pods(),
        ("", "Service"): services.Services(),
        ("networking.k8s.io", "Ingress"): networking.Ingresses(),
        ("apps", "Deployment"): apps.Deployments(),
        ("apps", "StatefulSet"): apps.StatefulSets(),
        **{("apps", kind): strategy for kind, strategy in workloads.items()},
        **{("rbac.authorization.k8s.io", kind): rbac.Roles() for kind in ("Role", "ClusterRole")},
        **{("rbac.authorization.k8s.io", f"{kind}Binding"): rbac.Bindings() for kind in ("Role", "ClusterRole")},
        ("apiextensions.k8s.io", "CustomResourceDefinition"): apiextensions.Crds(),
    }
