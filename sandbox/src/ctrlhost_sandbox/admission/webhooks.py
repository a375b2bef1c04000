"""Admission webhooks: which of them concern a request, what they are sent, and what their answers mean."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.admission import objects, policies
from ctrlhost_sandbox.admission.evaluation import Evaluation, Failed
from ctrlhost_sandbox.admission.matching import matched
from ctrlhost_sandbox.admission.webhook_calls import CallFailed
from ctrlhost_sandbox.admission.webhook_reviews import Response, response_to, review_of
from ctrlhost_sandbox.apimachinery import status, suspension
from ctrlhost_sandbox.apimachinery.objects import same
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.patch.json_patch import PatchError, json_patch
from ctrlhost_sandbox.schema import structural
from ctrlhost_sandbox.schema.normalize import Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
_EXEMPT = frozenset({MUTATING, VALIDATING, *policies.EXEMPT})


@dataclass(frozen=True, slots=True)
class _Webhook:
    """One webhook of a configuration that concerns a request."""

    configuration: str
    spec: Object
    kind: Kind
    """The kind under which the webhook sees the object."""

    @property
    def name(self) -> str:
        """The name of the webhook."""
        return str(self.spec["name"])

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it: names are unique within a configuration."""
        return self.configuration, self.name

    @property
    def ignores_failures(self) -> bool:
        """Whether a call that fails admits the request."""
        return bool(self.spec.get("failurePolicy") == "Ignore")


@dataclass(slots=True)
class Invocations:
    """The mutating webhooks that were called for a request, and those to call again."""

    again: bool = False
    """Whether this is the second round."""
    changed: bool = False
    """Whether any of them has changed the object."""
    callable_again: set[tuple[str, str]] = field(default_factory=set)
    due: set[tuple[str, str]] = field(default_factory=set)
    output: Object | None = None
    """The object as they left it."""

    def require(self) -> None:
        """Call those again that ask for it and were called before: the object has changed since."""
        self.due |= self.callable_again
        self.callable_again.clear()


def may_wait(context: ServerContext, *, writes: bool = True) -> bool:
    """Return whether an operation may have to wait for a webhook: for a conversion, or for the admission of a write."""
    tables = (f"{policies.GROUP}/{plural}" for plural in (MUTATING, VALIDATING))
    return context.registry.converts or (writes and any(context.store.table(table).count for table in tables))


def present(context: ServerContext, plural: str) -> bool:
    """Return whether there is any configuration of that sort, and the caller can wait for webhooks."""
    return bool(context.store.table(f"{policies.GROUP}/{plural}").count) and suspension.possible()


def mutate(context: ServerContext, request: Request, invocations: Invocations) -> None:
    """Call the mutating webhooks one after the other, and apply their patches; raise the failure of the first."""
    if invocations.again and not same(invocations.output, request.obj):
        invocations.require()
    for index, webhook in _concerned(context, request, MUTATING):
        if invocations.again and webhook.key not in invocations.due:
            continue
        if _call_mutating(context, request, webhook, f"round_{int(invocations.again)}_index_{index}"):
            invocations.require()
            invocations.changed = True
        if webhook.spec.get("reinvocationPolicy") == "IfNeeded":
            invocations.callable_again.add(webhook.key)
    invocations.output = request.obj


def validate(context: ServerContext, request: Request) -> None:
    """Call the validating webhooks at one time; raise the failure of the first that does not admit the request."""
    webhooks = [webhook for _, webhook in _concerned(context, request, VALIDATING)]
    if not webhooks:
        return
    reviews = [review_of(request, webhook.kind, webhook.spec) for webhook in webhooks]

    async def call_all() -> list[Response | CallFailed]:
        calls = (response_to(context, webhook.spec, review) for webhook, review in zip(webhooks, reviews, strict=True))
        return await asyncio.gather(*calls)

    problem: Failure | None = None
    for index, answer in enumerate(suspension.result_of(call_all())):
        try:
            _response(request, webhooks[index], answer, "validating", f"round_0_index_{index}")
        except Failure as failure:
            problem = problem or failure
    if problem is not None:
        raise problem


