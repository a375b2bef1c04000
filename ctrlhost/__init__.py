"""Informers, work queues and a plugin host for Kubernetes controllers.

The names below are the public API. Each is imported on first use, so that `import ctrlhost` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from ctrlhost._core import __version__

if TYPE_CHECKING:
    from ctrlhost import cache, conditions, finalizers, predicates, testing, workqueue
    from ctrlhost.cache import Object, plain
    from ctrlhost.client import AsyncClient, Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.secret import Secret
    from ctrlhost.controller.backoff import Backoff
    from ctrlhost.controller.caches import Cache, Caches
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.handle import ControllerHandle
    from ctrlhost.controller.index import Index
    from ctrlhost.controller.sources import Every, For, Owns, Watches
    from ctrlhost.controller.status import StatusWriter
    from ctrlhost.declarative.async_cache import AsyncCache
    from ctrlhost.declarative.async_context import AsyncContext
    from ctrlhost.declarative.controller import Controller
    from ctrlhost.declarative.plugin import Plugin
    from ctrlhost.declarative.unmanaged_values import unmanaged
    from ctrlhost.duration import Duration
    from ctrlhost.errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        BlockingCall,
        ConfigError,
        Conflict,
        CtrlhostError,
        Denied,
        Expired,
        Forbidden,
        Invalid,
        InvalidObject,
        MethodNotAllowed,
        NotAcceptable,
        NotFound,
        NotLeading,
        NotOwned,
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
        UnknownKind,
        UnsupportedMediaType,
    )
    from ctrlhost.hookspecs import hookimpl
    from ctrlhost.informers import Informer, InformerFactory, Owner
    from ctrlhost.informers.mappings import ByIndex, ByLabel
    from ctrlhost.models.crd import crd_of
    from ctrlhost.models.kinds import resource
    from ctrlhost.models.markers import Column, IntOrString, ListMap, Quantity, Rule
    from ctrlhost.models.model import Condition, Model, ModelStatus, ModelWithoutSpec, ObjectMeta
    from ctrlhost.own_writes.expectations import Expectations
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.crd_files import crds_from
    from ctrlhost.request import Request, Result
    from ctrlhost.webhooks.admission import Admission

__all__ = [
    "Admission",
    "AlreadyExists",
    "ApiError",
    "AsyncCache",
    "AsyncClient",
    "AsyncContext",
    "Backoff",
    "BadRequest",
    "BlockingCall",
    "ByIndex",
    "ByLabel",
    "Cache",
    "Caches",
    "Client",
    "Clock",
    "Column",
    "Condition",
    "ConfigError",
    "Conflict",
    "Context",
    "Controller",
    "ControllerHandle",
    "CtrlhostError",
    "Denied",
    "Duration",
    "Every",
    "Expectations",
    "Expired",
    "For",
    "Forbidden",
    "Index",
    "Informer",
    "InformerFactory",
    "IntOrString",
    "Invalid",
    "InvalidObject",
    "ListMap",
    "MethodNotAllowed",
    "Model",
    "ModelStatus",
    "ModelWithoutSpec",
    "NotAcceptable",
    "NotFound",
    "NotLeading",
    "NotOwned",
    "NotSynced",
    "Object",
    "ObjectMeta",
    "Owner",
    "Owns",
    "PartialObject",
    "Permission",
    "Plugin",
    "PluginContext",
    "PluginError",
    "PluginLoadError",
    "PluginNotFound",
    "PluginRestarted",
    "Quantity",
    "Request",
    "RequestTooLarge",
    "Result",
    "RetryAfter",
    "Rule",
    "Secret",
    "ServerError",
    "Stale",
    "StatusWriter",
    "TerminalError",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "UndeclaredRead",
    "UnknownKind",
    "UnsupportedMediaType",
    "Watches",
    "__version__",
    "cache",
    "conditions",
    "crd_of",
    "crds_from",
    "finalizers",
    "hookimpl",
    "plain",
    "predicates",
    "resource",
    "testing",
    "unmanaged",
    "workqueue",
]

# The modules of the names that are not errors; a public module is its own value.
_HOMES = {
    "Admission": "ctrlhost.webhooks.admission",
    "AsyncCache": "ctrlhost.declarative.async_cache",
    "AsyncClient": "ctrlhost.client",
    "AsyncContext": "ctrlhost.declarative.async_context",
    "Backoff": "ctrlhost.controller.backoff",
    "ByIndex": "ctrlhost.informers.mappings",
    "ByLabel": "ctrlhost.informers.mappings",
    "Cache": "ctrlhost.controller.caches",
    "Caches": "ctrlhost.controller.caches",
    "Client": "ctrlhost.client",
    "Clock": "ctrlhost.clock",
    "Column": "ctrlhost.models.markers",
    "Condition": "ctrlhost.models.model",
    "Context": "ctrlhost.controller.context",
    "Controller": "ctrlhost.declarative.controller",
    "ControllerHandle": "ctrlhost.controller.handle",
    "Duration": "ctrlhost.duration",
    "Every": "ctrlhost.controller.sources",
    "Expectations": "ctrlhost.own_writes.expectations",
    "For": "ctrlhost.controller.sources",
    "Index": "ctrlhost.controller.index",
    "Informer": "ctrlhost.informers",
    "InformerFactory": "ctrlhost.informers",
    "IntOrString": "ctrlhost.models.markers",
    "ListMap": "ctrlhost.models.markers",
    "Model": "ctrlhost.models.model",
    "ModelStatus": "ctrlhost.models.model",
    "ModelWithoutSpec": "ctrlhost.models.model",
    "Object": "ctrlhost.cache",
    "ObjectMeta": "ctrlhost.models.model",
    "Owner": "ctrlhost.informers",
    "Owns": "ctrlhost.controller.sources",
    "Permission": "ctrlhost.permissions",
    "Plugin": "ctrlhost.declarative.plugin",
    "PluginContext": "ctrlhost.plugin.context",
    "Quantity": "ctrlhost.models.markers",
    "Request": "ctrlhost.request",
    "Result": "ctrlhost.request",
    "Rule": "ctrlhost.models.markers",
    "Secret": "ctrlhost.config.secret",
    "StatusWriter": "ctrlhost.controller.status",
    "Watches": "ctrlhost.controller.sources",
    "cache": "ctrlhost.cache",
    "conditions": "ctrlhost.conditions",
    "crd_of": "ctrlhost.models.crd",
    "crds_from": "ctrlhost.plugin.crd_files",
    "finalizers": "ctrlhost.finalizers",
    "hookimpl": "ctrlhost.hookspecs",
    "plain": "ctrlhost.cache",
    "predicates": "ctrlhost.predicates",
    "resource": "ctrlhost.models.kinds",
    "testing": "ctrlhost.testing",
    "unmanaged": "ctrlhost.declarative.unmanaged_values",
    "workqueue": "ctrlhost.workqueue",
}

_importing = RLock()


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "ctrlhost.errors")
    # One at a time: where two threads import modules that need each other, Python lets one see half of a module.
    with _importing:
        module = import_module(home)
    value = module if home.rpartition(".")[2] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
