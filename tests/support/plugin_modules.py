"""Plugins defined inside a test."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import ctrlhost
from tests.support import objects


def plugin_of(setup: Callable[[ctrlhost.PluginContext], Any], name: str = "demo", **hooks: Callable[..., Any]) -> Any:
    """Return a plugin with this setup function; `hooks` are its other hooks, by name without `ctrlhost_`."""
    module = types.ModuleType(name)

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
        setup(plugin)

    module.ctrlhost_setup = ctrlhost_setup  # type: ignore[attr-defined]
    for hook, function in hooks.items():
        setattr(module, f"ctrlhost_{hook}", ctrlhost.hookimpl(function))
    return module


def config_map(
    name: str, namespace: str = "default", /, *, labels: dict[str, str] | None = None, **data: str
) -> dict[str, Any]:
    return objects.config_map(name, data, namespace=namespace, **({"labels": labels} if labels else {}))
