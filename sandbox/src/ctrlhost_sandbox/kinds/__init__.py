"""The behaviour of built-in kinds: a file per API group, and one strategy object per kind.

Imports `context` and below. Public: `strategy_of`, `strategy.set_defaults`, `cells`, and `services.hold`. A kind is
added in `registry.builtin` and in its group's file, whose `STRATEGIES` are found by name.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, Strategy

if TYPE_CHECKING:
    from ctrlhost_sandbox.registry.registry import Kind

_STRATEGIES: dict[tuple[str, str], Strategy] = {}
for _file in pkgutil.iter_modules(__path__):
    _STRATEGIES |= getattr(import_module(f"{__name__}.{_file.name}"), "STRATEGIES", {})
_BUILTIN, _CUSTOM = BuiltinStrategy(), Strategy()


def strategy_of(kind: Kind, subresource: str = "") -> Strategy:
    """Return the strategy of a kind, or of its sub-resource's kind."""
    if subresource == "scale":
        return _STRATEGIES["autoscaling", "Scale"]
    return _CUSTOM if kind.custom is not None else _STRATEGIES.get((kind.group, kind.kind), _BUILTIN)
