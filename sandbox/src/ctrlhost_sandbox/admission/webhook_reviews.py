"""Admission reviews: what a webhook is asked, and what its answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from ctrlhost_sandbox.admission import webhook_calls
from ctrlhost_sandbox.admission.webhook_calls import CallFailed, NoClient
from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.status import Cause, Failure
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind

_VERSIONS = ("v1", "v1beta1")


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, rename="camel"):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[_Cause] = []
    retry_after_seconds: _Int32 = 0


class _Status(msgspec.Struct):
    code: _Int32 = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class Response(msgspec.Struct, rename="camel"):
    """The response of a webhook."""

    allowed: bool = False
    uid: str = ""
    status: _Status | None = None
    patch: str = ""
    patch_type: str = ""
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None

    def check_admitted(self, webhook: str) -> None:
        """Raise what a response that does not admit the request says."""
        if self.allowed:
            return
        result = self.status or _Status()
        details = result.details or _Details()
        denied = f"admission webhook {status.show(webhook)} denied the request"
        why = result.message or result.reason
        # HTTP has no code of four digits.
        code = max(result.code, 400) if result.code <= 999 else 500
        raise Failure(
            code,
            result.reason,
            f"{denied}: {why}" if why else f"{denied} without explanation",
            name=details.name,
            group=details.group,
            kind=details.kind,
            uid=details.uid,
            causes=[Cause(cause.reason, cause.message, cause.field) for cause in details.causes],
            retry_after=details.retry_after_seconds or None,
        )


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: Response | None = None


def review_of(request: Request, kind: Kind, webhook: Object) -> Object:
    """Return the review of a request as `kind` shows it, in the first version that the webhook names and is known."""
    version = next(name for name in webhook["admissionReviewVersions"] if name in _VERSIONS)
    return {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "request": {
            "uid": meta.new_uid(),
            **request.described(kind),
            "object": request.served(request.obj, kind),
            "oldObject": request.served(request.old, kind),
        },
    }


async def response_to(context: ServerContext, webhook: Object, review: Object) -> Response | CallFailed:
    """Call a webhook, and return its response, or why there is none."""
    seconds = webhook.get("timeoutSeconds", 10)
    try:
        document = await webhook_calls.call(context, webhook["clientConfig"], review, seconds)
        answer = msgspec.convert(webhook_calls.without_nulls(document), _Answer)
    except NoClient as failure:
        return CallFailed(f"could not get REST client: {failure}")
    except (CallFailed, msgspec.ValidationError) as failure:
        return CallFailed(f"failed to call webhook: {failure}")
    try:
        return _checked(review, answer)
    except CallFailed as failure:
        return failure


def _checked(review: Object, answer: _Answer) -> Response:
    """Return the response of an answer; raise CallFailed if it does not answer the review."""
    response, wanted = answer.response, f"{review['apiVersion']}, Kind={review['kind']}"
    received = f"{answer.api_version or '/'}, Kind={answer.kind}"
    if response is None:
        raise _invalid("webhook response was absent")
    if review["apiVersion"].endswith("/v1"):
        uid = review["request"]["uid"]
        if response.uid != uid:
            raise _invalid(f"expected response.uid={status.show(uid)}, got {status.show(response.uid)}")
        if received != wanted:
            raise _invalid(f"expected webhook response of {wanted}, got {received}")
        if response.patch and not response.patch_type:
            raise _invalid("webhook returned response.patch but not response.patchType")
        if response.patch_type and not response.patch:
            raise _invalid("webhook returned response.patchType but not response.patch")
    return response


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")
