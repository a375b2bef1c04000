"""Plugins that a test declares."""

from __future__ import annotations

from typing import Any

import ctrlhost


def declared(name: str = "p", **options: Any) -> Any:
    """Return an empty plugin of this name; the type is left open, as tests also declare what type checkers refuse."""
    plugin = ctrlhost.Plugin(**options)
    plugin.__name__ = name
    return plugin
