"""The webhook of a function that a plugin with hooks registers."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Literal

from ctrlhost.errors import PluginLoadError
from ctrlhost.models.kinds import kind_of
from ctrlhost.webhooks.reads import WebhookReads
from ctrlhost.webhooks.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.controller.services import PluginScope
    from ctrlhost.models.kinds import KindRef

_NAME = re.compile(r"(?=.{1,63}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")


def webhook_of(
    scope: PluginScope,
    type: Literal["validate", "mutate"],  # noqa: A002 - the field of a webhook
    name: str,
    kind: KindRef[Any],
    function: Callable[..., Any],
    **options: Any,
) -> Webhook:
    """Return the webhook; `options` are the other fields. PluginLoadError for a name that is no DNS label."""
    if not _NAME.fullmatch(name):
        raise PluginLoadError(scope.name, f"{name!r} cannot be the name of a webhook: it must be a DNS label")
    code = inspect.unwrap(function).__code__
    return Webhook(
        plugin=scope.name,
        name=name,
        type=type,
        kind=kind_of(kind),
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        function_name=function.__name__,
        place=f"{code.co_filename}:{code.co_firstlineno}",
        when="",
        namespaces=(),
        reads=WebhookReads(scope, {}),
        **options,
    )
