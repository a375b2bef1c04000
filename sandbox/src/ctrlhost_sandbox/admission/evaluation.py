"""Evaluation of a policy's expressions for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery.objects import User
from ctrlhost_sandbox.apimachinery.status import joined
from ctrlhost_sandbox.auth.authorizer import ACCOUNT_PREFIX
from ctrlhost_sandbox.http.messages import Attributes
from ctrlhost_sandbox.schema.expressions import Typed, Variables, compiled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind

BUDGET = 10_000_000
"""The steps of all expressions of a sort."""
_MATCH_BUDGET = 2_500_000
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudget(Exception):
    """The expressions took too many steps."""

    def __str__(self) -> str:
        """Return the message of the real server."""
        return OUT_OF_BUDGET


class Failed(Exception):
    """An expression could not be evaluated."""


class Outcome(msgspec.Struct):
    """The result of one expression, or the message of its error."""

    value: Any
    error: str = ""


class Evaluation:
    """Expressions of one policy or webhook for one request, with one object of parameters."""

    def __init__(
        self, context: ServerContext, request: Request, kind: Kind, spec: Mapping[str, Any], params: Object | None
    ) -> None:
        """Evaluate what the `spec` of a policy or a webhook has, for the object as `kind` shows it."""
        self._context, self._request, self._kind, self._params = context, request, kind, params
        self._spec = spec
        self._variables: Variables = tuple(
            (variable.get("name", ""), variable.get("expression", "")) for variable in self._spec.get("variables") or ()
        )
        self._attributes = _encoded(request.described(kind))
        self._namespace = _encoded(self._namespace_object())

    def run(
        self, expressions: Typed, budget: int = BUDGET, *, authorizer: bool = True, answers: bool = True
    ) -> tuple[list[Outcome], int]:
        """Evaluate expressions; return the results and the steps left. Raise OutOfBudget.

        `authorizer` says whether expressions may name it, `answers` whether it answers.
        """
        return self._run(expressions, budget, self._namespace, authorizer=authorizer, answers=answers)

    def meets_conditions(self) -> bool:
        """Return whether all match conditions hold; raise Failed for errors, if none of them is false."""
        conditions = self._spec.get("matchConditions") or ()
        if not conditions:
            return True
        expressions = tuple((condition.get("expression", ""), "bool") for condition in conditions)
        try:
            outcomes, _ = self._run(expressions, _MATCH_BUDGET, "null", authorizer=True, answers=True)
        except OutOfBudget as error:
            raise Failed(str(error)) from None
        if any(outcome.value is False for outcome in outcomes):
            return False
        errors = [outcome.error for outcome in outcomes if outcome.error]
        if errors:
            raise Failed(joined(dict.fromkeys(errors)))
        return True

    def _run(
        self, expressions: Typed, budget: int, namespace: str, *, authorizer: bool, answers: bool
    ) -> tuple[list[Outcome], int]:
        params = self._spec.get("paramKind") is not None
        budget = min(budget, self._request.steps)
        evaluated = compiled(expressions, self._variables, params=params, authorizer=authorizer).evaluate(
            _encoded(self._request.served(self._request.obj, self._kind)),
            _encoded(self._request.served(self._request.old, self._kind)),
            self._attributes,
            namespace,
            _encoded(self._params),
            budget=budget,
            authorize=self._authorize if answers else None,
        )
        if evaluated is None:
            self._request.steps -= budget
            raise OutOfBudget
        outcomes, left = evaluated
        self._request.steps -= budget - left
        return [
            Outcome(None, why) if text is None else Outcome(msgspec.json.decode(text)) for text, why in outcomes
        ], left

    def _namespace_object(self) -> Object | None:
        request = self._request
        if not request.operation.kind.namespaced:
            return None
        namespace = self._context.store.table("namespaces").get("", request.namespace)
        return None if namespace is None else namespace.decode()

    def _authorize(
        self,
        account: str | None,
        path: str,
        verb: str,
        group: str,
        resource: str,
        subresource: str,
        namespace: str,
        name: str,
    ) -> tuple[bool, str]:
        authorizer = self._context.authorizer
        if authorizer is None:
            return True, ""
        user = self._request.operation.user
        if account is not None:
            home = account.partition(":")[0]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated")
            user = User(f"{ACCOUNT_PREFIX}{account}", groups)
        decision = authorizer.authorize(
            user, Attributes(verb, path, group, "*" if resource else "", resource, subresource, namespace, name)
        )
        return decision.allowed, decision.reason


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()
