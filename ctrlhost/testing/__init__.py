"""Tools for the tests of plugins: a manual clock, a sandbox per test, a host on it, faults.

They come as fixtures of an installed pytest plugin: `manual_clock`, `sandbox` and `ctrlhost_host`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.testing.clock import ManualClock

__all__ = ["ManualClock"]

_HOMES = {"ManualClock": "ctrlhost.testing.clock"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, since pytest loads this package in every run."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
