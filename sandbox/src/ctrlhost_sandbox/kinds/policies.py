"""Admission policies and their bindings: the expressions must compile."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_label_1035, is_subdomain, name_problems, qualified_problems
from ctrlhost_sandbox.apimachinery.objects import at
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.fields import selector_causes
from ctrlhost_sandbox.kinds.match_rules import rule_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below
from ctrlhost_sandbox.schema.expressions import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

GROUP = "admissionregistration.k8s.io"
_MATCH: tuple[tuple[str, Any], ...] = (
    ("matchPolicy", "Equivalent"),
    ("namespaceSelector", {}),
    ("objectSelector", {}),
    ("resourceRules[*].scope", "*"),
    ("excludeResourceRules[*].scope", "*"),
)
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while"
)
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION = 5 * 1024
_PATCHES = {"JSONPatch": ("jsonPatch", "list(JSONPatch)"), "ApplyConfiguration": ("applyConfiguration", "Object")}
_MUTATED = ("*", "CONNECT", "CREATE", "UPDATE")
"""The operations that policies may mutate."""


class _Policies(BuiltinStrategy):
    """What both sorts of policies share."""

    defaults = (("spec.failurePolicy", "Fail"), *below("spec.matchConstraints", _MATCH))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the constraints, the conditions and the variables, then what the policy does."""
        if operation.subresource:
            return
        spec = obj["spec"]
        if spec.get("failurePolicy") not in ("Fail", "Ignore"):
            yield status.not_supported("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
        if spec.get("paramKind") is not None:
            yield from _param_kind_causes(spec["paramKind"])
        constraints, field = spec.get("matchConstraints"), "spec.matchConstraints"
        if constraints is None:
            yield status.required(field)
        else:
            yield from match_causes(constraints, field)
            if not constraints.get("resourceRules"):
                yield status.required(f"{field}.resourceRules")
            yield from self.operation_causes(constraints, field)
        if old is None or at(old, ("spec", "matchConditions")) != spec.get("matchConditions"):
            yield from condition_causes(spec, "spec.matchConditions")
        yield from _variable_causes(spec)
        yield from self.action_causes(obj)

    def operation_causes(self, constraints: Mapping[str, Any], field: str) -> Iterator[Cause]:
        """Check the operations of the rules."""
        return iter(())

    def action_causes(self, obj: Object) -> Iterator[Cause]:
        """Check what the policy does."""
        return iter(())


class _Validating(_Policies):
    """Validations and audit annotations."""

    columns = "Validations:i ParamKind Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        kind = obj["spec"].get("paramKind")
        params = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
        return (len(obj["spec"].get("validations") or ()), params, created(obj))

    def action_causes(self, obj: Object) -> Iterator[Cause]:
        spec = obj["spec"]
        validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
        if not validations and not annotations:
            for name in ("validations", "auditAnnotations"):
                yield status.required(f"spec.{name}", "validations or auditAnnotations must contain at least one item")
        for index, validation in enumerate(validations):
            yield from _validation_causes(spec, validation, f"spec.validations[{index}]")
        if len(annotations) > _MAX_ANNOTATIONS:
            text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
            yield status.invalid_value("spec.auditAnnotations", annotations, text)
        seen: Counter[str] = Counter()
        for index, annotation in enumerate(annotations):
            field, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
            yield from _annotation_causes(obj, annotation, field)
            if seen[key]:
                yield status.duplicate(f"{field}.key", key)
            seen[key] += 1


class _Mutating(_Policies):
    """Mutations."""

    columns = "Mutations:i ParamKind Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        kind = obj["spec"].get("paramKind")
        params = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
        return (len(obj["spec"].get("mutations") or ()), params, created(obj))

    def operation_causes(self, constraints: Mapping[str, Any], field: str) -> Iterator[Cause]:
        yield from _mutated_causes(constraints, field)

    def action_causes(self, obj: Object) -> Iterator[Cause]:
        spec = obj["spec"]
        if not spec.get("mutations"):
            yield status.required("spec.mutations", "mutations must contain at least one item")
        for index, mutation in enumerate(spec.get("mutations") or ()):
            yield from _mutation_causes(spec, mutation, f"spec.mutations[{index}]")
        policy = spec.get("reinvocationPolicy")
        if not policy:
            yield status.required("spec.reinvocationPolicy")
        elif policy not in ("IfNeeded", "Never"):
            yield status.not_supported("spec.reinvocationPolicy", policy, ("IfNeeded", "Never"))


class _Bindings(BuiltinStrategy):
    """Bindings of both sorts."""

    defaults = below("spec.matchResources", _MATCH)
    columns = "PolicyName ParamRef Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        reference = obj["spec"].get("paramRef")
        params = "<unset>"
        if reference:
            params = "/".join(filter(None, (reference.get("namespace"), reference.get("name")))) or "*"
        return (obj["spec"].get("policyName", ""), params, created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the name of the policy, the reference to parameters, and the constraints."""
        spec = obj["spec"]
        name = spec.get("policyName", "")
        if not name:
            yield status.required("spec.policyName")
        elif problems := name_problems("subdomain", name):
            yield from status.invalid_values("spec.policyName", name, problems)
        if spec.get("paramRef") is not None:
            yield from _reference_causes(spec["paramRef"])
        resources = spec.get("matchResources")
        if resources is not None:
            yield from match_causes(resources, "spec.matchResources")
        if operation.kind.kind.startswith("Validating"):
            yield from _binding_action_causes(spec.get("validationActions") or [])
        elif resources is not None:
            yield from _mutated_causes(resources, "spec.matchResources")


def match_causes(constraints: Mapping[str, Any], field: str) -> Iterator[Cause]:
    """Check the constraints of a policy or a binding."""
    if constraints.get("matchPolicy") not in ("Equivalent", "Exact"):
        yield status.not_supported(f"{field}.matchPolicy", constraints.get("matchPolicy"), ("Equivalent", "Exact"))
    for name in ("namespaceSelector", "objectSelector"):
        yield from selector_causes(constraints.get(name) or {}, f"{field}.{name}")
    for part in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(part) or ()):
            yield from rule_causes(rule, f"{field}.{part}[{index}]")


def _mutated_causes(constraints: Mapping[str, Any], field: str) -> Iterator[Cause]:
    for rule in constraints.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATED:
                yield status.not_supported(f"{field}.resourceRules.operations", operation, _MUTATED)


def _param_kind_causes(kind: Mapping[str, Any]) -> Iterator[Cause]:
    version, name, field = kind.get("apiVersion", ""), kind.get("kind", ""), "spec.paramKind"
    if not version:
        yield status.required(f"{field}.apiVersion")
    elif version.count("/") > 1:
        yield status.invalid_value(f"{field}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    else:
        group, _, plain = version.rpartition("/")
        if group and not is_subdomain(group):
            yield from status.invalid_values(f"{field}.apiVersion", group, name_problems("subdomain", group))
        if not plain:
            yield status.invalid_value(f"{field}.apiVersion", version, "version must be specified")
        elif not is_label_1035(plain):
            yield from status.invalid_values(f"{field}.apiVersion", plain, name_problems("label_1035", plain))
    if not name:
        yield status.required(f"{field}.kind")
    elif not is_label_1035(name.lower()):
        problems = ",".join(name_problems("label_1035", name.lower()))
        text = f"may have mixed case, but should otherwise match: {problems}"
        yield status.invalid_value(f"{field}.kind", name, text)


def condition_causes(spec: Mapping[str, Any], where: str) -> Iterator[Cause]:
    """Check the match conditions of a policy or a webhook."""
    conditions, names = spec.get("matchConditions") or (), set[str]()
    if len(conditions) > _MAX_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items"
        yield status.Cause("FieldValueTooMany", text, where)
    for index, condition in enumerate(conditions):
        field, name = f"{where}[{index}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            yield status.required(f"{field}.expression")
        else:
            # Conditions do not see variables.
            yield from _expression_causes({**spec, "variables": []}, expression, "bool", f"{field}.expression")
        if not name:
            yield status.required(f"{field}.name")
        else:
            yield from status.invalid_values(f"{field}.name", name, qualified_problems(name))
            if name in names:
                yield status.duplicate(f"{field}.name", name)
            names.add(name)


def _variables(spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((variable.get("name", ""), variable.get("expression", "")) for variable in spec.get("variables") or ())


def _variable_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    variables = _variables(spec)
    errors = compiled((), variables, params=spec.get("paramKind") is not None).variable_errors
    for index, ((name, expression), error) in enumerate(zip(variables, errors, strict=True)):
        field = f"spec.variables[{index}]"
        if not name.strip():
            yield status.required(f"{field}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or _RESERVED.fullmatch(name):
            yield status.invalid_value(f"{field}.name", name, "must be a valid CEL identifier")
        if not expression.strip():
            yield status.required(f"{field}.expression", "expression is not specified")
        elif error:
            yield status.invalid_value(f"{field}.expression", expression, error)


def _expression_causes(
    spec: Mapping[str, Any], text: str, returns: str, field: str, *, authorizer: bool = True
) -> Iterator[Cause]:
    params = spec.get("paramKind") is not None
    (error,) = compiled(((text, returns),), _variables(spec), params=params, authorizer=authorizer).errors
    if error:
        yield status.invalid_value(field, text, error)


def _validation_causes(spec: Mapping[str, Any], validation: Mapping[str, Any], field: str) -> Iterator[Cause]:
    expression, message = validation.get("expression", ""), validation.get("message", "")
    dynamic, reason = validation.get("messageExpression", ""), validation.get("reason")
    if not expression.strip():
        yield status.required(f"{field}.expression", "expression is not specified")
    else:
        yield from _expression_causes(spec, expression, "bool", f"{field}.expression")
    if dynamic and not dynamic.strip():
        yield status.invalid_value(f"{field}.messageExpression", dynamic, "must be non-empty if specified")
    elif dynamic:
        yield from _expression_causes(spec, dynamic, "string", f"{field}.messageExpression", authorizer=False)
    if message and not message.strip():
        yield status.invalid_value(f"{field}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield status.invalid_value(f"{field}.message", message, "must not contain line breaks")
    if reason is not None and reason not in _REASONS:
        yield status.not_supported(f"{field}.reason", reason, _REASONS)


def _annotation_causes(obj: Object, annotation: Mapping[str, Any], field: str) -> Iterator[Cause]:
    key, text = f"{obj['metadata'].get('name', '')}/{annotation.get('key', '')}", annotation.get("valueExpression", "")
    yield from status.invalid_values(f"{field}.key", key, qualified_problems(key))
    where = f"{field}.valueExpression"
    if not text.strip():
        yield status.required(where, "valueExpression is not specified")
    elif len(text.strip().encode()) > _MAX_ANNOTATION:
        yield status.required(where, f"must not exceed {_MAX_ANNOTATION} bytes in length")
    else:
        yield from _expression_causes(obj["spec"], text.strip(), "string or null", where)


def _mutation_causes(spec: Mapping[str, Any], mutation: Mapping[str, Any], field: str) -> Iterator[Cause]:
    patch_type = mutation.get("patchType", "")
    if not patch_type:
        yield status.required(f"{field}.patchType")
    elif patch_type not in _PATCHES:
        yield status.not_supported(f"{field}.patchType", patch_type, sorted(_PATCHES))
    else:
        part, returns = _PATCHES[patch_type]
        where, patch = f"{field}.{part}", mutation.get(part)
        if patch is None:
            yield status.required(where, f"must be specified when patchType is {patch_type}")
        elif not patch.get("expression", "").strip():
            yield status.required(f"{where}.expression")
        else:
            yield from _expression_causes(spec, patch["expression"].strip(), returns, f"{where}.expression")
        for other, _ in _PATCHES.values():
            if other != part and mutation.get(other) is not None:
                text = f"must not be specified when patchType is {patch_type}"
                yield status.invalid_value(f"{field}.{other}", f"{{{other}}}", text)


def _reference_causes(reference: Mapping[str, Any]) -> Iterator[Cause]:
    field, name, selector = "spec.paramRef", reference.get("name", ""), reference.get("selector")
    if name:
        if problems := name_problems("segment", name):
            yield from status.invalid_values(f"{field}.name", name, problems)
        if selector is not None:
            yield status.forbidden_field(f"{field}.name", "name and selector are mutually exclusive")
    if selector is not None:
        yield from selector_causes(selector, f"{field}.selector")
        if name:
            yield status.forbidden_field(f"{field}.selector", "name and selector are mutually exclusive")
    elif not name:
        yield status.required(field, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield status.required(f"{field}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield status.not_supported(f"{field}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _binding_action_causes(actions: list[str]) -> Iterator[Cause]:
    field, seen = "spec.validationActions", set[str]()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield status.not_supported(f"{field}[{index}]", action, _ACTIONS)
        if action in seen:
            yield status.duplicate(f"{field}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield status.invalid_value(field, actions, text)
    if not seen:
        yield status.required(field, "at least one validation action is required")


STRATEGIES = {
    (GROUP, "MutatingAdmissionPolicy"): _Mutating(),
    (GROUP, "MutatingAdmissionPolicyBinding"): _Bindings(),
    (GROUP, "ValidatingAdmissionPolicy"): _Validating(),
    (GROUP, "ValidatingAdmissionPolicyBinding"): _Bindings(),
}
