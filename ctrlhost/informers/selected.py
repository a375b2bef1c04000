"""Whether an informer will ever show an object: what its namespaces and selectors say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.selectors import labels as selectors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.informers import Informer


def selects(informer: Informer, obj: Mapping[str, Any]) -> bool:
    """Say whether an informer holds such an object."""
    scope, metadata = informer.scope, obj["metadata"]
    if not informer.covers(metadata.get("namespace") or ""):
        return False
    if scope.label_selector:
        wanted = selectors.parse(scope.label_selector)
        if not selectors.matches(wanted, metadata.get("labels") or {}):
            return False
    return all(_term(term, obj) for term in (scope.field_selector or "").split(",") if term)


def _term(term: str, obj: Mapping[str, Any]) -> bool:
    """Decide one `path=value` or `path!=value` as the server does: by the field's text, empty where there is none."""
    path, operator, wanted = term.partition("!=")
    if not operator:
        path, _, wanted = term.partition("=")
        wanted = wanted.removeprefix("=")
    value: Any = obj
    for step in path.strip().split("."):
        value = value.get(step) if hasattr(value, "get") else None
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return (text == wanted.strip()) != bool(operator)
