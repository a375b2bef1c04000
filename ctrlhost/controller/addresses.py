"""The names and paths of plugins that are parts of addresses."""

from __future__ import annotations

#: What a name must be, as a hint.
NAME_RULE = "a name is a part of addresses: it has no slash, whitespace, control character, `?`, `#` or `%`"


def is_name(name: object) -> bool:
    """Return whether a controller or a health check can have this name."""
    usable = isinstance(name, str) and name not in ("", ".", "..") and name.isprintable()
    return usable and not any(char in "/ ?#%" for char in str(name))


def is_path(path: object) -> bool:
    """Return whether a page or a report can have this path."""
    return isinstance(path, str) and path.startswith("/")
