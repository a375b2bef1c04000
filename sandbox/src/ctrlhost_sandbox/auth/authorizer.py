"""Authorization decisions: bindings are indexed by subject, so a request checks only those of its user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.status import Failure, joined, qualified
from ctrlhost_sandbox.auth.rbac_rules import EVERYTHING, Rule
from ctrlhost_sandbox.http.messages import Attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.objects import User
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.storage.store import Snapshot, Store

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
ACCOUNT_PREFIX = "system:serviceaccount:"
_TABLES = tuple(f"{GROUP}/{plural}" for plural in ("clusterrolebindings", "rolebindings", "clusterroles", "roles"))
_MAX_DECISIONS = 5000
_MAX_USERS = 1000
Right = tuple[str, str, str]
"""A group, a resource with its sub-resource, and a verb."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision and its reason, which may be empty."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rules that one binding grants to a subject; cluster-wide if `namespace` is None."""

    namespace: str | None
    rules: tuple[Rule, ...]
    reason: str
    error: str = ""


class Authorizer:
    """Authorizes by the RBAC objects of a store. Runs in the server's own thread."""

    def __init__(self, store: Store) -> None:
        """Decide by the objects stored at the time of each request."""
        self._tables = [store.table(name) for name in _TABLES]
        self._newest: tuple[int, ...] = ()
        self._by_user: dict[str, list[Grant]] = {}
        self._by_group: dict[str, list[Grant]] = {}
        self._decisions: dict[tuple[User, Attributes], Decision] = {}
        self._used: dict[str, dict[Right, None]] = {}
        self._rules: dict[str, tuple[int, tuple[Rule, ...]]] = {}

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision. Members of `system:masters` may do everything."""
        if MASTERS in user.groups:
            return Decision(allowed=True)
        self._refresh()
        decision = self._decisions.get((user, attributes))
        if decision is None:
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[user, attributes] = self._decide(user, attributes)
        return decision

    def note_use(self, user: User, attributes: Attributes) -> None:
        """Record that a right was used, so that a test can find unneeded ones."""
        if attributes.resource and (user.name in self._used or len(self._used) < _MAX_USERS):
            rights = self._used.setdefault(user.name, {})
            if len(rights) < _MAX_DECISIONS:
                rights[attributes.group, attributes.full_resource, attributes.verb] = None

    def used_by(self, name: str) -> list[Right]:
        """Return the rights that this user has used."""
        return list(self._used.get(name, ()))

    def require(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision; raise 403 if it is negative."""
        decision = self.authorize(user, attributes)
        if not decision.allowed:
            raise refusal(user, attributes, decision.reason)
        return decision

    def require_verb(self, operation: Operation, verb: str) -> None:
        """Raise 403 unless the user may also do `verb` on the operation's object."""
        kind = operation.kind
        attributes = Attributes(
            verb, "", kind.group, kind.version, kind.plural, "", operation.namespace, operation.name
        )
        self.require(operation.user, attributes)
        self.note_use(operation.user, attributes)

    def collect_rules(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """Return a user's rules in a namespace ("" for none), and the references that could not be resolved."""
        self._refresh()
        grants = list(self._grants(user, namespace))
        rules = [rule for grant in grants for rule in grant.rules]
        if MASTERS in user.groups and not any(rule in rules for rule in EVERYTHING):
            rules += EVERYTHING
        return rules, list(dict.fromkeys(grant.error for grant in grants if grant.error))

    def rules_of_role(self, reference: dict[str, Any], namespace: str) -> tuple[Rule, ...] | None:
        """Return the rules of the role that a binding in `namespace` refers to; None if it is missing."""
        table, where = (self._tables[3], namespace) if reference.get("kind") == "Role" else (self._tables[2], "")
        return self._of(table.get(where, reference.get("name", "")))

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        errors: dict[str, None] = {}
        for grant in self._grants(user, attributes.namespace if attributes.resource else ""):
            if grant.error:
                errors[grant.error] = None
            elif any(rule.allows(attributes) for rule in grant.rules):
                return Decision(allowed=True, reason=grant.reason)
        return Decision(allowed=False, reason=f"RBAC: {joined(errors)}" if errors else "")

    def _grants(self, user: User, namespace: str) -> Iterator[Grant]:
        places = [self._by_user.get(user.name, ()), *(self._by_group.get(group, ()) for group in user.groups)]
        for wanted in (None, namespace) if namespace else (None,):
            for grants in places:
                yield from (grant for grant in grants if grant.namespace == wanted)

    def _refresh(self) -> None:
        newest = tuple(table.newest for table in self._tables)
        if newest == self._newest:
            return
        self._newest = newest
        self._by_user, self._by_group = {}, {}
        self._decisions.clear()
        if len(self._rules) > _MAX_DECISIONS:
            self._rules.clear()
        for snapshot in self._tables[0].list() + self._tables[1].list():
            self._index(snapshot.decode(), snapshot.namespace or None)

    def _index(self, binding: dict[str, Any], namespace: str | None) -> None:
        reference = binding.get("roleRef") or {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        rules = self.rules_of_role(reference, namespace or "")
        error = "" if rules is not None else f'{kind.lower()}.{GROUP} "{name}" not found'
        own = binding["metadata"]["name"]
        label = f'ClusterRoleBinding "{own}"' if namespace is None else f'RoleBinding "{own}/{namespace}"'
        for subject in binding.get("subjects") or ():
            described = f'{subject.get("kind", "")} "{subject.get("name", "")}"'
            places, key = self._by_user, subject.get("name", "")
            if subject.get("kind") == "Group":
                places = self._by_group
            elif subject.get("kind") == "ServiceAccount":
                home = subject.get("namespace") or namespace or ""
                described = f'ServiceAccount "{key}/{home}"'
                key = f"{ACCOUNT_PREFIX}{home}:{key}"
            reason = f'RBAC: allowed by {label} of {kind} "{name}" to {described}'
            places.setdefault(key, []).append(Grant(namespace, rules or (), reason, error))

    def _of(self, snapshot: Snapshot | None) -> tuple[Rule, ...] | None:
        if snapshot is None:
            return None
        known = self._rules.get(snapshot.uid)
        if known is not None and known[0] == snapshot.revision:
            return known[1]
        rules = tuple(Rule.of(rule) for rule in snapshot.decode().get("rules") or ())
        self._rules[snapshot.uid] = (snapshot.revision, rules)
        return rules


def refusal(user: User, attributes: Attributes, reason: str = "") -> Failure:
    """Return a 403 in upstream's words."""
    if not attributes.resource:
        text = f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
        return Failure(403, "Forbidden", "forbidden: " + (f"{text}: {reason}" if reason else text))
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    what = f'resource "{attributes.full_resource}" in API group "{attributes.group}" {where}'
    text = f'User "{user.name}" cannot {attributes.verb} {what}' + (f": {reason}" if reason else "")
    subject = qualified(attributes.resource, attributes.group) + (f' "{attributes.name}"' if attributes.name else "")
    message = f"{subject} is forbidden: {text}"
    return Failure(403, "Forbidden", message, name=attributes.name, group=attributes.group, kind=attributes.resource)
