"""Selections: the objects of a scope, and a narrower scope as a part of a wider one, so that both share a watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.selectors import fields
from ctrlhost.selectors import labels as selectors
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.informers.namespace_informer import Scope
    from ctrlhost.selectors.namespaces import Namespaces


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects by namespace, name and labels; None is any."""

    namespaces: tuple[str, ...] | None
    name: str | None
    labels: tuple[selectors.Requirement, ...]

    def selects(self, obj: Any) -> bool:
        """Return whether an object is selected."""
        if self.namespaces is not None and obj.namespace not in self.namespaces:
            return False
        return (self.name is None or obj.name == self.name) and selectors.matches(self.labels, obj.labels)

    def within(self, predicates: Sequence[Any]) -> _core.Predicate:
        """Return the predicate that applies `predicates` to these objects as if there were no others."""
        labels = selectors.native(self.labels)
        return _core.Predicate.within(tuple(predicates), namespaces=self.namespaces, name=self.name, labels=labels)


def selection_within(wide: Scope, narrow: Scope) -> Selection | None:
    """Return the selection of `narrow` in `wide`; None if `wide` lacks a part of it, or only the server can decide."""
    if (
        (wide.api_version, wide.kind, wide.shard_by) != (narrow.api_version, narrow.kind, narrow.shard_by)
        or wide.transform is not None
        or narrow.transform is not None
        or not _covers_namespaces(wide.namespaces, narrow.namespaces)
        or wide.label_selector not in (None, narrow.label_selector)
        or wide.field_selector not in (None, narrow.field_selector)
    ):
        return None
    chosen_by = _fields(narrow.field_selector)
    if chosen_by is None:
        # Most field selectors can only be evaluated by the server.
        if wide.field_selector is None:
            return None
        chosen_by = {}
    chosen = None if narrow.namespaces == wide.namespaces else narrow.namespaces
    if isinstance(chosen, NamespaceSelector):
        # A view has fixed namespaces.
        return None
    if "metadata.namespace" in chosen_by:
        namespace = chosen_by["metadata.namespace"]
        chosen = (namespace,) if chosen is None or namespace in chosen else ()
    try:
        labels = selectors.parse(narrow.label_selector or "")
    except ValueError:
        # The server decides whether a selector is valid.
        return None
    return Selection(chosen, chosen_by.get("metadata.name"), labels)


def _covers_namespaces(wide: Namespaces, narrow: Namespaces) -> bool:
    if wide is None or wide == narrow:
        return True
    if not isinstance(narrow, tuple):
        return False
    if isinstance(wide, NamespaceSelector):
        return all(wide.always_selects(name) for name in narrow)
    return set(narrow) <= set(wide)


def _fields(selector: str | None) -> dict[str, str] | None:
    """Parse a field selector of an object's name or namespace; None for any other."""
    try:
        requirements = fields.parse(selector or "")
    except ValueError:
        return None
    if any(requirement.negated or not requirement.value for requirement in requirements):
        return None
    values = {requirement.path: requirement.value for requirement in requirements}
    return values if values.keys() <= {"metadata.name", "metadata.namespace"} else None


def scope_selects(scope: Scope, obj: Mapping[str, Any]) -> bool:
    """Return whether the selectors of a scope select an object, whatever its namespace."""
    if not scope.label_selector and not scope.field_selector:
        return True
    labels = obj["metadata"].get("labels") or {}
    if not selectors.matches(selectors.parse(scope.label_selector or ""), labels):
        return False
    return all(requirement.matches(obj) for requirement in fields.parse(scope.field_selector or ""))
