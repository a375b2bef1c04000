"""Names of objects and ports that contain the names of plugins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_LONGEST_PORT = 15


def name_part(plugin: str) -> str:
    """Return a plugin's name as a part of an object's name: lower-case letters, digits and single inner hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", plugin.lower()).strip("-") or "plugin"


def port_name(plugin: str, taken: Collection[str]) -> str:
    """Return a name for a port of the plugin that is not `taken`, of at most 15 characters, a letter among them."""
    plain = name_part(plugin)
    if not re.search("[a-z]", plain):
        plain = f"plugin-{plain}"
    number = 1
    while True:
        suffix = "" if number == 1 else f"-{number}"
        name = plain[: _LONGEST_PORT - len(suffix)].rstrip("-") + suffix
        if name not in taken:
            return name
        number += 1
