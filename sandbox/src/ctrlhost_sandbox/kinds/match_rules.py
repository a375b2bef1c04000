"""Checks of the rules that say which requests a policy or a webhook is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def rule_causes(rule: Mapping[str, Any], field: str) -> Iterator[Cause]:
    """Check one rule."""
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        where = f"{field}.resourceNames[{index}]"
        if problems := name_problems("segment", name):
            yield from status.invalid_values(where, name, problems)
        if name in seen:
            yield status.duplicate(where, name)
        seen.add(name)
    operations = rule.get("operations") or []
    if not operations:
        yield status.required(f"{field}.operations")
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        yield status.invalid_value(f"{field}.operations", operations, text)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield status.not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS)
    for name, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        items = rule.get(name) or []
        if not items:
            yield status.required(f"{field}.{name}")
        if len(items) > 1 and "*" in items:
            yield status.invalid_value(f"{field}.{name}", items, f"if '*' is present, must not specify other {words}")
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield status.required(f"{field}.apiVersions[{index}]")
    yield from _resource_causes(rule.get("resources") or [], f"{field}.resources")
    scope = rule.get("scope", "*")
    if scope not in _SCOPES:
        yield status.not_supported(f"{field}.scope", scope, _SCOPES)


def _resource_causes(resources: list[str], field: str) -> Iterator[Cause]:
    if not resources:
        yield status.required(field)
    all_of: set[str] = set()
    everywhere: set[str] = set()
    for index, text in enumerate(resources):
        where = f"{field}[{index}]"
        name, slash, sub = text.partition("/")
        if not text:
            yield status.required(where)
        if not slash:
            continue
        if name in all_of:
            yield status.invalid_value(where, text, f"if '{name}/*' is present, must not specify {text}")
        if sub in everywhere:
            yield status.invalid_value(where, text, f"if '*/{sub}' is present, must not specify {text}")
        if sub == "*":
            all_of.add(name)
        if name == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        yield status.invalid_value(field, resources, text)
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":
        text = "if '*' is present, must not specify other resources without subresources"
        yield status.invalid_value(field, resources, text)
