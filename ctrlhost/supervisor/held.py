"""Objects whose deletion waits for a finalizer that no run will take off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.controller.controller import Controller
    from ctrlhost.supervisor.runtime import PluginRuntime


def declared_finalizers(plugin: PluginRuntime, controller: Controller) -> list[str]:
    """Return the names of the finalizers that the plugin declares for a controller."""
    loaded = plugin.plugin
    return loaded.finalizers(controller.name.partition("/")[2]) if loaded is not None else []


def held_deletions(plugin: PluginRuntime) -> Iterator[str]:
    """Return a line for each object that is being deleted and whose finalizer failed for good. For any thread."""
    for controller in plugin.controllers:
        given_up = controller.history.given_up()
        if not given_up or controller.primary is None:
            continue
        names = declared_finalizers(plugin, controller)
        for key, failure in given_up:
            obj = controller.primary.lister.get(key.name, key.namespace)
            if obj is None or obj.deletion_timestamp is None:
                continue
            # Their functions are called in this order.
            first = next((name for name in names if name in obj.finalizers), None)
            if first is not None:
                yield (
                    f"the deletion of {controller.primary.kind} {obj.key} waits for {first}, "
                    f"which failed for good: {failure.error}"
                )
