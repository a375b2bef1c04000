"""Tools for the tests of plugins: a manual clock, a sandbox per test, a host on it, faults and a fault proxy.

An installed pytest plugin offers them as the fixtures `manual_clock`, `sandbox`, `ctrlhost_host` and `faults`.

Imports every room but `cli`; no room imports it. Public: `__all__` and the fixtures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.controller.history import Run
    from ctrlhost.testing.admission import Applied
    from ctrlhost.testing.clock import HurriedClock, ManualClock
    from ctrlhost.testing.converges import converges
    from ctrlhost.testing.fault_proxy import Fault, FaultProxy
    from ctrlhost.testing.faults import Faults
    from ctrlhost.testing.host import HostUnderTest, NotIdle
    from ctrlhost.testing.pytest_plugin import StartHost, StartProxy
    from ctrlhost.testing.record import Write
    from ctrlhost.testing.settle import NotSettled
    from ctrlhost.testing.unit import RecordedEvent, UnitContext, context

__all__ = [
    "Applied",
    "Fault",
    "FaultProxy",
    "Faults",
    "HostUnderTest",
    "HurriedClock",
    "ManualClock",
    "NotIdle",
    "NotSettled",
    "RecordedEvent",
    "Run",
    "StartHost",
    "StartProxy",
    "UnitContext",
    "Write",
    "context",
    "converges",
]

_HOMES = {
    "Applied": "ctrlhost.testing.admission",
    "Fault": "ctrlhost.testing.fault_proxy",
    "FaultProxy": "ctrlhost.testing.fault_proxy",
    "Faults": "ctrlhost.testing.faults",
    "HostUnderTest": "ctrlhost.testing.host",
    "HurriedClock": "ctrlhost.testing.clock",
    "ManualClock": "ctrlhost.testing.clock",
    "NotIdle": "ctrlhost.testing.host",
    "NotSettled": "ctrlhost.testing.settle",
    "RecordedEvent": "ctrlhost.testing.unit",
    "Run": "ctrlhost.controller.history",
    "StartHost": "ctrlhost.testing.pytest_plugin",
    "StartProxy": "ctrlhost.testing.pytest_plugin",
    "UnitContext": "ctrlhost.testing.unit",
    "Write": "ctrlhost.testing.record",
    "context": "ctrlhost.testing.unit",
    "converges": "ctrlhost.testing.converges",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since pytest loads this package in every run."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
