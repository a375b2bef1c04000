"""The handlers of `kopf.on.validate` and `kopf.on.mutate`, each a webhook of the host."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import ctrlhost
from ctrlhost_kopf.bodies import Body, Resource
from ctrlhost_kopf.diffs import diff
from ctrlhost_kopf.execution import Cause, ErrorsMode, PermanentError, execute_handler
from ctrlhost_kopf.filters import label_selector, match
from ctrlhost_kopf.patches import Patch
from ctrlhost_kopf.posting import LocalObjectLogger, operator_var
from ctrlhost_kopf.progress import HandlerState

if TYPE_CHECKING:
    from ctrlhost_kopf.plugin import Operator
    from ctrlhost_kopf.registry import Handler

Headers: TypeAlias = Mapping[str, str]
SSLPeer: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
WebhookClientConfig: TypeAlias = dict[str, Any]
WebhookClientConfigService: TypeAlias = dict[str, Any]
WebhookFn: TypeAlias = Callable[..., Any]
WebhookServerProtocol: TypeAlias = Callable[..., Any]

#: Of both kinds of webhooks; nothing connects to a plain object, and a deletion has nothing to change.
_OPERATIONS = {"validate": ("CREATE", "UPDATE", "DELETE"), "mutate": ("CREATE", "UPDATE")}
_CODES = range(400, 600)
_LONGEST = 63


class AdmissionError(PermanentError):
    """The request is refused with this message and HTTP status."""

    def __init__(self, message: str | None = "", code: int | None = 500) -> None:
        super().__init__(message)
        self.code = code


class UserInfo(TypedDict, total=False):
    """Who has sent a request."""

    username: str
    uid: str
    groups: list[str]


class WebhookServer:
    """Takes the arguments of a server of kopf; it serves nothing, since the host serves the webhooks."""

    def __init__(self, **options: Any) -> None:
        self.options = options


WebhookK3dServer = WebhookMinikubeServer = WebhookDockerDesktopServer = WebhookServer
WebhookNgrokTunnel = WebhookAutoServer = WebhookAutoTunnel = WebhookServer


def register(operator: Operator, host: ctrlhost.PluginContext, resources: Iterable[Resource]) -> None:
    """Register a webhook for each handler and kind."""
    names: set[str] = set()
    for handler in operator.registry.webhooks:
        selected = handler.selector.select(resources) if handler.selector is not None else []
        if not selected:
            text = "webhook %s: the server does not serve %s: it is registered at the next start"
            host.log.warning(text, handler.id, handler.selector)
        operations, others = _operations(handler)
        if others:
            host.log.warning("webhook %s: not called for %s", handler.id, " and ".join(others))
        for resource in selected if operations else ():
            several = f"-{resource.plural}" if len(selected) > 1 else ""
            host.add_webhook(
                "validate" if handler.group == "validate" else "mutate",
                _name(f"{handler.id}{several}", names),
                (resource.api_version, resource.kind),
                _function(operator, handler, resource),
                operations=operations,
                failure_policy="Ignore" if handler.options.get("ignore_failures") else "Fail",
                timeout=30,
                subresource=handler.options.get("subresource") or "",
                label_selector=label_selector(handler.labels or {}),
            )


def _name(text: str, names: set[str]) -> str:
    """Return a DNS label that no other handler has."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-") or "handler"
    name, number = plain, 1
    while name in names:
        number += 1
        name = f"{plain[: _LONGEST - 4]}-{number}"
    names.add(name)
    return name


def _operations(handler: Handler) -> tuple[list[str], list[str]]:
    """Return the operations that a handler is called for, and those that it wants beyond these."""
    possible = _OPERATIONS[handler.group]
    wanted = handler.options.get("operations") or possible
    return [operation for operation in possible if operation in wanted], sorted(set(wanted) - set(possible))


def _function(operator: Operator, handler: Handler, resource: Resource) -> Callable[..., Any]:
    """Return the function of the host's webhook."""

    async def review(admission: ctrlhost.Admission[Any], new: Any, old: Any) -> Any:
        if not await operator.has_started():
            raise ctrlhost.Denied(f"{operator.name} ends before its start", code=503)
        operator_var.set(operator)
        cause = _cause(operator, resource, admission, new, old)
        if not match(handler, cause):
            return None
        state = HandlerState.fresh(operator.time)
        outcome = await execute_handler(handler, cause, state, default_errors=ErrorsMode.PERMANENT)
        for warning in cause.extra["warnings"]:
            admission.warn(str(warning))
        if (error := outcome.exception) is not None:
            code = (isinstance(error, AdmissionError) and error.code) or 500
            raise ctrlhost.Denied(str(error) or repr(error), code=code if code in _CODES else 500)
        return cause.patch.applied(new) if handler.group == "mutate" and cause.patch else None

    return review


def _cause(operator: Operator, resource: Resource, admission: ctrlhost.Admission[Any], new: Any, old: Any) -> Cause:
    request, body = admission.request, Body(old if new is None else new)
    memory = operator.memories.get((resource, request.namespace, request.name))
    extra = {
        "dryrun": request.dry_run,
        "operation": request.operation,
        "subresource": request.subresource or None,
        "userinfo": UserInfo(username=request.user, groups=list(request.groups)),
        "warnings": [],
        "headers": {},
        "sslpeer": {},
    }
    states = [None if state is None else Body(state) for state in (old, new)]
    return Cause(
        operator,
        LocalObjectLogger(body=body),
        memory.memo if memory is not None else copy.copy(operator.memo),
        "webhook",
        resource,
        body,
        Patch(body=body),
        old=states[0],
        new=states[1],
        diff=diff(*states),
        extra=extra,
    )
