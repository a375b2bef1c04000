"""The decorators of `kopf.on`, and those of subhandlers: they register a function and return it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ctrlhost_kopf.dicts import parse_field
from ctrlhost_kopf.execution import Reason, handler_var, subregistry_var
from ctrlhost_kopf.registry import Handler, Selector, get_default_registry, id_of
from ctrlhost_kopf.unsupported import NotSupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KIND = ("group", "version", "kind", "plural", "singular", "shortcut", "category")
_RETRIES = ("errors", "timeout", "retries", "backoff")
_FILTERS = ("labels", "annotations", "when", "field", "value")
_CHANGES = ("old", "new")
_WEBHOOK = ("operation", "operations", "subresource", "persistent", "side_effects", "ignore_failures")
_CANCELLATION = ("cancellation_backoff", "cancellation_timeout", "cancellation_polling")


def _decorator(name: str, group: str, *allowed: str, own: tuple[str, ...] = (), **defaults: Any) -> Callable[..., Any]:
    """Return a decorator with these keywords; `own` are those that only its group has."""
    of_objects = "labels" in allowed

    def declare(*kinds: Any, id: str | None = None, registry: Any = None, **keywords: Any) -> Callable[..., Any]:  # noqa: A002
        for keyword in keywords:
            if keyword not in (*allowed, *own, "param", *(_KIND if of_objects else ())):
                raise NotSupported(f"the argument `{keyword}` of kopf.on.{name}", section="limits")
        if len(kinds) > 3 or (kinds and not of_objects):
            raise TypeError(f"kopf.on.{name} takes {'at most three names' if of_objects else 'keywords only'}: {kinds}")
        selector = Selector.of(*kinds, **{key: keywords.pop(key, None) for key in _KIND}) if of_objects else None
        fields = {**defaults, **_checked(keywords)}
        if "optional" in fields:
            fields["requires_finalizer"] = not fields.pop("optional")
        options = {key: fields.pop(key) for key in own if key in fields}

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            suffix = "" if group == "index" or not fields.get("field") else f"/{'.'.join(fields['field'])}"
            handler = Handler(group, fn, f"{id or id_of(fn)}{suffix}", selector, options=options, **fields)
            (get_default_registry() if registry is None else registry).append(handler)
            return fn

        return register

    declare.__name__, declare.__doc__ = name, f"Register a function as kopf's `@kopf.on.{name}` does."
    return declare


def _checked(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords without those that are None; TypeError or ValueError for what contradicts itself."""
    keywords = {key: value for key, value in keywords.items() if value is not None}
    if "field" not in keywords and keywords.keys() & {"value", "old", "new"}:
        raise TypeError("value=, old= and new= need a field=")
    if "value" in keywords and keywords.keys() & {"old", "new"}:
        raise TypeError("either value= or old= and new= can be used")
    for filter_name in ("labels", "annotations"):
        pattern: Mapping[str, Any] = keywords.get(filter_name) or {}
        if None in pattern.values():
            raise ValueError(f"{filter_name}= cannot have None; use kopf.PRESENT or kopf.ABSENT")
    if "field" in keywords:
        keywords["field"] = parse_field(keywords["field"]) or None
    if operation := keywords.pop("operation", None):
        warnings.warn("operation= is deprecated, use operations=", DeprecationWarning, stacklevel=4)
        keywords["operations"] = {*keywords.get("operations", ()), operation}
    if "operations" in keywords and not keywords["operations"]:
        raise ValueError("operations= cannot be empty")
    return keywords


startup = _decorator("startup", "startup", *_RETRIES)
cleanup = _decorator("cleanup", "cleanup", *_RETRIES)
login = _decorator("login", "login", *_RETRIES)
probe = _decorator("probe", "probe", *_RETRIES)
validate = _decorator("validate", "validate", *_FILTERS, own=_WEBHOOK)
mutate = _decorator("mutate", "mutate", *_FILTERS, own=_WEBHOOK)
resume = _decorator("resume", "change", *_RETRIES, *_FILTERS, "deleted", initial=True)
create = _decorator("create", "change", *_RETRIES, *_FILTERS, reason=Reason.CREATE)
update = _decorator("update", "change", *_RETRIES, *_FILTERS, *_CHANGES, reason=Reason.UPDATE, needs_change=True)
delete = _decorator("delete", "change", *_RETRIES, *_FILTERS, "optional", reason=Reason.DELETE, requires_finalizer=True)
field = _decorator("field", "change", *_RETRIES, *_FILTERS, *_CHANGES, needs_change=True)
index = _decorator("index", "index", *_RETRIES, *_FILTERS)
event = _decorator("event", "event", *_FILTERS)
daemon = _decorator(
    "daemon", "daemon", *_RETRIES, *_FILTERS, own=("initial_delay", *_CANCELLATION), requires_finalizer=True
)
timer = _decorator(
    "timer",
    "timer",
    *_RETRIES,
    *_FILTERS,
    own=("interval", "initial_delay", "sharp", "idle"),
    requires_finalizer=True,
)


def subhandler(*, id: str | None = None, **keywords: Any) -> Callable[..., Any]:  # noqa: A002 - kopf's word
    """Return a decorator that registers a subhandler of the handler that runs; TypeError outside of one."""
    parent = handler_var.get(None)
    if parent is None or parent.group != "change":
        raise TypeError("only handlers of changes have subhandlers")
    if keywords.keys() & set(_CHANGES) and (parent.reason not in (None, Reason.UPDATE) or parent.initial):
        raise TypeError("old= and new= are for the subhandlers of updates")
    for keyword in keywords:
        if keyword not in (*_RETRIES, *_FILTERS, *_CHANGES, "param"):
            raise NotSupported(f"the argument `{keyword}` of kopf.subhandler", section="limits")
    fields = _checked(keywords)

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{parent.id}/{id or id_of(fn)}"
        subregistry_var.get().append(Handler("change", fn, name, needs_change=parent.needs_change, **fields))
        return fn

    return register


def register(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Register a function to be called after the handler that runs, with the options of `subhandler`."""
    registered: Callable[..., Any] = subhandler(**options)(fn)
    return registered
