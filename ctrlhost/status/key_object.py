"""The object of a key: in the cache, on the server, its conditions and events, and what holds its deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.cache import Object
from ctrlhost.errors import CtrlhostError
from ctrlhost.request import Request
from ctrlhost.status.model import KeyCondition, KeyEvent, KeyFinalizer, KeyObject, moment
from ctrlhost.supervisor.held import declared_finalizers

if TYPE_CHECKING:
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.source import KindSource
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.status.lookups import Asked
    from ctrlhost.supervisor.runtime import PluginRuntime

#: Seconds for a look at the server.
_ASK = 2.0
#: The conditions that are shown at most.
_CONDITIONS = 20


def key_object(plugin: PluginRuntime, controller: Controller, key: Any, lookups: Asked) -> KeyObject | None:
    """Return the object of a key, None if the key names none.

    `lookups` asks the server, unless it has the answer, which may take two seconds.
    """
    informer, context = controller.primary, plugin.context
    if informer is None or context is None or type(key) is not Request:
        return None
    source = cast("KindSource", next(source for source in controller.sources if source.is_primary))
    cached = informer.lister.get(key.name, key.namespace) if informer.covers(key.namespace) else None
    live, unknown = lookups.ask(("object", controller.name, key), lambda: _looked_up(context, source, key))
    obj = cached if cached is not None else live
    return KeyObject(
        cached_version=cached.resource_version if cached is not None else None,
        server="unknown" if unknown else "missing" if live is None else "found",
        server_version=live.resource_version if live is not None else None,
        generation=obj.generation or None if obj is not None else None,
        observed_generation=_observed(obj, live),
        deleted_since=obj.deletion_timestamp if obj is not None else None,
        finalizers=_finalizers(obj, declared_finalizers(plugin, controller)) if obj is not None else [],
        resource=_resource(context, source),
        conditions=_conditions(_whole(cached, live)),
        events=_events(context, source, key),
    )


def _looked_up(context: PluginContext, source: KindSource, key: Request) -> tuple[Object | None, bool]:
    """Return the object as the server has it, None without one, and whether the server did not answer."""
    try:
        return live_object(context, source, key), False
    except (CtrlhostError, ValueError):
        return None, True


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


def _whole(cached: Object | None, live: Object | None) -> Object | None:
    """Return the cached object, or the server's if only a part of it is cached."""
    return live if cached is None or cached.partial else cached


def _observed(cached: Object | None, live: Object | None) -> int | None:
    """Return the generation that the status is of."""
    whole = _whole(cached, live)
    generation = whole.get_path("status", "observedGeneration", default=None) if whole is not None else None
    return generation if isinstance(generation, int) else None


def _resource(context: PluginContext, source: KindSource) -> str:
    known = context.scope.account.resources.last_known(source.api_version, source.kind)
    group = source.api_version.rpartition("/")[0]
    if known is None:
        return ""
    return f"{known.plural}.{group}" if group else known.plural


def _conditions(obj: Object | None) -> list[KeyCondition]:
    """Return the conditions of an object; those that are malformed are left out."""
    conditions = obj.get_path("status", "conditions", default=None) if obj is not None else None
    if not isinstance(conditions, Sequence):
        return []
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    texts = [
        [str(condition.get(name) or "") for name in names]
        for condition in conditions[:_CONDITIONS]
        if isinstance(condition, Mapping)
    ]
    return [KeyCondition(*fields) for fields in texts if fields[0]]


def _events(context: PluginContext, source: KindSource, key: Request) -> list[KeyEvent]:
    about = context.services.events.about(source.kind, key.namespace, key.name)
    return [KeyEvent(event.type, event.reason, event.note, event.times, moment(event.last)) for event in about]


def _finalizers(obj: Object, declared: Sequence[str]) -> list[KeyFinalizer]:
    present = [KeyFinalizer(name, name in declared, present=True) for name in obj.finalizers]
    return [*present, *(KeyFinalizer(name, own=True, present=False) for name in declared if name not in obj.finalizers)]
