"""ValidatingAdmissionPolicies: requests are refused, answered with a warning or noted in the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.admission import policies
from ctrlhost_sandbox.admission.evaluation import BUDGET, Evaluation, Failed, OutOfBudget
from ctrlhost_sandbox.apimachinery.status import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.admission.policies import Match
    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Failure
    from ctrlhost_sandbox.context import ServerContext

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_MAX_MESSAGE = 5 * 1024
_MAX_ANNOTATION = 10 * 1024
FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"


@dataclass(frozen=True, slots=True)
class _Finding:
    """A validation that failed: its index, message and reason."""

    index: int
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Note:
    """An audit annotation, or the error of its expression."""

    key: str
    value: str
    error: str = ""


def validate(context: ServerContext, request: Request) -> None:
    """Raise the failure of the first policy that refuses the request."""
    denial: Failure | None = None
    annotations: dict[str, list[str]] = {}
    for match in policies.matches(context, request, policies.VALIDATING):
        for message, reason in _apply(context, request, match, annotations):
            denial = denial or _denial(request, match, message, reason)
    request.operation.annotations |= {key: ", ".join(values) for key, values in annotations.items()}
    if denial is not None:
        raise denial


def _denial(request: Request, match: Match, message: str, reason: str) -> Failure:
    binding = f" with binding '{match.binding_name}'" if match.binding is not None else ""
    text = f"ValidatingAdmissionPolicy '{match.policy_name}'{binding} denied request: {message}"
    failure = request.forbidden(text, [Cause("", text)])
    failure.reason = reason or "Invalid"
    failure.code = _CODES.get(failure.reason, 422)
    return failure


def _apply(
    context: ServerContext, request: Request, match: Match, annotations: dict[str, list[str]]
) -> Iterator[tuple[str, str]]:
    """Evaluate a policy with each of its parameters; return message and reason of refusals."""
    if match.error:
        if match.fails:
            yield match.error, ""
        return
    assert match.binding is not None
    actions: list[str] = match.binding["spec"].get("validationActions") or []
    for params in match.params:
        evaluation = Evaluation(context, request, match.kind, match.policy["spec"], params)
        try:
            findings, notes = _validated(match, evaluation) if evaluation.meets_conditions() else ([], [])
        except Failed as failed:
            findings, notes = _failed(match, str(failed)), []
        for finding in findings:
            if "Deny" in actions:
                yield finding.message, finding.reason
            if "Audit" in actions:
                request.operation.annotations[FAILURE_ANNOTATION] = _audited(match, finding, actions)
            if "Warn" in actions:
                text = f"Validation failed for ValidatingAdmissionPolicy '{match.policy_name}'"
                request.operation.warnings.append(f"{text} with binding '{match.binding_name}': {finding.message}")
        for note in notes:
            if note.error:
                yield note.error, ""
                continue
            values = annotations.setdefault(f"{match.policy_name}/{note.key}", [])
            if note.value not in values:
                values.append(note.value)


def _failed(match: Match, message: str) -> list[_Finding]:
    return [_Finding(0, message)] if match.fails else []


def _audited(match: Match, finding: _Finding, actions: list[str]) -> str:
    failure = {
        "message": finding.message,
        "policy": match.policy_name,
        "binding": match.binding_name,
        "expressionIndex": finding.index,
        "validationActions": actions,
    }
    return msgspec.json.encode([failure]).decode()


def _validated(match: Match, evaluation: Evaluation) -> tuple[list[_Finding], list[_Note]]:
    """Evaluate validations and audit annotations."""
    spec = match.policy["spec"]
    validations = spec.get("validations") or ()
    findings: list[_Finding] = []
    try:
        outcomes, left = evaluation.run(
            tuple((validation.get("expression", ""), "bool") for validation in validations), BUDGET
        )
    except OutOfBudget as error:
        return _failed(match, str(error)), []
    messages, out_of_budget = _messages(evaluation, validations, left)
    for index, (validation, outcome) in enumerate(zip(validations, outcomes, strict=True)):
        why = outcome.error or out_of_budget
        if why:
            if match.fails:
                findings.append(_Finding(index, why))
        elif outcome.value is not True:
            message = messages[index] or validation.get("message", "").strip()
            message = message or f"failed expression: {validation.get('expression', '').strip()}"
            findings.append(_Finding(index, message, validation.get("reason", "")))
    try:
        return findings, list(_annotations(match, evaluation, spec.get("auditAnnotations") or ()))
    except OutOfBudget as error:
        return _failed(match, str(error)), []


def _messages(evaluation: Evaluation, validations: Any, left: int) -> tuple[list[str], str]:
    """Return the messages that expressions make, empty where there is none; or why there are none at all."""
    wanted = [
        (index, validation["messageExpression"])
        for index, validation in enumerate(validations)
        if validation.get("messageExpression")
    ]
    messages = [""] * len(validations)
    try:
        expressions = tuple((text, "string") for _, text in wanted)
        outcomes, _ = evaluation.run(expressions, left, authorizer=False, answers=False)
    except OutOfBudget as error:
        return messages, f"failed messageExpression: {error}"
    for (index, _), outcome in zip(wanted, outcomes, strict=True):
        text = outcome.value.strip() if isinstance(outcome.value, str) else ""
        if len(text.encode()) <= _MAX_MESSAGE and "\n" not in text:
            messages[index] = text
    return messages, ""


def _annotations(match: Match, evaluation: Evaluation, annotations: list[Object] | tuple[()]) -> Iterator[_Note]:
    expressions = tuple((annotation.get("valueExpression", "").strip(), "string or null") for annotation in annotations)
    if not expressions:
        return
    outcomes, _ = evaluation.run(expressions, BUDGET, answers=False)
    for annotation, outcome in zip(annotations, outcomes, strict=True):
        text = outcome.value.strip() if isinstance(outcome.value, str) else ""
        if outcome.error:
            if match.fails:
                yield _Note(annotation.get("key", ""), "", outcome.error)
        elif text:
            value = text.encode()[:_MAX_ANNOTATION].decode(errors="ignore")
            yield _Note(annotation.get("key", ""), value)
