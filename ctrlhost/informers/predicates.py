"""Predicates as the core runs them, where it can."""

from __future__ import annotations

from typing import Any

from ctrlhost import _core
from ctrlhost.predicates import Ready

_COMBINED = {"and": _core.Predicate.all_of, "or": _core.Predicate.any_of}


def in_core(predicate: Any) -> Any:
    """Give the core's own form of a ready-made predicate; a function, or what contains one, stays as it is."""
    if not isinstance(predicate, Ready) or not predicate.in_core:
        return predicate
    if predicate.name == "not":
        return _core.Predicate.negate(in_core(predicate.parts[0]))
    if predicate.name in _COMBINED:
        return _COMBINED[predicate.name](*(in_core(part) for part in predicate.parts))
    return getattr(_core.Predicate, predicate.name)()
