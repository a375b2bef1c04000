"""An embedded API server that serves a stock kubectl.

Public: the names in `__all__`, imported at first use. Rooms, from the top: `server`, `controllers`, `api`, `verbs`,
`kinds`, the module `context`, then `auth`, `crds` and `patch`, `encoding` and `registry`, `http`, `schema` and
`storage`, and `apimachinery`; each imports only rooms below it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost_sandbox._native import __version__
    from ctrlhost_sandbox.auth.audit import AuditRecord
    from ctrlhost_sandbox.context import Options
    from ctrlhost_sandbox.errors import SandboxError
    from ctrlhost_sandbox.server.builtin_schemas import builtin_schemas
    from ctrlhost_sandbox.server.crd_problem import crd_problem
    from ctrlhost_sandbox.server.server import Sandbox

__all__ = ["AuditRecord", "Options", "Sandbox", "SandboxError", "__version__", "builtin_schemas", "crd_problem"]

_HOMES = {
    "AuditRecord": "auth.audit",
    "Options": "context",
    "Sandbox": "server.server",
    "SandboxError": "errors",
    "__version__": "_native",
    "builtin_schemas": "server.builtin_schemas",
    "crd_problem": "server.crd_problem",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
