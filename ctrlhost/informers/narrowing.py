"""Which part of a wider informer a narrower one is, so that both can share one watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.selectors import labels as selectors
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.informers.namespace_informer import Scope
    from ctrlhost.selectors.namespaces import Namespaces


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects by namespace, name and labels; None is any."""

    namespaces: tuple[str, ...] | None
    name: str | None
    labels: tuple[selectors.Requirement, ...]

    def selects(self, obj: Any) -> bool:
        """Tell whether an object belongs to it."""
        if self.namespaces is not None and obj.namespace not in self.namespaces:
            return False
        return (self.name is None or obj.name == self.name) and selectors.matches(self.labels, obj.labels)

    def within(self, predicates: Sequence[Any]) -> _core.Predicate:
        """Give the predicate that lets `predicates` see these objects only, as if there were no others."""
        labels = [
            (each.key, None if each.values is None else sorted(each.values), each.negated) for each in self.labels
        ]
        return _core.Predicate.within(tuple(predicates), namespaces=self.namespaces, name=self.name, labels=labels)


def selection_within(wide: Scope, narrow: Scope) -> Selection | None:
    """Give what chooses `narrow` out of `wide`; None if `wide` has not all of it, or that can not be told here."""
    if (wide.api_version, wide.kind) != (narrow.api_version, narrow.kind):
        return None
    if wide.transform is not None or narrow.transform is not None:
        return None
    if not _covers_namespaces(wide.namespaces, narrow.namespaces):
        return None
    if wide.label_selector not in (None, narrow.label_selector):
        return None
    if wide.field_selector not in (None, narrow.field_selector):
        return None
    fields = _fields(narrow.field_selector)
    if fields is None:
        # Only the server can tell which objects most field selectors choose.
        if wide.field_selector is None:
            return None
        fields = {}
    chosen = None if narrow.namespaces == wide.namespaces else narrow.namespaces
    if isinstance(chosen, NamespaceSelector):
        # A view's namespaces stay what they are.
        return None
    if "metadata.namespace" in fields:
        one = fields["metadata.namespace"]
        chosen = (one,) if chosen is None or one in chosen else ()
    try:
        labels = selectors.parse(narrow.label_selector or "")
    except ValueError:
        # The server has the last word on what a selector is.
        return None
    return Selection(chosen, fields.get("metadata.name"), labels)


def _covers_namespaces(wide: Namespaces, narrow: Namespaces) -> bool:
    if wide is None or wide == narrow:
        return True
    if not isinstance(narrow, tuple):
        return False
    if isinstance(wide, NamespaceSelector):
        return all(wide.always_selects(name) for name in narrow)
    return set(narrow) <= set(wide)


def _fields(selector: str | None) -> dict[str, str] | None:
    """Read a field selector that names an object or a namespace; None for any other."""
    found: dict[str, str] = {}
    for term in selector.split(",") if selector else ():
        name, equals, value = term.replace("==", "=").partition("=")
        if name.strip() not in ("metadata.name", "metadata.namespace") or not equals or not value or "=" in value:
            return None
        found[name.strip()] = value.strip()
    return found
