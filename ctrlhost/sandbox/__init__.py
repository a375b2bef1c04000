"""An embedded API server that serves a stock kubectl.

Imports `errors` and `_core`. Public: the names in `__all__`, imported at first use; only `authoring`, `cli` and
`testing` import from here, inside functions. Rooms, from the top: `server`, `controllers`, `api`, `verbs`, `kinds`, the
module `context`, then `auth`, `crds` and `patch`, `encoding` and `registry`, `http`, `schema` and `storage`, and
`apimachinery`; each imports only rooms below it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.sandbox.auth.audit import AuditRecord
    from ctrlhost.sandbox.context import Options
    from ctrlhost.sandbox.server.server import Sandbox

__all__ = ["AuditRecord", "Options", "Sandbox"]

_HOMES = {"AuditRecord": "auth.audit", "Options": "context", "Sandbox": "server.server"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
