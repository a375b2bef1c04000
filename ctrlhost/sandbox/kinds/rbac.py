"""Nobody may give what he does not have: what is checked before a role or a binding is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.auth.authorizer import GROUP, MASTERS
from ctrlhost.sandbox.auth.rbac_rules import EVERYTHING, Rule, missing, quoted
from ctrlhost.sandbox.http.messages import Attributes
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause, Failure
    from ctrlhost.sandbox.auth.authorizer import Authorizer
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call

_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}


class _Guarded(BuiltinStrategy):
    """What the two checks share."""

    def prepare_create(self, engine: Engine, call: Call, obj: Object) -> None:
        """Check the new object."""
        if engine.authorizer is not None and MASTERS not in call.user.groups:
            self.check(engine.authorizer, call, obj, None)

    def prepare_update(self, engine: Engine, call: Call, obj: Object, old: Object) -> None:
        """Check the object as it is going to be."""
        if engine.authorizer is not None and MASTERS not in call.user.groups:
            self.check(engine.authorizer, call, obj, old)

    def check(self, authorizer: Authorizer, call: Call, obj: Object, old: Object | None) -> None:
        """Raise 403 if the write would give rights that the user does not have."""


class Roles(_Guarded):
    """Roles and ClusterRoles: `escalate` on them allows rules beyond one's own rights."""

    def check(self, authorizer: Authorizer, call: Call, obj: Object, old: Object | None) -> None:
        """Compare the rules with the user's own."""
        name = obj["metadata"].get("name", "")
        asked = _attributes(call, "escalate", call.kind.plural, name)
        if authorizer.authorize(call.user, asked).allowed:
            return
        if obj.get("aggregationRule") or (old or {}).get("aggregationRule"):
            if old is not None and _same(obj, old, "rules", "aggregationRule"):
                return
            if missing(authorizer.rules_of(call.user, call.namespace)[0], EVERYTHING):
                raise _forbidden(call, name, "must have cluster-admin privileges to use the aggregationRule")
        if old is not None and _same(obj, old, "rules"):
            return
        _confirm(authorizer, call, name, map(Rule.of, obj.get("rules") or ()))


class Bindings(_Guarded):
    """RoleBindings and ClusterRoleBindings: `bind` on a role allows to bind it without having its rights."""

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """A binding stays with its role."""
        if old is None or _same(obj, old, "roleRef"):
            return []
        return [status.invalid_value("roleRef", obj.get("roleRef"), "cannot change roleRef")]

    def check(self, authorizer: Authorizer, call: Call, obj: Object, old: Object | None) -> None:
        """Compare the role's rules with the user's own."""
        if old is not None and _same(obj, old, "subjects", "roleRef"):
            return
        reference = obj.get("roleRef") or {}
        role, name = reference.get("name", ""), obj["metadata"].get("name", "")
        plural = _PLURALS.get(reference.get("kind", ""), "")
        if plural and authorizer.authorize(call.user, _attributes(call, "bind", plural, role)).allowed:
            return
        rules = authorizer.rules_of_role(reference, call.namespace)
        if rules is None:
            raise status.not_found(call.kind.plural, GROUP, role)
        _confirm(authorizer, call, name, rules)


def _attributes(call: Call, verb: str, plural: str, name: str) -> Attributes:
    return Attributes(verb, group=GROUP, version="v1", resource=plural, namespace=call.namespace, name=name)


def _same(obj: Object, old: Object, *keys: str) -> bool:
    return all((obj.get(key) or None) == (old.get(key) or None) for key in keys)


def _confirm(authorizer: Authorizer, call: Call, name: str, wanted: Iterable[Rule]) -> None:
    held, errors = authorizer.rules_of(call.user, call.namespace)
    lacking = missing(held, wanted)
    if lacking:
        why = (
            f'user "{call.user.name}" (groups={quoted(call.user.groups)}) is attempting to grant RBAC permissions not '
            "currently held:\n" + "\n".join(sorted(map(str, lacking)))
        )
        if errors:
            why += f"; resolution errors: [{', '.join(errors)}]"
        raise _forbidden(call, name, why)


def _forbidden(call: Call, name: str, why: str) -> Failure:
    return status.forbidden(call.kind.plural, GROUP, name, why)
