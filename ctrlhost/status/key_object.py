"""The object of a key: in the cache, on the server, and what holds its deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ctrlhost.cache import Object
from ctrlhost.errors import CtrlhostError
from ctrlhost.request import Request
from ctrlhost.status.model import KeyFinalizer, KeyObject
from ctrlhost.supervisor.held import declared_finalizers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.source import KindSource
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.runtime import PluginRuntime

#: Seconds for a look at the server.
_ASK = 2.0


def key_object(plugin: PluginRuntime, controller: Controller, key: Any) -> KeyObject | None:
    """Return the object of a key, None if the key names none; this asks the server, which may take two seconds."""
    informer, context = controller.primary, plugin.context
    if informer is None or context is None or type(key) is not Request:
        return None
    source = cast("KindSource", next(source for source in controller.sources if source.is_primary))
    cached = informer.lister.get(key.name, key.namespace) if informer.covers(key.namespace) else None
    live: Object | None = None
    unknown = False
    try:
        live = live_object(context, source, key)
    except (CtrlhostError, ValueError):
        unknown = True
    obj = cached if cached is not None else live
    return KeyObject(
        cached_version=cached.resource_version if cached is not None else None,
        server="unknown" if unknown else "missing" if live is None else "found",
        server_version=live.resource_version if live is not None else None,
        generation=obj.generation or None if obj is not None else None,
        observed_generation=_observed(obj, live),
        deleted_since=obj.deletion_timestamp if obj is not None else None,
        finalizers=_finalizers(obj, declared_finalizers(plugin, controller)) if obj is not None else [],
    )


def live_object(context: PluginContext, source: KindSource, key: Request) -> Object | None:
    """Return the object as the server has it, by a list, which the source needs the right for; None without one.

    CtrlhostError if the server does not answer within two seconds.
    """
    pages = context.scope.account.list_pages(
        source.api_version,
        source.kind,
        key.namespace or None,
        field_selector=f"metadata.name={key.name}",
        page_size=1,
        timeout=_ASK,
    )
    items = next(pages)["items"]
    return Object(items[0]) if items else None


def _observed(cached: Object | None, live: Object | None) -> int | None:
    """Return the generation that the status is of; only a part of the object may be cached."""
    whole = live if cached is None or cached.partial else cached
    generation = whole.get_path("status", "observedGeneration", default=None) if whole is not None else None
    return generation if isinstance(generation, int) else None


def _finalizers(obj: Object, declared: Sequence[str]) -> list[KeyFinalizer]:
    present = [KeyFinalizer(name, name in declared, present=True) for name in obj.finalizers]
    return [*present, *(KeyFinalizer(name, own=True, present=False) for name in declared if name not in obj.finalizers)]
