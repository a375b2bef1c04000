"""The filters of handlers: whether an object and its change are what a handler wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_kopf.dicts import resolve
from ctrlhost_kopf.registry import unique

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ctrlhost_kopf.execution import Cause
    from ctrlhost_kopf.registry import Handler


class _Token:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: In place of a value: the label, annotation or field must be absent, or present.
ABSENT, PRESENT = _Token("ABSENT"), _Token("PRESENT")
#: What functions get for a field that is absent.
_UNSET: Any = _Token("UNSET")


def prematch(handler: Handler, cause: Cause) -> bool:
    """Return whether a handler is for this object, whatever its change is."""
    return _matches(handler, cause) and (handler.when is None or bool(handler.when(**cause.kwargs)))


def match(handler: Handler, cause: Cause) -> bool:
    """Return whether a handler is to be called for this object and its change."""
    fits = _matches(handler, cause) and (handler.field is None or _matches_change(handler, cause))
    return fits and (handler.when is None or bool(handler.when(**cause.kwargs)))


def _matches(handler: Handler, cause: Cause) -> bool:
    metadata = cause.body.get("metadata") or {}
    return (
        (handler.selector is None or handler.selector.check(cause.resource))
        and _matches_metadata(handler.labels, metadata.get("labels"), cause)
        and _matches_metadata(handler.annotations, metadata.get("annotations"), cause)
        and (handler.field is None or _matches_value(handler, cause))
    )


def changing(handlers: Iterable[Handler], cause: Cause) -> list[Handler]:
    """Return the handlers of changes to be called for a cause, in their order."""
    deleted = cause.body.metadata.deletion_timestamp is not None
    return unique(
        handler
        for handler in handlers
        if handler.reason in (None, cause.reason)
        and (not handler.initial or (cause.initial and (handler.deleted or not deleted)))
        and match(handler, cause)
    )


def matching(handlers: Iterable[Handler], cause: Cause, excluded: Collection[str] = ()) -> list[Handler]:
    """Return the handlers to be called for an object, in their order."""
    return unique(handler for handler in handlers if handler.id not in excluded and match(handler, cause))


def _matches_metadata(pattern: Mapping[str, Any] | None, content: Mapping[str, str] | None, cause: Cause) -> bool:
    content = content or {}
    for key, wanted in (pattern or {}).items():
        if wanted is ABSENT or wanted is PRESENT:
            fits = (key in content) == (wanted is PRESENT)
        elif callable(wanted):
            fits = bool(wanted(content.get(key), **cause.kwargs))
        else:
            fits = key in content and content[key] == wanted
        if not fits:
            return False
    return True


def label_selector(labels: Mapping[str, Any]) -> str:
    """Return the constant ones among the labels that a handler wants as a selector of the server."""
    special = {PRESENT: "{}", ABSENT: "!{}"}
    constant = {key: value for key, value in labels.items() if not callable(value)}
    return ",".join(special.get(value, "{}={}").format(key, value) for key, value in constant.items())


def _matches_value(handler: Handler, cause: Cause) -> bool:
    """Return whether the field has the value, now or before the change."""
    states = (cause.new, cause.old) if cause.group == "change" else (cause.body,)
    wanted = PRESENT if handler.value is None else handler.value
    return any(_fits(wanted, resolve(state, handler.field, _UNSET), cause) for state in states)


def _matches_change(handler: Handler, cause: Cause) -> bool:
    if cause.group != "change" or handler.group != "change":
        return True
    old, new = (resolve(state, handler.field, _UNSET) for state in (cause.old, cause.new))
    return (
        (not handler.needs_change or old != new)
        and (handler.old is None or _fits(handler.old, old, cause))
        and (handler.new is None or _fits(handler.new, new, cause))
    )


def _fits(wanted: Any, value: Any, cause: Cause) -> bool:
    if wanted is ABSENT or wanted is PRESENT:
        return (value is not _UNSET) == (wanted is PRESENT)
    return bool((callable(wanted) and wanted(value, **cause.kwargs)) or wanted == value)


def not_(fn: Callable[..., bool]) -> Callable[..., bool]:
    """Return a filter that is true where `fn` is not."""
    return lambda *args, **kwargs: not fn(*args, **kwargs)


def all_(fns: Collection[Callable[..., bool]]) -> Callable[..., bool]:
    """Return a filter that is true where all are."""
    return lambda *args, **kwargs: all(fn(*args, **kwargs) for fn in fns)


def any_(fns: Collection[Callable[..., bool]]) -> Callable[..., bool]:
    """Return a filter that is true where one is."""
    return lambda *args, **kwargs: any(fn(*args, **kwargs) for fn in fns)


def none_(fns: Collection[Callable[..., bool]]) -> Callable[..., bool]:
    """Return a filter that is true where none is."""
    return lambda *args, **kwargs: not any(fn(*args, **kwargs) for fn in fns)
