"""The admission of writes, in the order of the real server. Costs nothing while there is nothing that limits them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ctrlhost_sandbox.admission import limits, mutating, policies, quotas, validating, webhooks
from ctrlhost_sandbox.admission.request import CREATE, DELETE, UPDATE, Request
from ctrlhost_sandbox.patch import managed
from ctrlhost_sandbox.schema import fieldset

if TYPE_CHECKING:
    from ctrlhost_sandbox.admission.quotas import Charge
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


def mutates(context: ServerContext) -> bool:
    """Return whether anything may change objects."""
    return (
        bool(context.store.table(limits.TABLE).count)
        or policies.present(context, policies.MUTATING)
        or webhooks.present(context, webhooks.MUTATING)
    )


def mutate(context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Object:
    """Return the object as limit ranges, policies and webhooks change it, which may be the same one."""
    request = Request(operation, CREATE if old is None else UPDATE, obj, old)
    before = copy.deepcopy(obj)
    invocations = webhooks.Invocations()
    again = _mutate(context, request, invocations, None)
    if again is not None or invocations.changed:
        invocations.again = True
        _mutate(context, request, invocations, again or set())
    assert request.obj is not None
    kind = operation.kind
    old_fields, new_fields = (managed.trackable(kind, state, operation.subresource) for state in (before, request.obj))
    operation.untracked, _ = fieldset.differences(managed.shape_of(kind), old_fields, new_fields)
    return request.obj


def _mutate(
    context: ServerContext, request: Request, invocations: webhooks.Invocations, again: mutating.Invoked | None
) -> mutating.Invoked | None:
    """Run limit ranges, policies and webhooks once; return the policies that may run again.

    In a second round these are `again`, and only they run.
    """
    limits.mutate(context, request)
    if again is None or again:
        has_policies = policies.present(context, policies.MUTATING)
        again = mutating.mutate(context, request, again) if has_policies else None
    if webhooks.present(context, webhooks.MUTATING):
        webhooks.mutate(context, request, invocations)
    return again


def validate(
    context: ServerContext, operation: Operation, action: str, obj: Object | None, old: Object | None
) -> list[Charge]:
    """Return what a write costs; raise if a limit range, a policy, a webhook or a quota refuses it."""
    request = Request(operation, action, obj, old)
    if action == DELETE and webhooks.present(context, webhooks.MUTATING):
        webhooks.mutate(context, request, webhooks.Invocations())
    if context.store.table(limits.TABLE).count:
        limits.validate(context, request)
    if policies.present(context, policies.VALIDATING):
        validating.validate(context, request)
    if webhooks.present(context, webhooks.VALIDATING):
        webhooks.validate(context, request)
    return quotas.check(context, request) if context.store.table(quotas.TABLE).count else []
