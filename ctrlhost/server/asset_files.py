"""The style and the script of the host's pages, at addresses with a hash of their content."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

#: The path below which they are served.
ASSETS = "/assets/"
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}


class Asset(NamedTuple):
    """A file and its media type."""

    content: bytes
    media_type: str


class AssetFiles:
    """The assets by their addresses, read once."""

    def __init__(self) -> None:
        """Read the files."""
        self.by_path: dict[str, Asset] = {}
        self.style = self._read("css")
        self.script = self._read("js")

    def _read(self, ending: str) -> str:
        content = files("ctrlhost.server").joinpath("assets", f"status.{ending}").read_bytes()
        path = f"{ASSETS}status-{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
        self.by_path[path] = Asset(content, _TYPES[ending])
        return path
