"""Which requests a policy or a binding is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission.request import DELETE
from ctrlhost_sandbox.apimachinery.selectors import match_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind


def matched(context: ServerContext, request: Request, constraints: dict[str, Any] | None) -> Kind | None:
    """Return the kind under which the constraints select the request; None if they do not."""
    kind = request.operation.kind
    if constraints is None:
        return kind
    if not _in_namespaces(context, request, constraints.get("namespaceSelector") or {}):
        return None
    if not _has_labels(request, constraints.get("objectSelector") or {}):
        return None
    fuzzy = constraints.get("matchPolicy", "Equivalent") == "Equivalent"
    if _by_rules(context, request, constraints.get("excludeResourceRules") or (), fuzzy=fuzzy) is not None:
        return None
    rules = constraints.get("resourceRules") or ()
    return _by_rules(context, request, rules, fuzzy=fuzzy) if rules else kind


def _in_namespaces(context: ServerContext, request: Request, selector: dict[str, Any]) -> bool:
    if not selector or not request.namespace:
        return True
    obj: Object | None = request.obj if request.operation.kind.table == "namespaces" else None
    if obj is None or request.action == DELETE:
        namespace = context.store.table("namespaces").get("", request.namespace)
        obj = None if namespace is None else namespace.decode()
    return obj is not None and match_selector(selector, obj["metadata"].get("labels") or {})


def _has_labels(request: Request, selector: dict[str, Any]) -> bool:
    if not selector:
        return True
    objects = (obj for obj in (request.obj, request.old) if obj is not None)
    return any(match_selector(selector, (obj.get("metadata") or {}).get("labels") or {}) for obj in objects)


def _by_rules(context: ServerContext, request: Request, rules: Iterable[dict[str, Any]], *, fuzzy: bool) -> Kind | None:
    """Return the kind that a rule names: the one of the request, or another version of it."""
    kind = request.operation.kind
    # Only the versions of custom kinds can be converted.
    others = context.registry.versions(kind) if fuzzy and kind.custom is not None else ()
    for candidate in (kind, *(other for other in others if other is not kind)):
        if any(_fits(request, candidate, rule) for rule in rules):
            return candidate
    return None


def _fits(request: Request, kind: Kind, rule: dict[str, Any]) -> bool:
    names = rule.get("resourceNames")
    return (
        _in_scope(request, rule.get("scope", "*"))
        and _among(rule.get("operations"), request.action)
        and _among(rule.get("apiGroups"), kind.group)
        and _among(rule.get("apiVersions"), kind.version)
        and any(_is_resource(text, kind, request.subresource) for text in rule.get("resources") or ())
        and (not names or request.name in names)
    )


def _in_scope(request: Request, scope: str) -> bool:
    return scope == "*" or (scope == "Namespaced") is request.operation.kind.namespaced


def _among(items: Iterable[str] | None, wanted: str) -> bool:
    return any(item in ("*", wanted) for item in items or ())


def _is_resource(text: str, kind: Kind, subresource: str) -> bool:
    name, _, sub = text.partition("/")
    return name in ("*", kind.plural) and sub in ("*", subresource)