def _concerned(context: ServerContext, request: Request, plural: str) -> Iterator[tuple[int, _Webhook]]:
    """Find the webhooks that concern a request, by name, each with its place among all; 403 if a condition fails."""
    own = request.operation.kind
    if own.group == policies.GROUP and own.plural in _EXEMPT:
        # A webhook cannot lock the administrator out of changing webhooks.
        return
    index = 0
    for snapshot in context.store.table(f"{policies.GROUP}/{plural}").list():
        for spec in policies.decoded(snapshot.raw).get("webhooks") or ():
            kind = _matched(context, request, spec)
            if kind is not None:
                yield index, _Webhook(snapshot.name, spec, kind)
            index += 1


def _matched(context: ServerContext, request: Request, spec: Object) -> Kind | None:
    """Return the kind under which a webhook concerns the request; None if it does not."""
    if not spec.get("rules"):
        return None
    kind = matched(context, request, {**spec, "resourceRules": spec["rules"]})
    if kind is None or not spec.get("matchConditions"):
        return kind
    try:
        admits = Evaluation(context, request, kind, spec, None).meets_conditions()
    except Failed as error:
        if spec.get("failurePolicy") == "Ignore":
            return None
        raise request.forbidden(str(error)) from None
    return kind if admits else None


def _response(request: Request, webhook: _Webhook, answer: Response | CallFailed, sort: str, place: str) -> Response:
    """Return the response of a webhook, and note what it adds; that of a failed call that is ignored admits."""
    operation = request.operation
    if isinstance(answer, CallFailed):
        if not webhook.ignores_failures:
            raise _failed(webhook, str(answer))
        operation.annotations[f"failed-open.{sort}.webhook.admission.k8s.io/{place}"] = webhook.name
        return Response(allowed=True)
    for key, value in (answer.audit_annotations or {}).items():
        operation.annotations[f"{webhook.name}/{key}"] = value
    operation.warnings += answer.warnings or ()
    answer.check_admitted(webhook.name)
    return answer


def _failed(webhook: _Webhook, why: str) -> Failure:
    return status.internal(f'failed calling webhook "{webhook.name}": {why}')


def _call_mutating(context: ServerContext, request: Request, webhook: _Webhook, place: str) -> bool:
    """Call a webhook and apply its patch; return whether the object has changed."""
    review = review_of(request, webhook.kind, webhook.spec)
    answer = suspension.result_of(response_to(context, webhook.spec, review))
    response = _response(request, webhook, answer, "mutation", place)
    before = request.obj
    if response.patch:
        request.obj = _patched(request, webhook, response)
    changed = request.obj is not before
    note = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed}
    request.operation.annotations[f"mutation.webhook.admission.k8s.io/{place}"] = msgspec.json.encode(note).decode()
    return changed


def _patched(request: Request, webhook: _Webhook, response: Response) -> Object | None:
    """Return the object with a webhook's patch, decoded and with defaults."""
    if response.patch_type not in ("", "JSONPatch"):
        why = f"received invalid webhook response: invalid value of webhook response.patchType of {response.patch_type}"
        raise _failed(webhook, why)
    try:
        patch = msgspec.json.decode(base64.b64decode(response.patch))
    except (binascii.Error, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _failed(webhook, f"received undecodable patch in webhook response: {error}") from None
    if not patch:
        return request.obj
    if request.obj is None:
        text = f'admission webhook "{webhook.name}" attempted to modify the object, which is not supported for this'
        raise status.internal(f"{text} operation")
    try:
        changed = json_patch(request.served(request.obj, webhook.kind), patch)
    except (PatchError, Failure) as error:
        raise status.internal(str(error)) from None
    return _finished(request, webhook.kind, changed)


def _finished(request: Request, kind: Kind, changed: Any) -> Object:
    """Return a patched object in canonical form: without fields that its kind does not have, and with defaults.

    It was patched in the version of `kind`.
    """
    before = request.obj
    assert before is not None
    if type(changed) is not dict or type(changed.get("metadata")) is not dict:
        raise status.internal("the patched object is not an object with metadata")
    if kind is not request.operation.kind and kind.custom is not None and kind.custom.converter is not None:
        structural.default(kind.custom.schema, changed)
        (changed,) = kind.custom.converter.convert([changed], before["apiVersion"])
    changed["apiVersion"] = before["apiVersion"]
    if same(changed, before):
        return before
    if changed.get("kind") != before["kind"]:
        raise status.internal("a webhook must not change kind")
    try:
        obj = objects.canonical(request.operation, changed, "Ignore")
    except Undecodable as error:
        raise status.internal(error.why) from None
    return before if same(obj, before) else obj
