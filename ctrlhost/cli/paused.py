"""What `ctrlhost pause` and `ctrlhost resume` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.cli.running_host import RunningHost
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer


def ask(action: str, target: str, socket: Path | None, **more: str) -> tuple[bytes, Answer]:
    """Ask for `pause` or `resume` of a plugin or one controller; return the answer as it came, and read.

    `more` are further fields of the request.

    ConfigError for a target that is neither `PLUGIN` nor `PLUGIN/CONTROLLER`.
    """
    plugin, slash, controller = target.partition("/")
    if not plugin or (slash and not controller):
        raise ConfigError(f"no plugin or controller `{target}`", hint="write it as `PLUGIN` or `PLUGIN/CONTROLLER`")
    host = RunningHost(path=socket)
    body = host.act(action, {"plugin": plugin} | ({"controller": controller} if slash else {}) | more)
    return body, host.read(body)
