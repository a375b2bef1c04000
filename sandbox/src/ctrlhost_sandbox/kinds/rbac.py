"""Roles and bindings; writing them must not escalate privileges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.auth.authorizer import GROUP, MASTERS
from ctrlhost_sandbox.auth.rbac_rules import EVERYTHING, Rule, missing, quoted
from ctrlhost_sandbox.http.messages import Attributes
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.fields import selector_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause, Failure
    from ctrlhost_sandbox.auth.authorizer import Authorizer
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}
_SUBJECTS = ("ServiceAccount", "User", "Group")


class _Guarded(BuiltinStrategy):
    """The base of both strategies, without checks for members of `system:masters`."""

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        if context.authorizer is not None and MASTERS not in operation.user.groups:
            self.check(context.authorizer, operation, obj, None)

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        if context.authorizer is not None and MASTERS not in operation.user.groups:
            self.check(context.authorizer, operation, obj, old)

    def check(self, authorizer: Authorizer, operation: Operation, obj: Object, old: Object | None) -> None:
        """Raise 403 if the write would grant rights that the user lacks."""


class _Roles(_Guarded):
    """Roles and ClusterRoles: `escalate` on them allows rules beyond the user's own."""

    columns = "Created_At:d"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj["metadata"].get("creationTimestamp"),)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        for index, rule in enumerate(obj.get("rules") or ()):
            where, urls = f"rules[{index}]", rule.get("nonResourceURLs")
            if not rule.get("verbs"):
                yield status.required(f"{where}.verbs", "verbs must contain at least one value")
            if urls:
                if obj["kind"] == "Role":
                    text = "namespaced rules cannot apply to non-resource URLs"
                    yield status.invalid_value(f"{where}.nonResourceURLs", urls, text)
                if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                    text = "rules cannot apply to both regular resources and non-resource URLs"
                    yield status.invalid_value(f"{where}.nonResourceURLs", urls, text)
                continue
            for field, what in (("apiGroups", "api group"), ("resources", "resource")):
                if not rule.get(field):
                    yield status.required(f"{where}.{field}", f"resource rules must supply at least one {what}")
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors")
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield status.required(path, text)
        for index, selector in enumerate(selectors or ()):
            problems = list(selector_causes(selector, f"{path}[{index}]"))
            yield from problems
            if problems:
                yield status.invalid_value(f"{path}[{index}]", None, "invalid label selector.")

    def check(self, authorizer: Authorizer, operation: Operation, obj: Object, old: Object | None) -> None:
        name = obj["metadata"].get("name", "")
        attributes = _attributes(operation, "escalate", operation.kind.plural, name)
        if authorizer.authorize(operation.user, attributes).allowed:
            return
        if obj.get("aggregationRule") or (old or {}).get("aggregationRule"):
            if old is not None and _same(obj, old, "rules", "aggregationRule"):
                return
            if missing(authorizer.collect_rules(operation.user, operation.namespace)[0], EVERYTHING):
                raise _forbidden(operation, name, "must have cluster-admin privileges to use the aggregationRule")
        if old is not None and _same(obj, old, "rules"):
            return
        _confirm(authorizer, operation, name, map(Rule.of, obj.get("rules") or ()))


class _Bindings(_Guarded):
    """RoleBindings and ClusterRoleBindings: `bind` on a role allows binding it without holding its rights."""

    defaults = (("roleRef.apiGroup", GROUP),)
    columns = "Role Age Users:w Groups:w ServiceAccounts:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        role = obj["roleRef"]
        names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
        for subject in obj.get("subjects") or ():
            prefix = f"{subject.get('namespace', '')}/" if subject["kind"] == "ServiceAccount" else ""
            names[subject["kind"]].append(prefix + subject["name"])
        return (f"{role['kind']}/{role['name']}", created(obj), *map(", ".join, names.values()))

    def default(self, obj: Object) -> None:
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", GROUP)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        referred = obj.get("roleRef") or {}
        name = referred.get("name", "")
        allowed = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else ("Role", "ClusterRole")
        if referred.get("apiGroup") != GROUP:
            yield status.not_supported("roleRef.apiGroup", referred.get("apiGroup", ""), (GROUP,))
        if referred.get("kind") not in allowed:
            yield status.not_supported("roleRef.kind", referred.get("kind", ""), allowed)
        if not name:
            yield status.required("roleRef.name")
        elif problems := name_problems("segment", name):
            yield from status.invalid_values("roleRef.name", name, problems)
        for index, subject in enumerate(obj.get("subjects") or ()):
            yield from _subject_causes(subject, f"subjects[{index}]", namespaced=obj["kind"] == "RoleBinding")
        if old is not None and not _same(obj, old, "roleRef"):
            yield status.invalid_value("roleRef", obj.get("roleRef"), "cannot change roleRef")

    def check(self, authorizer: Authorizer, operation: Operation, obj: Object, old: Object | None) -> None:
        if old is not None and _same(obj, old, "subjects", "roleRef"):
            return
        reference = obj.get("roleRef") or {}
        role, name = reference.get("name", ""), obj["metadata"].get("name", "")
        plural = _PLURALS.get(reference.get("kind", ""), "")
        if plural and authorizer.authorize(operation.user, _attributes(operation, "bind", plural, role)).allowed:
            return
        rules = authorizer.rules_of_role(reference, operation.namespace)
        if rules is None:
            raise status.not_found(operation.kind.plural, GROUP, role)
        _confirm(authorizer, operation, name, rules)


def _subject_causes(subject: Mapping[str, Any], where: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield status.required(f"{where}.name")
    if kind not in _SUBJECTS:
        yield status.not_supported(f"{where}.kind", kind, _SUBJECTS)
        return
    account = kind == "ServiceAccount"
    if name and account and (problems := name_problems("subdomain", name)):
        yield from status.invalid_values(f"{where}.name", name, problems)
    if group != (wanted := "" if account else GROUP):
        yield status.not_supported(f"{where}.apiGroup", group, (wanted,))
    if account and not namespaced and not subject.get("namespace"):
        yield status.required(f"{where}.namespace")


def _attributes(operation: Operation, verb: str, plural: str, name: str) -> Attributes:
    return Attributes(verb, group=GROUP, version="v1", resource=plural, namespace=operation.namespace, name=name)


def _same(obj: Object, old: Object, *keys: str) -> bool:
    return all((obj.get(key) or None) == (old.get(key) or None) for key in keys)


def _confirm(authorizer: Authorizer, operation: Operation, name: str, wanted: Iterable[Rule]) -> None:
    user = operation.user
    held, errors = authorizer.collect_rules(user, operation.namespace)
    lacking = missing(held, wanted)
    if lacking:
        why = (
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not '
            "currently held:\n" + "\n".join(sorted(map(str, lacking)))
        )
        if errors:
            why += f"; resolution errors: [{', '.join(errors)}]"
        raise _forbidden(operation, name, why)


def _forbidden(operation: Operation, name: str, why: str) -> Failure:
    return status.forbidden(operation.kind.plural, GROUP, name, why)


STRATEGIES = {
    **{(GROUP, kind): _Roles() for kind in ("Role", "ClusterRole")},
    **{(GROUP, f"{kind}Binding"): _Bindings() for kind in ("Role", "ClusterRole")},
}
