"""Take over changed settings in a running host: those of the log, of controllers, of deadlines and of memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from ctrlhost.config.reload import compare
from ctrlhost.controller.pauses import BY_SETTING
from ctrlhost.errors import ConfigError
from ctrlhost.host import log_levels, logs
from ctrlhost.supervisor.loader import installed_plugins

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.controller import Controller
    from ctrlhost.host.state import HostState
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")


def reload(state: HostState, read: Callable[[], Configuration]) -> None:
    """Read the settings again, and take over what needs no restart; invalid ones are logged, and change nothing.

    Never raises, since a reload must not end the host.
    """
    try:
        changes = compare(state.configuration, new := read())
        _check(state, new)
        _check(state, changes.effective)
    except ConfigError as error:
        hint = f" (hint: {error.hint})" if error.hint else ""
        log.error("settings not reloaded: %s%s", error.message, hint)
        return
    except Exception:
        log.exception("settings not reloaded: reading them failed")
        return
    if not apply(state, changes.effective):
        return
    log.info("settings reloaded: %s", ", ".join(changes.taken_over) or "nothing that can be reloaded has changed")
    if changes.later:
        log.warning("settings that need a restart of the host: %s", ", ".join(changes.later))


def _check(state: HostState, new: Configuration) -> None:
    """Raise ConfigError for the first invalid setting of the host."""
    named = [plugin.name for plugin in state.plugins]
    installed = [*named, *installed_plugins()]
    new.check_names(installed)
    new.check_controllers({plugin.name: plugin.controller_names for plugin in state.plugins})
    log_levels.check(new.host.log_levels, installed)
    for name in named:
        new.supervision(name)
    _ = new.client, new.controllers, new.encodings, new.compressions


def apply(state: HostState, configuration: Configuration) -> bool:
    """Use a configuration that differs from that of the host only in what needs no restart; return whether it is used.

    Never raises, in the process of a plugin neither.
    """
    try:
        _apply(state, configuration)
    except Exception:
        # Such as a process that has no room for more threads of workers.
        log.exception("settings reloaded only in part: correct them, or restart the host")
        return False
    return True


def _apply(state: HostState, configuration: Configuration) -> None:
    before, state.configuration = state.configuration, configuration
    levels = configuration.host.log_level, configuration.host.log_levels
    if (before.host.log_level, before.host.log_levels) != levels:
        state.settings = changed(state.settings, log_level=levels[0], log_levels=levels[1])
        logs.set_levels(*levels, [plugin.name for plugin in state.plugins])
    budget = configuration.informers.memory_budget
    if budget is not None and state.factory is not None:
        state.factory.set_memory_budget(budget)
    if state.children is not None:
        state.children.reload(state.settings, configuration)
    for plugin in state.plugins:
        plugin.reload(configuration)
        _change_controllers(state, plugin, before)


def _change_controllers(state: HostState, plugin: PluginRuntime, before: Configuration) -> None:
    old, new = before.controllers, state.configuration.controllers
    if plugin.services is not None:
        overrides = plugin.services.controller_overrides
        overrides.update(new)
        for name in overrides.keys() - new.keys():
            overrides.pop(name, None)
    # After that: a controller that is not among them reads the overrides when its workers start.
    running = {controller.name: controller for controller in plugin.controllers}
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if name.partition("/")[0] != plugin.name or was == now:
            continue
        if (controller := running.get(name)) is not None:
            controller.override(now)
        paused = now is not None and now.paused is True
        if paused != (was is not None and was.paused is True):
            _change_pause(state, plugin, name, controller, paused=paused)


def _change_pause(
    state: HostState, plugin: PluginRuntime, name: str, controller: Controller | None, *, paused: bool
) -> None:
    """Pause a controller, or resume one that the setting has paused; what an operator has paused stays so."""
    pauses = plugin.attempt.pauses if plugin.attempt is not None else None
    pauses = state.pauses if pauses is None else pauses
    if paused:
        pauses.pause(name, BY_SETTING)
        if controller is not None:
            controller.pause(BY_SETTING)
    elif (known := pauses.states().get(name)) is not None and known.by == BY_SETTING:
        pauses.resume(name)
        if controller is not None:
            controller.resume()
