"""One declared admission webhook."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.models.kinds import Kind
    from ctrlhost.webhooks.reads import WebhookReads

#: The domain of the names that the API server knows webhooks by.
_DOMAIN = "ctrlhost.dev"


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    """A function of `@plugin.validate` or `@plugin.mutate` in one host, with what the API server must know of it."""

    plugin: str
    #: Unique in the plugin, a DNS label.
    name: str
    type: Literal["validate", "mutate"]
    #: Without a model the function gets plain dicts.
    kind: Kind
    function: Callable[..., Any]
    is_async: bool
    #: Name and place of the function, as in messages and as `FILE:LINE`.
    function_name: str
    place: str
    #: Some of CREATE, UPDATE and DELETE.
    operations: tuple[str, ...]
    failure_policy: Literal["Fail", "Ignore"]
    #: Whole seconds, 1 to 30.
    timeout: float
    #: Empty for the object itself.
    subresource: str
    #: A CEL text; empty for all requests.
    when: str
    #: The namespaces whose objects it is called for; empty for all.
    namespaces: tuple[str, ...]
    #: Empty for all objects.
    label_selector: str
    #: Whether a mutator is called again when another one has changed the object after it.
    reinvoke: bool
    #: The kinds that only webhooks read.
    reads: WebhookReads

    @property
    def path(self) -> str:
        """The path on the listener."""
        return f"/{self.type}/{self.plugin}/{self.name}"

    @property
    def qualified_name(self) -> str:
        """The name in a webhook configuration."""
        return f"{self.name}.{plain_name(self.plugin)}.{_DOMAIN}"


def plain_name(plugin: str) -> str:
    """Return a plugin's name as a part of an object's name: lower-case letters, digits and single inner hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", plugin.lower()).strip("-") or "plugin"
