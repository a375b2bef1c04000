"""Plugins made inside a test."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import ctrlhost


def plugin_of(setup: Callable[[ctrlhost.PluginContext], Any], name: str = "demo", **hooks: Callable[..., Any]) -> Any:
    """Give a plugin whose set-up is this function; `hooks` are further ones, by name without `ctrlhost_`."""
    module = types.ModuleType(name)

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
        setup(plugin)

    module.ctrlhost_setup = ctrlhost_setup  # type: ignore[attr-defined]
    for hook, function in hooks.items():
        setattr(module, f"ctrlhost_{hook}", ctrlhost.hookimpl(function))
    return module


def config_map(name: str, namespace: str = "default", *, labels: dict[str, str] | None = None, **data: str) -> dict:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
