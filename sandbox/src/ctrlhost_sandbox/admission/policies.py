"""The stored policies with their bindings and parameters, as far as they concern a request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.admission.matching import matched
from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.registry import views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind

GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = "validatingadmissionpolicies", "mutatingadmissionpolicies"
_BINDINGS = {VALIDATING: "validatingadmissionpolicybindings", MUTATING: "mutatingadmissionpolicybindings"}
EXEMPT = frozenset({VALIDATING, MUTATING, *_BINDINGS.values()})
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


class Misconfigured(Exception):
    """A policy or a binding cannot be used."""


@dataclass(frozen=True, slots=True)
class Match:
    """A policy and a binding that concern a request, with the objects to use as parameters."""

    policy: Object
    binding: Object | None
    kind: Kind
    """The kind under which the policy sees the object."""
    params: tuple[Object | None, ...] = ()
    error: str = ""
    """Why they cannot be used."""

    @property
    def fails(self) -> bool:
        """Whether an error refuses the request."""
        return bool(self.policy["spec"].get("failurePolicy", "Fail") != "Ignore")

    @property
    def policy_name(self) -> str:
        """The name of the policy."""
        return str(self.policy["metadata"]["name"])

    @property
    def binding_name(self) -> str:
        """The name of the binding, empty without one."""
        return "" if self.binding is None else str(self.binding["metadata"]["name"])


def present(context: ServerContext, plural: str) -> bool:
    """Return whether there is any policy of that sort with any binding."""
    store = context.store
    return bool(store.table(f"{GROUP}/{plural}").count and store.table(f"{GROUP}/{_BINDINGS[plural]}").count)


def matches(context: ServerContext, request: Request, plural: str) -> Iterator[Match]:
    """Find the policies that concern a request, by name, with each of their bindings."""
    own = request.operation.kind
    if own.group in _REVIEWS or (own.group == GROUP and own.plural in EXEMPT):
        # A policy cannot lock the administrator out of changing policies.
        return
    bindings: dict[str, list[Object]] = {}
    for snapshot in context.store.table(f"{GROUP}/{_BINDINGS[plural]}").list():
        binding = decoded(snapshot.raw)
        bindings.setdefault(binding["spec"].get("policyName", ""), []).append(binding)
    for snapshot in context.store.table(f"{GROUP}/{plural}").list():
        if snapshot.name not in bindings:
            continue
        policy = decoded(snapshot.raw)
        kind = matched(context, request, policy["spec"].get("matchConstraints"))
        if kind is None:
            continue
        try:
            param_kind = _param_kind(context, policy)
        except Misconfigured as error:
            yield Match(policy, None, kind, error=f"failed to configure policy: {error}")
            continue
        for binding in bindings[snapshot.name]:
            if matched(context, request, binding["spec"].get("matchResources")) is None:
                continue
            try:
                params = _params(context, request, param_kind, binding["spec"].get("paramRef"))
            except Misconfigured as error:
                yield Match(policy, binding, kind, error=f"failed to configure binding: {error}")
                continue
            yield Match(policy, binding, kind, params)


@lru_cache(maxsize=1024)
def decoded(raw: bytes) -> Object:
    """Return a stored policy or configuration, which must not be changed."""
    obj: Object = msgspec.json.decode(raw)
    return obj


def _param_kind(context: ServerContext, policy: Object) -> Kind | None:
    wanted: dict[str, Any] | None = policy["spec"].get("paramKind")
    if wanted is None:
        return None
    api_version, name = wanted.get("apiVersion", ""), wanted.get("kind", "")
    group, _, version = api_version.rpartition("/")
    kind = context.registry.find_kind(group, version, name)
    if kind is None or kind.virtual:
        text = f"failed to find resource referenced by paramKind: '{api_version}, Kind={name}'"
        raise Misconfigured(text)
    return kind


def _params(
    context: ServerContext, request: Request, kind: Kind | None, reference: dict[str, Any] | None
) -> tuple[Object | None, ...]:
    """Return the objects that a binding names as parameters; one None if it has none."""
    if kind is None or reference is None:
        return (None,)
    namespace = reference.get("namespace", "")
    if kind.namespaced:
        namespace = namespace or request.namespace
        if not namespace:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif namespace:
        raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    table = context.store.table(kind.table)
    if reference.get("name"):
        snapshots = [table.get(namespace, reference["name"])]
    else:
        selector = reference.get("selector")
        snapshots = [item for item in table.list(namespace) if match_selector(selector, item.labels)]
    params = tuple(views.load(kind, item) for item in snapshots if item is not None)
    if not params and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params
