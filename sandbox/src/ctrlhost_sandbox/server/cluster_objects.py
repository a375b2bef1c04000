"""The initial objects of the whole cluster that clients look for: classes, levels, ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.kinds.scheduling import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext

_FLOW = "flowcontrol.apiserver.k8s.io/v1"
_EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
_EVERY_PATH = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def objects(context: ServerContext) -> Iterator[Object]:
    """Return the objects, as clients would send them."""
    for name, value in SYSTEM.items():
        yield _object("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
    cidrs = [context.options.service_cidr]
    yield _object("networking.k8s.io/v1", "ServiceCIDR", "kubernetes", spec={"cidrs": cidrs})
    yield _object(_FLOW, "PriorityLevelConfiguration", "exempt", spec={"type": "Exempt", "exempt": {}})
    limited = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}
    yield _object(_FLOW, "PriorityLevelConfiguration", "catch-all", spec={"type": "Limited", "limited": limited})
    yield _schema("exempt", 1, ["system:masters"])
    yield _schema("catch-all", 10_000, ["system:unauthenticated", "system:authenticated"], by_user=True)


def _object(api_version: str, kind: str, name: str, **more: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def _schema(level: str, precedence: int, groups: list[str], *, by_user: bool = False) -> Object:
    subjects = [{"kind": "Group", "group": {"name": name}} for name in groups]
    rule = {"subjects": subjects, "resourceRules": [_EVERYTHING], "nonResourceRules": [_EVERY_PATH]}
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    if by_user:
        spec["distinguisherMethod"] = {"type": "ByUser"}
    return _object(_FLOW, "FlowSchema", level, spec=spec)
