"""Validation of what decides where a pod runs: affinity, spread constraints, tolerations, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import label_causes, label_value_problems, name_problems
from ctrlhost_sandbox.kinds.fields import positive, qualified_causes, selector_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.status import Cause

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS, _INCLUSIONS = ("DoNotSchedule", "ScheduleAnyway"), ("Honor", "Ignore")


def scheduling_causes(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check a pod's spec, or a template's."""
    yield from label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from _affinity_causes(spec.get("affinity") or {}, f"{path}.affinity")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        yield from qualified_causes(gate.get("conditionType", ""), f"{path}.readinessGates[{index}].conditionType")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        yield from qualified_causes(name, f"{path}.schedulingGates[{index}]")
        if name in seen:
            yield status.duplicate(f"{path}.schedulingGates[{index}]", name)
        seen.add(name)
    yield from _spread_causes(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_causes(toleration, f"{path}.tolerations[{index}]")


def _affinity_causes(affinity: Mapping[str, Any], path: str) -> Iterator[Cause]:
    nodes, where = affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity"
    if nodes.get(REQUIRED) is not None:
        yield from node_selector_causes(nodes[REQUIRED], f"{where}.{REQUIRED}")
    for index, term in enumerate(nodes.get(PREFERRED) or ()):
        yield from _weight_causes(term, f"{where}.{PREFERRED}[{index}]")
        preference = term.get("preference") or {}
        yield from _term_causes(preference, f"{where}.{PREFERRED}[{index}].preference", values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        rules, where = affinity.get(kind) or {}, f"{path}.{kind}"
        for index, term in enumerate(rules.get(REQUIRED) or ()):
            yield from _pod_term_causes(term, f"{where}.{REQUIRED}[{index}]")
        for index, weighted in enumerate(rules.get(PREFERRED) or ()):
            yield from _weight_causes(weighted, f"{where}.{PREFERRED}[{index}]")
            term = weighted.get("podAffinityTerm") or {}
            yield from _pod_term_causes(term, f"{where}.{PREFERRED}[{index}].podAffinityTerm")


def _weight_causes(weighted: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not 0 < weighted.get("weight", 0) <= 100:
        yield status.invalid_value(f"{path}.weight", weighted.get("weight", 0), "must be in the range 1-100")


def node_selector_causes(selector: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check a selector of nodes, which must have a term."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        yield status.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms or ()):
        yield from _term_causes(term, f"{path}.nodeSelectorTerms[{index}]", values=True)


def _term_causes(term: Mapping[str, Any], path: str, *, values: bool) -> Iterator[Cause]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where, operator, members = (
            f"{path}.matchExpressions[{index}]",
            expression.get("operator", ""),
            expression.get("values") or (),
        )
        if operator in ("In", "NotIn"):
            if not members:
                yield status.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if members:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield status.forbidden_field(f"{where}.values", text)
        elif operator in ("Gt", "Lt"):
            if len(members) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield status.required(f"{where}.values", text)
        else:
            yield status.invalid_value(f"{where}.operator", operator, "not a valid selector operator")
        yield from qualified_causes(expression.get("key", ""), f"{where}.key")
        for at, value in enumerate(members if values else ()):
            if problems := label_value_problems(value):
                yield from status.invalid_values(f"{where}.values[{at}]", value, problems)
    for index, field in enumerate(term.get("matchFields") or ()):
        yield from _node_field_causes(field, f"{path}.matchFields[{index}]")


def _node_field_causes(requirement: Mapping[str, Any], path: str) -> Iterator[Cause]:
    operator, values, key = requirement.get("operator", ""), requirement.get("values") or (), requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        yield status.invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield status.required(f"{path}.values", text)
    if key != "metadata.name":
        yield status.invalid_value(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        if problems := name_problems("subdomain", value):
            yield from status.invalid_values(f"{path}.values[{index}]", value, problems)


def _pod_term_causes(term: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from selector_causes(term.get(name) or {}, f"{path}.{name}")
    for name in term.get("namespaces") or ():
        if problems := name_problems("label", name):
            yield from status.invalid_values(f"{path}.namespace", name, problems)
    yield from _label_keys_causes(term, path)
    key = term.get("topologyKey", "")
    if not key:
        yield status.required(f"{path}.topologyKey", "can not be empty")
    yield from qualified_causes(key, f"{path}.topologyKey")


def _label_keys_causes(term: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check the keys of labels whose values come from the pod."""
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(name) or ()
        if keys and term.get("labelSelector") is None:
            yield status.forbidden_field(f"{path}.{name}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from qualified_causes(key, f"{path}.{name}[{index}]")
    for index, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in (term.get("mismatchLabelKeys") or ()):
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield status.invalid_value(f"{path}.matchLabelKeys[{index}]", key, text)


def _spread_causes(constraints: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    for index, constraint in enumerate(constraints):
        where, key, action = (
            f"{path}[{index}]",
            constraint.get("topologyKey", ""),
            constraint.get("whenUnsatisfiable", ""),
        )
        yield from positive(constraint.get("maxSkew", 0), f"{where}.maxSkew")
        if not key:
            yield status.required(f"{where}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield status.not_supported(f"{where}.whenUnsatisfiable", action, _ACTIONS)
        rest = constraints[index + 1 :]
        if any((key, action) == (other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")) for other in rest):
            yield status.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if (domains := constraint.get("minDomains")) is not None:
            yield from positive(domains, f"{where}.minDomains")
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield status.invalid_value(f"{where}.minDomains", domains, text)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := constraint.get(name)) is not None and policy not in _INCLUSIONS:
                yield status.not_supported(f"{where}.{name}", policy, _INCLUSIONS)
        yield from _label_keys_causes(constraint, where)
        yield from selector_causes(constraint.get("labelSelector") or {}, f"{where}.labelSelector")


def _toleration_causes(toleration: Mapping[str, Any], path: str) -> Iterator[Cause]:
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key:
        yield from qualified_causes(key, f"{path}.key")
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield status.invalid_value(f"{path}.operator", operator, text)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield status.invalid_value(f"{path}.effect", effect, text)
    if operator in ("", "Equal") and (problems := label_value_problems(value)):
        yield from status.invalid_values(f"{path}.operator", value, problems)
    elif operator == "Exists" and value:
        text = "value must be empty when `operator` is 'Exists'"
        yield status.invalid_value(f"{path}.operator", value, text)
    elif operator not in ("", "Equal", "Exists"):
        yield status.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield status.not_supported(f"{path}.effect", effect, _EFFECTS)


def taint_causes(taints: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    """Check the taints of a node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where, key, effect = f"{path}[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from qualified_causes(key, f"{where}.key")
        if problems := label_value_problems(taint.get("value", "")):
            yield from status.invalid_values(f"{where}.value", taint["value"], problems)
        if not effect:
            yield status.required(f"{where}.effect")
        elif effect not in _EFFECTS:
            yield status.not_supported(f"{where}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield status.duplicate(where, dict(taint))
        seen.add((key, effect))
