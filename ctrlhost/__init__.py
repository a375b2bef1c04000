"""Informers, work queues and a plugin host for Kubernetes controllers.

The names below are the public API. Each is imported on first use, so that `import ctrlhost` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ctrlhost._core import __version__

if TYPE_CHECKING:
    from ctrlhost import conditions, finalizers, predicates
    from ctrlhost.cache import Object
    from ctrlhost.client import AsyncClient, Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.secret import Secret
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.handle import ControllerHandle
    from ctrlhost.controller.sources import Every, For, Owns, Watches
    from ctrlhost.duration import Duration
    from ctrlhost.errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        ConfigError,
        Conflict,
        CtrlhostError,
        Expired,
        Forbidden,
        Invalid,
        MethodNotAllowed,
        NotAcceptable,
        NotFound,
        NotLeading,
        NotSynced,
        PartialObject,
        PluginError,
        PluginLoadError,
        PluginNotFound,
        PluginRestarted,
        RequestTooLarge,
        RetryAfter,
        ServerError,
        Stale,
        TerminalError,
        TooManyRequests,
        TransportError,
        Unauthorized,
        UndeclaredRead,
        UnsupportedMediaType,
    )
    from ctrlhost.hookspecs import hookimpl
    from ctrlhost.informers import Informer, InformerFactory, Owner
    from ctrlhost.informers.mappings import ByIndex, ByLabel
    from ctrlhost.own_writes.expectations import Expectations
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.crd_files import crds_from
    from ctrlhost.request import Request, Result

__all__ = [
    "AlreadyExists",
    "ApiError",
    "AsyncClient",
    "BadRequest",
    "ByIndex",
    "ByLabel",
    "Client",
    "Clock",
    "ConfigError",
    "Conflict",
    "Context",
    "ControllerHandle",
    "CtrlhostError",
    "Duration",
    "Every",
    "Expectations",
    "Expired",
    "For",
    "Forbidden",
    "Informer",
    "InformerFactory",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "NotLeading",
    "NotSynced",
    "Object",
    "Owner",
    "Owns",
    "PartialObject",
    "Permission",
    "PluginContext",
    "PluginError",
    "PluginLoadError",
    "PluginNotFound",
    "PluginRestarted",
    "Request",
    "RequestTooLarge",
    "Result",
    "RetryAfter",
    "Secret",
    "ServerError",
    "Stale",
    "TerminalError",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "UndeclaredRead",
    "UnsupportedMediaType",
    "Watches",
    "__version__",
    "conditions",
    "crds_from",
    "finalizers",
    "hookimpl",
    "predicates",
]

# The modules of the names that are not errors; a public module is its own value.
_HOMES = {
    "AsyncClient": "ctrlhost.client",
    "ByIndex": "ctrlhost.informers.mappings",
    "ByLabel": "ctrlhost.informers.mappings",
    "Client": "ctrlhost.client",
    "Clock": "ctrlhost.clock",
    "Context": "ctrlhost.controller.context",
    "ControllerHandle": "ctrlhost.controller.handle",
    "Duration": "ctrlhost.duration",
    "Every": "ctrlhost.controller.sources",
    "Expectations": "ctrlhost.own_writes.expectations",
    "For": "ctrlhost.controller.sources",
    "Informer": "ctrlhost.informers",
    "InformerFactory": "ctrlhost.informers",
    "Object": "ctrlhost.cache",
    "Owner": "ctrlhost.informers",
    "Owns": "ctrlhost.controller.sources",
    "Permission": "ctrlhost.permissions",
    "PluginContext": "ctrlhost.plugin.context",
    "Request": "ctrlhost.request",
    "Result": "ctrlhost.request",
    "Secret": "ctrlhost.config.secret",
    "Watches": "ctrlhost.controller.sources",
    "conditions": "ctrlhost.conditions",
    "crds_from": "ctrlhost.plugin.crd_files",
    "finalizers": "ctrlhost.finalizers",
    "hookimpl": "ctrlhost.hookspecs",
    "predicates": "ctrlhost.predicates",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "ctrlhost.errors")
    module = import_module(home)
    value = module if home.rpartition(".")[2] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
