"""The one word for the state of a plugin, a controller or an informer, why, and which states are worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.cli.amounts import duration, since

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.cli.running_host import Answer

#: The worst first; what is not here comes before `running`.
_WORST = ("failed", "failing", "over budget", "degraded", "waiting", "reconnecting")
_GOOD = ("standby", "running", "watching", "ok")
#: Reasons of a degraded plugin that each of its controllers shows by itself.
_SEEN = ("errors", "paused", "waiting")


def rank(state: str) -> int:
    """Return the place of a state, the worst first; the text after its word does not count."""
    word = state.partition(": ")[0].partition(" by ")[0]
    if word in _WORST:
        return _WORST.index(word)
    return len(_WORST) + (1 + _GOOD.index(word) if word in _GOOD else 0)


def is_good(state: str) -> bool:
    """Return whether nothing is wrong."""
    return rank(state) > len(_WORST)


def of_informer(informer: Answer) -> str:
    """Return the state of an informer, with the reason if there is one."""
    return f"{informer['state']}: {informer['reason']}" if informer["reason"] else str(informer["state"])


def of_plugin(plugin: Answer) -> str:
    """Return the state of a plugin, with the reason if there is one."""
    return f"{plugin['condition']}: {plugin['reason']}" if plugin["reason"] else str(plugin["condition"])


def reasons_of(plugin: Answer) -> list[str]:
    """Return why a plugin waits, fails or is degraded."""
    reasons = [plugin["reason"]] if plugin["reason"] else []
    reasons += [f"{degradation['reason']}: {degradation['message']}" for degradation in plugin["degraded"]]
    return reasons + [f"missing right: {rule}" for rule in plugin["missing_rights"]]


def of_controller(controller: Answer, plugin: Answer | None, now: str) -> str:
    """Return the most important of what keeps a controller from its work; `ok` for nothing."""
    state = plugin["state"] if plugin is not None else "running"
    if plugin is not None and state not in ("running", "waiting"):
        return of_plugin(plugin)
    match controller["state"]:
        case "waiting":
            return f"waiting: {controller['waiting']}"
        case "paused":
            return pause_of(controller, now)
        case "failing" | "degraded" as word:
            return f"{word}: {controller['outcomes']['sentence']}"
    if plugin is not None and state == "waiting" and not controller["workers"]:
        return of_plugin(plugin)
    for degraded in plugin["degraded"] if plugin is not None else ():
        if degraded["reason"] not in _SEEN and _concerns(degraded["message"], controller["name"]):
            return f"degraded: {degraded['reason']}: {degraded['message']}"
    return str(controller["state"])


def pause_of(controller: Answer, now: str) -> str:
    """Return who has paused a controller, for how long, and why."""
    by = f" by {controller['paused_by']}" if controller["paused_by"] else ""
    held = f", {duration(since(controller['paused_since'], now))}" if controller["paused_since"] else ""
    why = f": {controller['paused_reason']}" if controller["paused_reason"] else ""
    return f"paused{by}{held}{why}"


def plugins_by_name(status: Answer) -> dict[str, Answer]:
    """Return the plugins of a status by their names."""
    return {plugin["name"]: plugin for plugin in status["plugins"]}


def without_controllers(status: Answer) -> Iterable[Answer]:
    """Return the plugins that have no controllers now."""
    having = {controller["name"].partition("/")[0] for controller in status["controllers"]}
    return [plugin for plugin in status["plugins"] if plugin["name"] not in having]


def _concerns(message: str, controller: str) -> bool:
    """Return whether the message is about this controller, or names none of its plugin."""
    plugin = controller.partition("/")[0]
    words = [word.strip(",:;") for word in message.split()]
    named = [word for word in words if word.startswith(f"{plugin}/")]
    return not named or controller in named
