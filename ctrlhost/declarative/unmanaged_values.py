"""Values that an object gets when it is created, and that belong to others afterwards."""

from __future__ import annotations

from typing import Any, TypeVar, cast

T = TypeVar("T")


class Unmanaged:
    """A value of `unmanaged` in an object."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        """Wrap the value."""
        self.value = value


def unmanaged(value: T) -> T:
    """Return `value` for a field of an object that `ctx.ensure` sets when it creates the object, and never again.

    ```python
    # a part of a controller
    spec = {"replicas": ctrlhost.unmanaged(2)}
    ```

    The field is not the plugin's afterwards: an autoscaler or a user may take it, and nothing repairs it. One that the
    plugin had before is left as it is. It is not possible within a list that the server replaces as a whole.
    """
    return cast("T", Unmanaged(value))


#: The key under which the value of an `Unmanaged` is encoded.
KEY = "ctrlhost.dev/unmanaged"
_NOTHING = object()


def split(content: Any) -> tuple[Any, Any]:
    """Return what is managed of a decoded object, and all of it.

    ValueError for an item of a list that is unmanaged: items have no names of their own.
    """
    managed, full = _split(content)
    return {} if managed is _NOTHING else managed, full


def _split(value: Any) -> tuple[Any, Any]:
    if isinstance(value, dict):
        if value.keys() == {KEY}:
            return _NOTHING, value[KEY]
        parts = {name: _split(below) for name, below in value.items()}
        managed = {name: part for name, (part, _) in parts.items() if part is not _NOTHING}
        full = {name: whole for name, (_, whole) in parts.items()}
        return (managed if managed or not parts else _NOTHING), full
    if isinstance(value, list):
        items = [_split(item) for item in value]
        if any(part is _NOTHING for part, _ in items):
            raise ValueError("an item of a list cannot be unmanaged as a whole; wrap fields of it")
        return [part for part, _ in items], [whole for _, whole in items]
    return value, value
