"""The text of a key, which a plugin may have made."""

from __future__ import annotations

from typing import Any

from ctrlhost.controller.error_text import encodable
from ctrlhost.request import Request


def key_text(key: Any) -> str:
    """Return a key as one line. A plugin's own type of key is not asked: its `__str__` might hang."""
    if type(key) in (str, int, Request):
        return encodable(str(key))
    return encodable(tuple.__repr__(key)) if isinstance(key, tuple) else f"a {type(key).__name__}"
