"""A proxy that stands before an API server and does to its connections what networks and tired servers do."""

from __future__ import annotations

from ctrlhost.testing.fault_proxy.fault import Fault, Injected
from ctrlhost.testing.fault_proxy.plan import WEIGHTS
from ctrlhost.testing.fault_proxy.proxy import FaultProxy

__all__ = ["WEIGHTS", "Fault", "FaultProxy", "Injected"]
