"""How far the caches of a plugin are: what is behind, what it waits for, and whether the plugin may begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.plugin.context import PluginContext


def behind_and_waiting(context: PluginContext) -> tuple[list[str], list[str]]:
    """Give the names of what has not synced, and why those of them wait that wait for somebody to do something."""
    behind, waiting = [], []
    for controller in context.controllers:
        if not controller.has_synced() or controller.waiting():
            behind.append(controller.name)
            if why := controller.waiting():
                waiting.append(why)
    for informer in context.informers:
        if not informer.has_synced or informer.state == "waiting":
            behind.append(str(informer.key))
            if informer.state == "waiting":
                waiting.append(f"{informer.key}: {informer.reason}")
    return behind, waiting


def may_begin(context: PluginContext) -> bool:
    """Say whether the plugin's caches are full.

    A controller that waits, for a CRD or a right, holds up the plugin's other controllers no longer than it takes
    to know that; informers that the plugin holds itself may be what all of them read, and are always waited for.
    """
    controllers = context.controllers
    synced = [controller.has_synced() for controller in controllers]
    settled = all(done or one.waiting() for done, one in zip(synced, controllers, strict=True))
    return settled and (any(synced) or not controllers) and all(one.has_synced for one in context.informers)
