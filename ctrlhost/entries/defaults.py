"""The settings below `deadlines`: which entries each is for, and its default."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The setting below `deadlines` for entries that are not hooks.
_SETTINGS = {
    "callback": frozenset({"map", "predicate", "handler", "index", "transform", "requests", "limiter"}),
    "page": frozenset({"page", "listener"}),
    "probe": frozenset({"metrics", "health"}),
    "stopping": frozenset({"ctrlhost_stopping"}),
}
_SETTING = {entry: setting for setting, entries in _SETTINGS.items() for entry in entries}
#: Seconds, by the setting below `deadlines`; 0: no deadline.
DEADLINES: Mapping[str, float] = MappingProxyType(
    {"hook": 30.0, "stopping": 5.0, "callback": 5.0, "page": 10.0, "probe": 2.0}
)


def setting(entry: str) -> str:
    """Return the setting below `deadlines` for an entry such as `map` or `ctrlhost_setup`."""
    return _SETTING.get(entry, "hook")
