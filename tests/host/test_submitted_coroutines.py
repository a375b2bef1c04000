"""A hook runs something on the plugin's event loop, and asks whether there is a server."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.manifests.loading import load_plugins

pytestmark = pytest.mark.behaviour("kopf/KO22")


class Hooked:
    """A plugin with hooks."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []
        self.offline: bool | None = None

    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.offline = plugin.offline

    @ctrlhost.hookimpl
    def ctrlhost_synced(self, plugin: ctrlhost.PluginContext) -> None:
        async def prepare() -> tuple[str, bool]:
            await asyncio.sleep(0)
            return threading.current_thread().name, threading.current_thread() is threading.main_thread()

        async def fail() -> None:
            raise ValueError("odd")

        self.outcomes.append(plugin.submit(prepare()).result())
        self.outcomes.append(plugin.submit(fail()).exception())


def test_a_hook_waits_for_a_coroutine_on_the_loop(ctrlhost_host: Any) -> None:
    plugin = Hooked()
    ctrlhost_host(plugin)
    (name, main), error = plugin.outcomes
    assert (name, main, str(error)) == ("hooked/loop", False, "odd")
    assert plugin.offline is False


def test_a_plugin_knows_that_there_is_no_server() -> None:
    plugin = Hooked()
    load_plugins([plugin], Configuration.gather())
    assert plugin.offline is True
