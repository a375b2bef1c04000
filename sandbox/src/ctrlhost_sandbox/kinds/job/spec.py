"""The spec of a job, in a Job or in a CronJob's template: defaults and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_subdomain, qualified_problems, template_causes
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.kinds.fields import not_negative
from ctrlhost_sandbox.kinds.pod import spec as pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_RESTARTS = ("OnFailure", "Never")
_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")


def default(spec: dict[str, Any]) -> None:
    """Set the defaults of a job's spec that depend on other fields."""
    if "parallelism" not in spec:
        # Without both, a job runs one pod; with completions alone, it runs one at a time.
        spec.setdefault("completions", 1)
        spec["parallelism"] = 1
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    pod_spec.default(spec["template"].get("spec") or {})


def causes(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check the spec of a job, or of a CronJob's template."""
    yield from not_negative(spec, *_COUNTS, "backoffLimitPerIndex", "maxFailedIndexes", path=path)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield status.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        yield from _manager_causes(manager, f"{path}.managedBy")
    mode = spec.get("completionMode")
    if mode not in (None, "Indexed", "NonIndexed"):
        yield status.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        yield from _indexed_causes(spec, path)
    elif mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec:
                yield status.invalid_value(f"{path}.{name}", spec[name], "requires indexed completion mode")
    policy = spec.get("podFailurePolicy")
    if policy is not None:
        for index, rule in enumerate(policy.get("rules") or ()):
            yield from _rule_causes(spec, rule, f"{path}.podFailurePolicy.rules[{index}]")
    if (success := spec.get("successPolicy")) is not None and mode != "Indexed":
        yield status.invalid_value(f"{path}.successPolicy", success, "requires indexed completion mode")
    elif success is not None and not success.get("rules"):
        text = "at least one rules must be specified when the successPolicy is specified"
        yield status.required(f"{path}.successPolicy.rules", text)
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if policy is not None else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        yield status.not_supported(f"{path}.podReplacementPolicy", replacement, allowed)
    yield from _template_causes(spec.get("template") or {}, f"{path}.template", strict=policy is not None)


def _template_causes(template: Mapping[str, Any], path: str, *, strict: bool) -> Iterator[Cause]:
    yield from template_causes(template, path)
    pod = template.get("spec") or {}
    yield from pod_spec.causes(pod, f"{path}.spec", templated=True, restarts=("Always", *_RESTARTS))
    restart, field = pod.get("restartPolicy", ""), f"{path}.spec.restartPolicy"
    if restart in ("", "Always"):
        yield status.required(field, 'valid values: "OnFailure", "Never"')
    elif restart not in _RESTARTS:
        yield status.not_supported(field, restart, _RESTARTS)
    elif strict and restart != "Never":
        yield status.invalid_value(field, restart, 'only "Never" is supported when podFailurePolicy is specified')


def _manager_causes(manager: str, where: str) -> Iterator[Cause]:
    host, slash, rest = manager.partition("/")
    if not manager:
        yield status.required(where)
    elif not slash or not host or not rest or not is_subdomain(host):
        yield status.invalid_value(where, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    if len(manager) > 63:
        yield status.too_long(where, 63)


def _indexed_causes(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if "completions" not in spec:
        yield status.required(f"{path}.completions", "when completion mode is Indexed")
    if spec.get("parallelism", 0) > 100_000:
        text = "must be less than or equal to 100000 when completion mode is Indexed"
        yield status.invalid_value(f"{path}.parallelism", spec["parallelism"], text)
    if spec.get("maxFailedIndexes", 0) > spec.get("completions", 2**31):
        text = "must be less than or equal to completions"
        yield status.invalid_value(f"{path}.maxFailedIndexes", spec["maxFailedIndexes"], text)


def _rule_causes(spec: Mapping[str, Any], rule: Mapping[str, Any], where: str) -> Iterator[Cause]:
    """Check a rule of the pod failure policy."""
    action = rule.get("action", "")
    if not action:
        yield status.required(f"{where}.action", f"valid values: {list(_ACTIONS)}")
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield status.invalid_value(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield status.not_supported(f"{where}.action", action, _ACTIONS)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        yield from _code_causes(codes, f"{where}.onExitCodes")
    for index, condition in enumerate(conditions):
        kind = condition.get("type", "")
        field = f"{where}.onPodConditions[{index}].type"
        yield from status.invalid_values(field, kind, qualified_problems(kind))
    if (codes is None) is (not conditions):
        continued = "specifying one of OnExitCodes and OnPodConditions is required"
        text = continued if codes is None else "specifying both OnExitCodes and OnPodConditions is not supported"
        yield Cause("FieldValueInvalid", f"Invalid value: {text}", where)


def _code_causes(codes: Mapping[str, Any], where: str) -> Iterator[Cause]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if operator not in ("In", "NotIn"):
        yield status.not_supported(f"{where}.operator", operator, ("In", "NotIn"))
    if not values:
        yield status.invalid_value(f"{where}.values", None, "at least one value is required")
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield status.invalid_value(f"{where}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield status.duplicate(f"{where}.values[{index}]", value)
    if values != sorted(values):
        yield status.invalid_value(f"{where}.values", values, "must be ordered")
