"""The status of ValidatingAdmissionPolicies: the problems of their expressions with the types that they are about."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission.policies import GROUP, VALIDATING
from ctrlhost_sandbox.controllers.controller import Controller
from ctrlhost_sandbox.schema import inlined
from ctrlhost_sandbox.schema.expressions import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.controllers.controller import Key
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.storage.store import Event, Table

_TABLE = f"{GROUP}/{VALIDATING}"
_MAX_KINDS = 10


class PolicyStatusController(Controller):
    """Check each generation of a policy once."""

    name = "validatingadmissionpolicy-status"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed policy."""
        return [event.new.key] if table.name == _TABLE and event.new is not None else []

    def reconcile(self, key: Key) -> None:
        """Write the problems of a policy into its status."""
        kind = self.kind(GROUP, "ValidatingAdmissionPolicy")
        policy = self.read(kind, *key)
        if policy is None:
            return
        generation, status = policy["metadata"].get("generation", 0), policy.get("status") or {}
        if generation <= status.get("observedGeneration", 0):
            return
        checked: dict[str, Any] = {}
        if warnings := list(self._warnings(policy["spec"])):
            checked["expressionWarnings"] = warnings
        policy["status"] = {**status, "observedGeneration": generation, "typeChecking": checked}
        self.update(kind, policy, "status")

    def _warnings(self, spec: dict[str, Any]) -> Iterator[dict[str, str]]:
        kinds = self._kinds((spec.get("matchConstraints") or {}).get("resourceRules") or ())
        variables = tuple(
            (variable.get("name", ""), variable.get("expression", "")) for variable in spec.get("variables") or ()
        )
        params = spec.get("paramKind") is not None
        for index, validation in enumerate(spec.get("validations") or ()):
            for name in ("expression", "messageExpression"):
                if not validation.get(name):
                    continue
                texts = []
                for kind in kinds:
                    expressions = ((validation[name], "any"),)
                    (error,) = compiled(expressions, variables, params=params, schema=_schema_of(kind)).errors
                    if error:
                        text = error.removeprefix("compilation failed: ")
                        texts.append(f"{kind.api_version}, Kind={kind.kind}: {text}\n")
                if texts:
                    yield {"fieldRef": f"spec.validations[{index}].{name}", "warning": "\n".join(texts)}

    def _kinds(self, rules: Any) -> list[Kind]:
        """Return the kinds that rules name without wildcards, in order."""
        by_version: dict[tuple[str, str, str], Kind] = {}
        for rule in rules:
            groups, versions = sorted(rule.get("apiGroups") or ()), sorted(rule.get("apiVersions") or ())
            if "*" in (*groups, *versions):
                continue
            names = sorted(name for name in rule.get("resources") or () if not {"*", "/"} & set(name))
            kinds = (self.context.registry.find(*place) for place in product(groups, versions, names))
            for kind in [kind for kind in kinds if kind is not None][:_MAX_KINDS]:
                by_version[kind.group, kind.version, kind.kind] = kind
        return [by_version[key] for key in sorted(by_version)]


def _schema_of(kind: Kind) -> str | None:
    if kind.custom is not None:
        return inlined.of_custom(kind.custom.schema)
    return inlined.of_builtin(kind.group, kind.version, kind.kind)
