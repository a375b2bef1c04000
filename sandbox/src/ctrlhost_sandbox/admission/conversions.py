"""Conversion webhooks: objects of a CRD in another version than the one in which they are stored or sent."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.admission import webhook_calls
from ctrlhost_sandbox.admission.webhook_calls import CallFailed, NoClient
from ctrlhost_sandbox.apimachinery import status, suspension
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext

_SECONDS = 30
_GROUP = "apiextensions.k8s.io"
_REVIEW = "ConversionReview"


class _Result(msgspec.Struct):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    converted_objects: list[dict[str, Any]] = []
    result: _Result = msgspec.field(default_factory=_Result)


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


class _Invalid(Exception):
    """A converted object is no other form of the same object."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self._part, self._why = part, why

    def in_list(self, index: int) -> str:
        """Return the message for an object of a list."""
        part = "metadata in object" if self._part == "metadata" else "converted object"
        return f"{part} at index {index}: {self._why}"


class Conversion:
    """The conversion webhook of a CRD. Used in the server's own thread."""

    def __init__(self, context: ServerContext, webhook: Mapping[str, Any]) -> None:
        """Call the webhook of a CRD's `spec.conversion`."""
        self._context = context
        self._client: Mapping[str, Any] = webhook["clientConfig"]
        versions = webhook["conversionReviewVersions"]
        self._version = next(name for name in versions if name in ("v1", "v1beta1"))

    def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Return objects in another version, by one review for all; 500 if it fails.

        What was converted before by the same request is remembered.
        """
        if not suspension.possible():
            # Nothing that may wait reads them here: as with the strategy None.
            return [{**copy.deepcopy(obj), "apiVersion": api_version} for obj in objects]
        memory = suspension.memory()
        keys = [(api_version, msgspec.json.encode(obj)) for obj in objects]
        missing = {key: obj for key, obj in zip(keys, objects, strict=True) if key not in memory}
        if missing:
            memory.update(zip(missing, self._call(list(missing.values()), api_version), strict=True))
        return [copy.deepcopy(memory[key]) for key in keys]

    def _call(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        many = "List" if len(objects) > 1 else ""
        what = f"conversion webhook for {objects[0]['apiVersion']}, Kind={objects[0]['kind']}{many}"
        uid = meta.new_uid()
        review = {
            "kind": _REVIEW,
            "apiVersion": f"{_GROUP}/{self._version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)},
        }
        try:
            document = suspension.result_of(webhook_calls.call(self._context, self._client, review, _SECONDS))
            converted = _converted(review, msgspec.convert(webhook_calls.without_nulls(document), _Answer))
        except NoClient as error:
            raise Failure(500, "", f"could not get REST client: {error}") from None
        except (CallFailed, msgspec.ValidationError) as error:
            raise Failure(500, "", f"{what} failed: {error}") from None
        if len(converted) != len(objects):
            raise Failure(500, "", f"{what} returned {len(converted)} objects, expected {len(objects)}")
        for index, (before, after) in enumerate(zip(objects, converted, strict=True)):
            try:
                _restore(before, after, api_version)
            except _Invalid as error:
                # Upstream counts from 1 in a list.
                problem = error.in_list(index + 1) if many else str(error)
                raise Failure(500, "", f"{what} returned invalid {problem}") from None
        return converted


def _converted(review: Object, answer: _Answer) -> list[Object]:
    """Return the objects of an answer; raise CallFailed if it does not answer the review."""
    response, uid = answer.response, review["request"]["uid"]
    if (answer.api_version, answer.kind) != (review["apiVersion"], _REVIEW):
        received = f"{answer.api_version or '/'}, Kind={answer.kind}"
        raise CallFailed(f"expected webhook response of {review['apiVersion']}, Kind={_REVIEW}, got {received}")
    if response is None:
        raise CallFailed("no response provided")
    if response.uid != uid and review["apiVersion"].endswith("/v1"):
        raise CallFailed(f"expected response.uid={status.show(uid)}, got {status.show(response.uid)}")
    if response.result.status != "Success":
        why = f"response.result.status was '{response.result.status}', not 'Success'"
        raise CallFailed(response.result.message or why)
    return response.converted_objects


def _restore(before: Object, after: Object, api_version: str) -> None:
    """Check a converted object, and restore its metadata but labels and annotations; raise _Invalid."""
    received, kind = after.get("apiVersion", ""), after.get("kind", "")
    if received != api_version:
        why = f"invalid groupVersion (expected {api_version}, received {received})"
        raise _Invalid("object at index 0", why)
    if kind != before["kind"]:
        raise _Invalid("object at index 0", f"invalid kind (expected {before['kind']}, received {kind})")
    metadata, sent = copy.deepcopy(before["metadata"]), after.get("metadata")
    sent = sent if type(sent) is dict else {}
    for member, what in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (old := metadata.get(member, "")) != (new := sent.get(member, "")):
            raise _Invalid("object", f"must have the same {what}: {old} != {new}")
    for member in ("labels", "annotations"):
        metadata.pop(member, None)
        if (texts := sent.get(member)) is None:
            continue
        if type(texts) is not dict or not all(type(text) is str for text in texts.values()):
            raise _Invalid("metadata", f"metadata.{member} must be a map of strings in converted object")
        metadata[member] = texts
    after["metadata"] = metadata
