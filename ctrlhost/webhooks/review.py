"""Admission reviews: from the bytes that the API server sends to those that it is answered."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctrlhost.cache import plain
from ctrlhost.controller.context import bound
from ctrlhost.errors import ConfigError, CtrlhostError, Denied, InvalidObject
from ctrlhost.models.model import decode_json, to_dict
from ctrlhost.webhooks.admission import Admission, AdmissionRequest
from ctrlhost.webhooks.envelope import Envelope, InvalidReview
from ctrlhost.webhooks.json_patch import changed, field_of, patch_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import TypeAlias

    from ctrlhost.webhooks.admission import Plugin
    from ctrlhost.webhooks.webhook import Webhook

    #: The arguments of a call of the function.
    Call: TypeAlias = tuple[Admission[Any, Any, Any], Any, Any]

_NULL = msgspec.Raw(b"null")


class WebhookFailed(CtrlhostError):
    """The function of a webhook has failed; the message names plugin and function. Becomes HTTP 500.

    `__cause__` is what it raised, if it did. Nobody has logged it yet.
    """

    def __init__(self, webhook: Webhook, what: str) -> None:
        """Name the webhook."""
        super().__init__(f"plugin {webhook.plugin}: webhook function {webhook.function_name} {what}")


class Answer(NamedTuple):
    """The answer to a review, for an HTTP 200."""

    body: bytes
    #: Whether the function refused the request.
    denied: bool


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _User(msgspec.Struct):
    username: str = ""
    groups: tuple[str, ...] | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str
    kind: _Kind
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    dry_run: bool | None = None
    options: dict[str, Any] | None = None
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL


_REVIEW = Envelope("admission.k8s.io/v1", "AdmissionReview", _Request)


def answer(webhook: Webhook, body: bytes, plugin: Plugin, *, check_stability: bool = False) -> Answer:
    """Call the `def` of a webhook for a review, on this thread, and return the answer.

    With `check_stability`, a mutator is called again with its own result, and fails if it changes that. Raises
    InvalidReview and WebhookFailed.
    """
    steps = _steps(webhook, body, plugin, check_stability)
    try:
        call = next(steps)
        while True:
            try:
                returned = webhook.function(*call)
            except BaseException as error:  # noqa: BLE001 - it is raised again
                call = steps.throw(error)
            else:
                call = steps.send(returned)
    except StopIteration as end:
        result: Answer = end.value
        return result


async def answer_async(webhook: Webhook, body: bytes, plugin: Plugin, *, check_stability: bool = False) -> Answer:
    """Await the `async def` of a webhook for a review, and return the answer; as `answer`. May be cancelled."""
    steps = _steps(webhook, body, plugin, check_stability)
    try:
        call = next(steps)
        while True:
            try:
                returned = await webhook.function(*call)
            except asyncio.CancelledError:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is raised again
                call = steps.throw(error)
            else:
                call = steps.send(returned)
    except StopIteration as end:
        result: Answer = end.value
        return result


def _steps(webhook: Webhook, body: bytes, plugin: Plugin, check_stability: bool) -> Generator[Call, Any, Answer]:
    """Yield the calls of the function, which are sent what it returns, and return the answer."""
    review = _Admitted(webhook, plugin, _REVIEW.request(body))
    review.check()
    with bound(webhook=webhook.path, uid=review.request.uid):
        try:
            if webhook.type == "validate":
                yield from review.validate()
            else:
                yield from review.mutate(check_stability)
        except Denied as denial:
            return review.answer(denial)
        return review.answer()


class _Admitted:
    """The answer to one request of the API server, while it is made."""

    def __init__(self, webhook: Webhook, plugin: Plugin, request: _Request) -> None:
        self.request = request
        self._webhook = webhook
        self._plugin = plugin
        self._warnings: list[str] = []
        self._operations: list[dict[str, Any]] = []
        self._kind = (f"{request.kind.group}/{request.kind.version}".lstrip("/"), request.kind.kind)
        # A sub-resource such as `scale` has objects of its own kind.
        self._model: Any = webhook.kind.model if self._kind == webhook.kind[:2] else None

    def check(self) -> None:
        """Raise InvalidReview if the request is about objects of another kind."""
        webhook = self._webhook
        if self._kind != webhook.kind[:2] and webhook.subresource in ("", "status"):
            wanted, shown = "/".join(webhook.kind[:2]), "/".join(self._kind)
            raise InvalidReview(f"{webhook.path} takes reviews of {wanted}, got one of {shown}")

    def validate(self) -> Generator[Call, Any, None]:
        """Call the function; raise Denied."""
        request = self.request
        try:
            new = self._shown(request.object)
        except InvalidObject as error:
            raise _denial(error) from None
        try:
            old = self._shown(request.old_object)
        except InvalidObject as error:
            # Who mends or deletes what was stored before its model must not be refused for it.
            self._warnings.append(f"the stored object does not fit the model: {error.problem}")
            if new is None:
                return
            old = None
        with self._contained():
            returned = yield self._context(new if old is None else old), new, old
        if returned is not None:
            raise WebhookFailed(
                self._webhook, f"returned {type(returned).__name__}; it must return None or raise ctrlhost.Denied"
            )

    def mutate(self, check_stability: bool) -> Generator[Call, Any, None]:
        """Call the function, and keep the patch; raise Denied."""
        request = self.request
        left = f"{self._webhook.path} left the object alone"
        try:
            new = self._shown(request.object)
        except InvalidObject as error:
            self._warnings.append(f"{left}, which does not fit: {error.problem}")
            return
        try:
            old = self._shown(request.old_object)
        except InvalidObject as error:
            # Without it, the function would take the object for a new one.
            self._warnings.append(f"{left}: the stored object does not fit: {error.problem}")
            return
        if new is None:
            return
        whole = msgspec.json.decode(request.object)
        result = yield from self._mutated(whole, new, old, check_stability)
        schema = _schema_of(self._model)
        self._operations = list(patch_of(whole, result, schema))
        if not (check_stability and self._operations):
            return
        try:
            again = self._shown(msgspec.json.encode(result))
        except InvalidObject as error:
            raise WebhookFailed(self._webhook, f"returned an object that does not fit: {error.problem}") from None
        second = yield from self._mutated(result, again, old, check_stability)
        if fields := sorted({field_of(operation) for operation in patch_of(result, second, schema)}):
            text = f"is not stable: called again with its own result, it changes {', '.join(fields)}"
            raise WebhookFailed(self._webhook, text)

    def _mutated(self, whole: dict[str, Any], new: Any, old: Any, checked: bool) -> Generator[Call, Any, Any]:
        """Return the object as the function wants it."""
        before = _plain(new)
        with self._contained():
            returned = yield self._context(new), new, old
        if returned is None:
            if checked and list(patch_of(before, _plain(new))):
                raise WebhookFailed(self._webhook, "changed the object and returned None; return the object")
            return whole
        if not isinstance(returned, (self._model or Mapping, Mapping)):
            raise WebhookFailed(self._webhook, f"returned {type(returned).__name__}; it must return the object or None")
        try:
            after = _plain(returned)
            result = changed(whole, before, after, _schema_of(self._model))
        except (TypeError, ValueError, RecursionError) as error:
            raise WebhookFailed(self._webhook, f"returned what is no JSON: {error}") from error
        if any(after.get(name) != before.get(name) for name in ("apiVersion", "kind")):
            raise WebhookFailed(self._webhook, "returned an object of another kind")
        if "metadata" not in after:
            raise WebhookFailed(self._webhook, "returned an object without metadata; return the whole object")
        return result

    def answer(self, denial: Denied | None = None) -> Answer:
        """Return the answer."""
        response: dict[str, Any] = {"uid": self.request.uid, "allowed": denial is None}
        try:
            if denial is not None:
                response["status"] = self._status(denial)
            elif self._operations:
                patch = base64.b64encode(msgspec.json.encode(self._operations)).decode()
                response |= {"patchType": "JSONPatch", "patch": patch}
            if self._warnings:
                response["warnings"] = list(dict.fromkeys(map(_printable, self._warnings)))
            body = _REVIEW.review(response)
        except (TypeError, ValueError, RecursionError) as error:
            raise WebhookFailed(self._webhook, f"has an answer that is no JSON: {error}") from error
        return Answer(body, denial is not None)

    def _status(self, denial: Denied) -> dict[str, Any]:
        status: dict[str, Any] = {"status": "Failure", "code": denial.code, "message": denial.full_message}
        if denial.reason:
            status["reason"] = denial.reason
        if denial.field:
            kind = self.request.kind
            cause = {"reason": "FieldValueInvalid", "message": denial.message, "field": denial.field}
            status["details"] = {
                "name": self.request.name,
                "group": kind.group,
                "kind": kind.kind,
                "causes": [cause],
            }
        return status

    def _context(self, obj: Any) -> Admission[Any, Any, Any]:
        """Return the context of a call that is about this object."""
        request = self.request
        metadata = obj.get("metadata", {}) if isinstance(obj, dict) else getattr(obj, "metadata", None)
        uid = metadata.get("uid", "") if isinstance(metadata, dict) else getattr(metadata, "uid", "")
        shown = AdmissionRequest(
            uid=request.uid,
            operation=request.operation,
            name=request.name,
            namespace=request.namespace,
            subresource=request.sub_resource,
            user=request.user_info.username,
            groups=request.user_info.groups or (),
            dry_run=bool(request.dry_run),
            options=request.options or {},
        )
        return Admission(self._webhook, self._plugin, shown, uid, self._warnings)

    def _shown(self, text: bytes) -> Any:
        """Return an object as the function gets it; None if there is none, InvalidObject if it does not fit."""
        request = self.request
        key = "/".join(filter(None, (request.namespace, request.name)))
        return decode_json(bytes(text), self._model or dict[str, Any] | None, f"{request.kind.kind} {key}".strip())

    @contextmanager
    def _contained(self) -> Iterator[None]:
        try:
            yield
        except (Denied, GeneratorExit):
            raise
        except BaseException as error:
            raise WebhookFailed(self._webhook, "failed; the log of the host has more") from error


def _printable(warning: str) -> str:
    """Return a warning as one line; the API server drops those with control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in warning).split())


def _denial(misfit: InvalidObject) -> Denied:
    """Return the denial of an object that does not fit its model."""
    path, colon, problem = misfit.problem.partition(": ")
    return Denied(problem, field=path) if colon else Denied(misfit.problem)


def _plain(obj: Any) -> dict[str, Any]:
    """Return an object as fresh dicts and lists."""
    if isinstance(obj, msgspec.Struct):
        return to_dict(obj)
    fresh: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj, enc_hook=plain))
    return fresh


@cache
def _schema_of(model: Any) -> dict[str, Any]:
    """Return the structural schema of a model, empty for what has none."""
    from ctrlhost.models.crd import crd_of, defines_kind

    if model is None or not defines_kind(model):
        return {}
    try:
        schema: dict[str, Any] = crd_of(model)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    except ConfigError:
        return {}
    return schema
