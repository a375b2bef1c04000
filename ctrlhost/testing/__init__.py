"""Tools for the tests of plugins: a manual clock, a sandbox per test, a host on it, faults.

They come as fixtures of an installed pytest plugin: `manual_clock`, `sandbox` and `ctrlhost_host`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.testing.clock import ManualClock
    from ctrlhost.testing.faults import Faults
    from ctrlhost.testing.host import HostUnderTest, NotIdle

__all__ = ["Faults", "HostUnderTest", "ManualClock", "NotIdle"]

_HOMES = {
    "Faults": "ctrlhost.testing.faults",
    "HostUnderTest": "ctrlhost.testing.host",
    "ManualClock": "ctrlhost.testing.clock",
    "NotIdle": "ctrlhost.testing.host",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, since pytest loads this package in every run."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
