"""Informers, work queues and a plugin host for Kubernetes controllers.

The names below are the public API. Each is imported when it is first used, so that `import ctrlhost` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ctrlhost._core import __version__

if TYPE_CHECKING:
    from ctrlhost import conditions, finalizers, predicates
    from ctrlhost.context import Context
    from ctrlhost.errors import (
        ApiError,
        RetryAfter,
        Stale,
        TerminalError,
        UndeclaredRead,
    )
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin_context import PluginContext
    from ctrlhost.request import Request
    from ctrlhost.result import Result
    from ctrlhost.sources import Every, For, Owns, Watches

__all__ = [
    "ApiError",
    "Context",
    "Every",
    "For",
    "Owns",
    "Permission",
    "PluginContext",
    "Request",
    "Result",
    "RetryAfter",
    "Stale",
    "TerminalError",
    "UndeclaredRead",
    "Watches",
    "__version__",
    "conditions",
    "finalizers",
    "predicates",
]

# Where each name lives; a module that is itself public stands for itself.
_HOMES = {
    "ApiError": "ctrlhost.errors",
    "Context": "ctrlhost.context",
    "Every": "ctrlhost.sources",
    "For": "ctrlhost.sources",
    "Owns": "ctrlhost.sources",
    "Permission": "ctrlhost.permissions",
    "PluginContext": "ctrlhost.plugin_context",
    "Request": "ctrlhost.request",
    "Result": "ctrlhost.result",
    "RetryAfter": "ctrlhost.errors",
    "Stale": "ctrlhost.errors",
    "TerminalError": "ctrlhost.errors",
    "UndeclaredRead": "ctrlhost.errors",
    "Watches": "ctrlhost.sources",
    "conditions": "ctrlhost.conditions",
    "finalizers": "ctrlhost.finalizers",
    "predicates": "ctrlhost.predicates",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(home)
    value = module if home.rpartition(".")[2] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
