"""The types of the options of webhooks, and of what converts objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.duration import DurationLike
    from ctrlhost.models.kinds import KindRef

#: What `@plugin.convert` takes.
Convert: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class WebhookOptions(TypedDict, total=False):
    """The options of `@plugin.validate` and `@plugin.mutate`."""

    name: str | None
    failure_policy: Literal["Fail", "Ignore"]
    timeout: DurationLike
    subresource: str | None
    when: str | None
    namespaces: Sequence[str] | None
    label_selector: str | None
    reads: Sequence[KindRef[Any]]


class MutatorOptions(WebhookOptions, total=False):
    """The options of `@plugin.mutate`."""

    reinvoke: bool
