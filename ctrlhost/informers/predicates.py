"""Translation of ready-made predicates to those of the core."""

from __future__ import annotations

from typing import Any

from ctrlhost import _core
from ctrlhost.predicates import Ready

_COMBINED = {"and": _core.Predicate.all_of, "or": _core.Predicate.any_of}


def in_core(predicate: Any) -> Any:
    """Return the core's form of a ready-made predicate; a function, or a predicate with one, is returned unchanged."""
    if not isinstance(predicate, Ready) or not predicate.in_core:
        return predicate
    if predicate.name == "not":
        return _core.Predicate.negate(in_core(predicate.parts[0]))
    if predicate.name in _COMBINED:
        return _COMBINED[predicate.name](*(in_core(part) for part in predicate.parts))
    return getattr(_core.Predicate, predicate.name)(*predicate.finalizers)
