"""FlowSchemas and PriorityLevelConfigurations: the sandbox limits no client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.apimachinery.objects import condition
from ctrlhost_sandbox.kinds.cells import NONE, created
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_VERBS = (
    *("connect", "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"),
    *("impersonate", "bind", "escalate"),
)
_HIGHEST = 10_000
_TYPES = ("Exempt", "Limited")
_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


class _FlowSchemas(BuiltinStrategy):
    """Which requests have which priority level."""

    defaults = (("spec.matchingPrecedence", 1000),)
    columns = "PriorityLevel MatchingPrecedence DistinguisherMethod Age MissingPL"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        method = (spec.get("distinguisherMethod") or {}).get("type", NONE)
        level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
        missing = (condition(obj, "Dangling") or {}).get("status", "?")
        return (level, spec.get("matchingPrecedence", 0), method, created(obj), missing)

    def default(self, obj: Object) -> None:
        """Set the precedence, which a zero does not set."""
        obj["spec"]["matchingPrecedence"] = obj["spec"].get("matchingPrecedence") or 1000

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource:
            return
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        order, field = spec["matchingPrecedence"], "spec.matchingPrecedence"
        if order <= 0:
            yield status.invalid_value(field, order, "must be a positive value")
        elif order > _HIGHEST:
            yield status.invalid_value(field, order, f"must not be greater than {_HIGHEST}")
        elif order == 1 and name != "exempt":
            text = "only the schema named 'exempt' may have matchingPrecedence 1"
            yield status.invalid_value(field, order, text)
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
            yield status.not_supported("spec.distinguisherMethod.type", method, ("ByNamespace", "ByUser"))
        level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
        if not level:
            yield status.required("spec.priorityLevelConfiguration.name", "must reference a priority level")
        elif problems := name_problems("subdomain", level):
            yield from status.invalid_values("spec.priorityLevelConfiguration.name", level, problems)
        for index, rule in enumerate(spec.get("rules") or ()):
            yield from _rule_causes(rule, f"spec.rules[{index}]")


class _Levels(BuiltinStrategy):
    """How many requests of a level run at once."""

    columns = "Type NominalConcurrencyShares Queues HandSize QueueLengthLimit Age"
    defaults = (
        ("spec.exempt.nominalConcurrencyShares", 0),
        ("spec.exempt.lendablePercent", 0),
        ("spec.limited.nominalConcurrencyShares", 30),
        ("spec.limited.lendablePercent", 0),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        limited = spec.get("limited") or {}
        queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
        numbers = [queuing.get(name, NONE) for name in ("queues", "handSize", "queueLengthLimit")]
        return (spec.get("type", ""), limited.get("nominalConcurrencyShares", NONE), *numbers, created(obj))

    def default(self, obj: Object) -> None:
        response = (obj["spec"].get("limited") or {}).get("limitResponse") or {}
        if (queuing := response.get("queuing")) is not None:
            for name, value in _QUEUING.items():
                queuing[name] = queuing.get(name) or value

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource:
            return
        spec, kind = obj["spec"], obj["spec"].get("type", "")
        if (obj["metadata"].get("name") == "exempt") is not (kind == "Exempt"):
            text = "must be 'Exempt' if and only if `name` is 'exempt'"
            yield status.invalid_value("spec.type", kind, text)
        if not kind:
            yield status.required("spec.type")
        elif kind not in _TYPES:
            yield status.not_supported("spec.type", kind, _TYPES)
        elif kind == "Exempt" and spec.get("limited") is not None:
            yield status.forbidden_field("spec.limited", "must be nil if the type is not Limited")
        elif kind == "Limited" and spec.get("exempt") is not None:
            yield status.forbidden_field("spec.exempt", "must be nil if the type is Limited")
        elif kind == "Limited" and spec.get("limited") is None:
            yield status.required("spec.limited", "must not be empty when type is Limited")
        member = kind.lower()
        if kind in _TYPES and spec.get(member) is not None:
            yield from _share_causes(spec[member], f"spec.{member}")
        if kind == "Limited" and spec.get("limited") is not None:
            yield from _response_causes(spec["limited"].get("limitResponse") or {}, "spec.limited.limitResponse")


def _share_causes(level: Mapping[str, Any], where: str) -> Iterator[Cause]:
    shares, lent, most = (
        level.get(name, 0) for name in ("nominalConcurrencyShares", "lendablePercent", "borrowingLimitPercent")
    )
    if shares < 0:
        yield status.invalid_value(f"{where}.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if not 0 <= lent <= 100:
        yield status.invalid_value(f"{where}.lendablePercent", lent, "must be between 0 and 100, inclusive")
    if most < 0:
        text = "if specified, must be a non-negative integer"
        yield status.invalid_value(f"{where}.borrowingLimitPercent", most, text)


def _response_causes(response: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            yield status.forbidden_field(f"{where}.queuing", "must be nil if limited.limitResponse.type is not Limited")
        return
    if kind != "Queue":
        yield (
            status.required(f"{where}.type")
            if not kind
            else status.not_supported(f"{where}.type", kind, ("Queue", "Reject"))
        )
        return
    if queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        yield status.required(f"{where}.queuing", text)
        return
    for name in ("queueLengthLimit", "queues", "handSize"):
        if queuing[name] <= 0:
            yield status.invalid_value(f"{where}.queuing.{name}", queuing[name], "must be positive")
    if queuing["handSize"] > queuing["queues"]:
        text = f"should not be greater than queues ({queuing['queues']})"
        yield status.invalid_value(f"{where}.queuing.handSize", queuing["handSize"], text)


def _rule_causes(rule: Mapping[str, Any], where: str) -> Iterator[Cause]:
    subjects, on_kinds, on_paths = (rule.get(name) or () for name in ("subjects", "resourceRules", "nonResourceRules"))
    if not subjects:
        yield status.required(f"{where}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _subject_causes(subject, f"{where}.subjects[{index}]")
    if not on_kinds and not on_paths:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield status.required(where, text)
    for index, kind in enumerate(on_kinds):
        spot = f"{where}.resourceRules[{index}]"
        yield from _verb_causes(kind.get("verbs") or [], f"{spot}.verbs")
        for name, what, text in (("apiGroups", "api groups", "api group"), ("resources", "resources", "resource")):
            yield from _star_causes(
                kind.get(name) or [], f"{spot}.{name}", what, f"resource rules must supply at least one {text}"
            )
        inside = kind.get("namespaces") or []
        if not inside and not kind.get("clusterScope"):
            text = "resource rules that are not cluster scoped must supply at least one namespace"
            yield status.required(f"{spot}.namespaces", text)
        elif inside:
            yield from _star_causes(inside, f"{spot}.namespaces", "namespaces", "")
    for index, path in enumerate(on_paths):
        spot = f"{where}.nonResourceRules[{index}]"
        yield from _verb_causes(path.get("verbs") or [], f"{spot}.verbs")
        text = "nonResourceURLs must contain at least one value"
        yield from _star_causes(path.get("nonResourceURLs") or [], f"{spot}.nonResourceURLs", "non-resource URLs", text)


def _star_causes(values: list[str], where: str, what: str, missing: str) -> Iterator[Cause]:
    if not values:
        yield status.required(where, missing)
    elif len(values) > 1 and "*" in values:
        yield status.invalid_value(where, values, f"if '*' is present, must not specify other {what}")


def _verb_causes(verbs: list[str], where: str) -> Iterator[Cause]:
    yield from _star_causes(verbs, where, "verbs", "verbs must contain at least one value")
    if verbs and "*" not in verbs and set(verbs) - set(_VERBS):
        yield status.not_supported(where, verbs, sorted(_VERBS))


def _subject_causes(subject: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield status.not_supported(f"{where}.kind", kind, _SUBJECTS)
        return
    member = _SUBJECTS[kind]
    named = subject.get(member)
    if named is None:
        yield status.required(f"{where}.{member}", f"{member} is required when subject kind is '{kind}'")
    else:
        if not named.get("name"):
            yield status.required(f"{where}.{member}.name")
        if kind == "ServiceAccount" and not named.get("namespace"):
            text = "must specify namespace for service account"
            yield status.required(f"{where}.{member}.namespace", text)
    for other, field in _SUBJECTS.items():
        if other != kind and subject.get(field) is not None:
            text = f"{field} is forbidden when subject kind is not '{other}'"
            yield status.forbidden_field(f"{where}.{field}", text)


_GROUP = "flowcontrol.apiserver.k8s.io"
STRATEGIES = {(_GROUP, "FlowSchema"): _FlowSchemas(), (_GROUP, "PriorityLevelConfiguration"): _Levels()}
