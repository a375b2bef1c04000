"""The behaviour of built-in kinds: a file per API group, and one strategy object per kind.

Imports `context` and below. Public: `strategy_of`, `strategy.set_defaults`, `cells`, and `services.hold`. A kind is
added in `registry.builtin` and in its group's file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox.kinds import apiextensions, apps, coordination, core, discovery, networking, pods, rbac, services
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy, Strategy

if TYPE_CHECKING:
    from ctrlhost.sandbox.registry.registry import Kind

_GROUPS = (apiextensions, apps, coordination, core, discovery, networking, pods, rbac, services)
_STRATEGIES: dict[tuple[str, str], Strategy] = {key: one for group in _GROUPS for key, one in group.STRATEGIES.items()}
_BUILTIN, _CUSTOM = BuiltinStrategy(), Strategy()


def strategy_of(kind: Kind, subresource: str = "") -> Strategy:
    """Return the strategy of a kind, or of its sub-resource's kind."""
    if subresource == "scale":
        return _STRATEGIES["autoscaling", "Scale"]
    return _CUSTOM if kind.custom is not None else _STRATEGIES.get((kind.group, kind.kind), _BUILTIN)
