"""What `ctrlhost check` finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning", "ok"]

#: The name in place of a plugin for what concerns the host.
HOST = "host"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    #: The name of the plugin, or `host`.
    plugin: str
    #: What was checked: settings, load, declaration, crd, conversion, server, kind, right, api, webhook.
    check: str
    text: str
    hint: str | None = None

    def __str__(self) -> str:
        """Return all but the hint as one line."""
        return f"{self.level} {self.plugin} {self.check}: {' '.join(self.text.split())}"
