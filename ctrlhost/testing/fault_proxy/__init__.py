"""A proxy in front of an API server that injects the faults of networks and overloaded servers."""

from __future__ import annotations

from ctrlhost.testing.fault_proxy.fault import Fault, Injected
from ctrlhost.testing.fault_proxy.plan import WEIGHTS
from ctrlhost.testing.fault_proxy.proxy import FaultProxy

__all__ = ["WEIGHTS", "Fault", "FaultProxy", "Injected"]
