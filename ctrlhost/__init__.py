"""Informers, work queues and a plugin host for Kubernetes controllers.

The names below are the public API. Each is imported when it is first used, so that `import ctrlhost` stays cheap.
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
    "Request",
    "RequestTooLarge",
    "Result",
    "RetryAfter",
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
    "finalizers",
    "hookimpl",
    "predicates",
]

# Where each name lives; a module that is itself public stands for itself.
_HOMES = {
    "AlreadyExists": "ctrlhost.errors",
    "ApiError": "ctrlhost.errors",
    "AsyncClient": "ctrlhost.client",
    "BadRequest": "ctrlhost.errors",
    "ByIndex": "ctrlhost.informers.mappings",
    "ByLabel": "ctrlhost.informers.mappings",
    "Client": "ctrlhost.client",
    "Clock": "ctrlhost.clock",
    "ConfigError": "ctrlhost.errors",
    "Conflict": "ctrlhost.errors",
    "Context": "ctrlhost.controller.context",
    "ControllerHandle": "ctrlhost.controller.handle",
    "CtrlhostError": "ctrlhost.errors",
    "Duration": "ctrlhost.duration",
    "Every": "ctrlhost.controller.sources",
    "Expectations": "ctrlhost.own_writes.expectations",
    "Expired": "ctrlhost.errors",
    "For": "ctrlhost.controller.sources",
    "Forbidden": "ctrlhost.errors",
    "Informer": "ctrlhost.informers",
    "InformerFactory": "ctrlhost.informers",
    "Invalid": "ctrlhost.errors",
    "MethodNotAllowed": "ctrlhost.errors",
    "NotAcceptable": "ctrlhost.errors",
    "NotFound": "ctrlhost.errors",
    "NotLeading": "ctrlhost.errors",
    "NotSynced": "ctrlhost.errors",
    "Object": "ctrlhost.cache",
    "PartialObject": "ctrlhost.errors",
    "Owner": "ctrlhost.informers",
    "Owns": "ctrlhost.controller.sources",
    "Permission": "ctrlhost.permissions",
    "PluginContext": "ctrlhost.plugin.context",
    "PluginError": "ctrlhost.errors",
    "PluginLoadError": "ctrlhost.errors",
    "PluginNotFound": "ctrlhost.errors",
    "Request": "ctrlhost.request",
    "RequestTooLarge": "ctrlhost.errors",
    "Result": "ctrlhost.request",
    "RetryAfter": "ctrlhost.errors",
    "ServerError": "ctrlhost.errors",
    "Stale": "ctrlhost.errors",
    "TerminalError": "ctrlhost.errors",
    "TooManyRequests": "ctrlhost.errors",
    "TransportError": "ctrlhost.errors",
    "Unauthorized": "ctrlhost.errors",
    "UndeclaredRead": "ctrlhost.errors",
    "UnsupportedMediaType": "ctrlhost.errors",
    "Watches": "ctrlhost.controller.sources",
    "conditions": "ctrlhost.conditions",
    "finalizers": "ctrlhost.finalizers",
    "hookimpl": "ctrlhost.hookspecs",
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
