"""Names that a shell completes: of installed plugins, and of what a running host has."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from ctrlhost.cli.running_host import Answer, RunningHost

#: The keys of each part of a queue that are offered, at most.
_KEYS = 200
_LEVELS = ("debug", "info", "warning", "error")


def complete_installed(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the installed plugins; `incomplete` may be a list with commas, whose last name is completed."""
    from ctrlhost.supervisor.loader import installed_plugins

    before, comma, name = incomplete.rpartition(",")
    return [f"{before}{comma}{plugin}" for plugin in _beginning(installed_plugins(), name)]


def complete_controller(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the controllers of the running host."""
    return _beginning((controller["name"] for controller in _status(context)["controllers"]), incomplete)


def complete_target(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the plugins and controllers of the running host."""
    status = _status(context)
    return _beginning((row["name"] for row in [*status["plugins"], *status["controllers"]]), incomplete)


def complete_informer(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the informers of the running host."""
    return _beginning((informer["id"] for informer in _status(context)["informers"]), incomplete)


def complete_level(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the levels of the log, and the plugins of the running host."""
    return _beginning((*_LEVELS, *(plugin["name"] for plugin in _status(context)["plugins"])), incomplete)


def complete_key(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return keys of the controller that the command line names: the failing ones, and those in the queue."""
    from ctrlhost.cli.running_host import parse_controller

    keys: dict[str, None] = {}
    try:
        host, path = _host(context), f"/queues/{parse_controller(context.params.get('controller') or '')}"
        for part in ("failing", "processing", "queued", "delayed"):
            page = host.read(host.get(f"{path}?{urlencode({'part': part, 'limit': _KEYS})}"))
            keys |= dict.fromkeys(item["key"] for item in page["items"])
    except CtrlhostError:
        # A shell shows no errors.
        pass
    return _beginning(keys, incomplete)


def _status(context: click.Context) -> Answer:
    """Return the state of the host that the command line names; an empty one without it."""
    try:
        return _host(context).status()
    except CtrlhostError:
        return {"plugins": [], "controllers": [], "informers": []}


def _host(context: click.Context) -> RunningHost:
    from ctrlhost.cli.running_host import RunningHost

    return RunningHost(context.params.get("url"), context.params.get("socket"))


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
