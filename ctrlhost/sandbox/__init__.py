"""An embedded API server that a stock kubectl takes for the real thing."""

from __future__ import annotations

from ctrlhost.sandbox.auth.audit import AuditRecord
from ctrlhost.sandbox.context import Options
from ctrlhost.sandbox.server.server import Sandbox

__all__ = ["AuditRecord", "Options", "Sandbox"]
