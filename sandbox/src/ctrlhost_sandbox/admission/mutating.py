"""MutatingAdmissionPolicies: expressions make patches or configurations that are merged into the object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import objects, policies
from ctrlhost_sandbox.admission.evaluation import BUDGET, Evaluation, Failed, OutOfBudget
from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.objects import same
from ctrlhost_sandbox.apimachinery.status import Cause, Failure
from ctrlhost_sandbox.patch import apply, managed
from ctrlhost_sandbox.patch.json_patch import PatchError, TestFailed, json_patch
from ctrlhost_sandbox.schema.normalize import Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.admission.policies import Match
    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.schema.shapes import Shape

_RETURNS = {"ApplyConfiguration": ("applyConfiguration", "Object"), "JSONPatch": ("jsonPatch", "list(JSONPatch)")}
Invoked = set[tuple[str, str, int]]
"""Policies that ask to be invoked again: policy, binding, and the index of the parameters."""


def mutate(context: ServerContext, request: Request, again: Invoked | None = None) -> Invoked | None:
    """Apply the policies to the object of a request; with `again` only those.

    Return those that ask to be invoked again, None if nothing was patched. Raise 403 if one fails.
    """
    errors: list[tuple[Match, str]] = []
    reinvocable: Invoked = set()
    patched = False
    for match in list(policies.matches(context, request, policies.MUTATING)):
        if match.error:
            errors.append((match, match.error))
            continue
        for index, params in enumerate(match.params):
            key = (match.policy_name, match.binding_name, index)
            evaluation = Evaluation(context, request, match.kind, match.policy["spec"], params)
            try:
                if not evaluation.meets_conditions() or (again is not None and key not in again):
                    continue
            except Failed as error:
                errors.append((match, str(error)))
                continue
            for mutation in match.policy["spec"].get("mutations") or ():
                try:
                    request.obj = _mutated(request, evaluation, mutation)
                    patched = True
                except Failed as error:
                    errors.append((match, str(error)))
            if match.policy["spec"].get("reinvocationPolicy") == "IfNeeded":
                reinvocable.add(key)
    refusals = [(match, why) for match, why in errors if match.fails]
    if refusals:
        raise _refusal(request, refusals)
    return reinvocable if patched else None


def _refusal(request: Request, refusals: list[tuple[Match, str]]) -> Failure:
    texts = []
    for match, why in refusals:
        named = f"policy '{match.policy_name}' with binding '{match.binding_name}'"
        if match.binding is None:
            named = f'policy "{match.policy_name}"'
        texts.append(f"{named} denied request: {why}")
    failure = request.forbidden("", [Cause("", text) for text in texts])
    failure.message = texts[0]
    if not refusals[0][0].error:
        failure.reason = "Invalid"
    return failure


def _mutated(request: Request, evaluation: Evaluation, mutation: dict[str, Any]) -> Object:
    """Return the object with one mutation, with defaults."""
    part, returns = _RETURNS[mutation.get("patchType", "")]
    expression = (mutation.get(part) or {}).get("expression", "")
    try:
        (outcome,), _ = evaluation.run(((expression, returns),), BUDGET)
    except OutOfBudget as error:
        raise Failed(str(error)) from None
    if outcome.error:
        raise Failed(outcome.error.removeprefix("compilation error: "))
    assert request.obj is not None
    operation = request.operation
    if part == "jsonPatch":
        try:
            changed = json_patch(request.obj, [_operation(change) for change in outcome.value])
        except TestFailed:
            return request.obj
        except PatchError as error:
            raise Failed(f"JSON Patch: {error}") from None
    else:
        changed = _applied(operation, request.obj, outcome.value)
    return _finished(operation, request.obj, changed)


def _operation(patch: Object) -> Object:
    return {key: value for key, value in patch.items() if key != "from" or value}


def _applied(operation: Operation, obj: Object, configuration: Object) -> Object:
    shape = managed.shape_of(operation.kind)
    configuration = {**configuration, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    if unknown := list(_undeclared(shape, configuration, "")):
        text = "failed to convert patch object to typed object: " + status.joined(unknown)
        raise Failed(f"error applying patch: {text}")
    if atomics := list(_atomics(shape, configuration, "")):
        text = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise Failed(f"error applying patch: {text}")
    merged: Object = apply.merge(shape, obj, configuration)
    return merged


def _undeclared(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Find the fields that the schema does not have."""
    if type(value) is dict and shape.type == "object":
        for key, item in value.items():
            child = shape.child(key)
            if child is not None:
                yield from _undeclared(child, item, f"{path}.{key}")
            elif path or key not in ("apiVersion", "kind"):
                yield f"{path}.{key}: field not declared in schema"
    elif type(value) in (dict, list) and shape.element is not None:
        items = value.items() if type(value) is dict else enumerate(value)
        for key, item in items:
            yield from _undeclared(shape.element, item, f"{path}[{key}]")


def _atomics(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Find the values that can only be replaced as a whole."""
    if type(value) is dict and shape.type == "object":
        if shape.atomic:
            yield path
        for key, item in value.items():
            child = shape.fields.get(key)
            if child is not None:
                yield from _atomics(child, item, f"{path}.{key}")
    elif type(value) is dict and shape.type == "map":
        if shape.atomic:
            yield path
    elif type(value) is list and shape.type == "array":
        if shape.atomic or shape.list_type == "atomic":
            yield path
        for index, item in enumerate(value):
            if shape.element is not None:
                yield from _atomics(shape.element, item, f"{path}[{index}]")


def _finished(operation: Operation, before: Object, changed: Any) -> Object:
    """Return a patched object in canonical form, with defaults."""
    if type(changed) is not dict or type(changed.get("metadata")) is not dict:
        raise Failed("JSON Patch: the result is not an object")
    if same(changed, before):
        return before
    for field in ("apiVersion", "kind"):
        if changed.get(field) != before[field]:
            raise status.internal(f"a policy must not change {field}")
    try:
        return objects.canonical(operation, changed, "Strict")
    except Undecodable as error:
        raise status.internal(error.message) from None
